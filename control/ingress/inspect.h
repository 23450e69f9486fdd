#pragma once
// Reads a model file once, at registration: header, hash, tokenizer. The file is not trusted, so it
// happens in a child process under limits (`holdfast-ingress --inspect PATH [ROOTS]`).

#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

/// In the child: reads the file in this process. Never fails as such; the reason stands in
/// Inspected::refusal: kIo (missing, unreadable), kFileInvalid (empty, cut short, no GGUF, broken,
/// changed while it was read), kUnsupported (architecture, tokenizer). Cost: one read of the file.
wire::Inspected inspect_file(const std::string& path);

/// An answer that is only a reason.
wire::Inspected refused_file(const Error& error);

/// In the child, first of all: CPU time and address space by the file's size, descriptors for so
/// many files, no core file, no new privileges, death with the parent.
void limit_this_process(const std::string& path, std::size_t files);

/// Runs `program --inspect path roots` and reads its answer. A child that is killed
/// by a limit or by a signal is kFileInvalid with that said.
wire::Inspected inspect_in_child(const std::string& program, const wire::Inspect& job);

}  // namespace holdfast::ingress
