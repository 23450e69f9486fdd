#pragma once
// Reads a model file once, at registration: header, hash, tokenizer. The file is not trusted, so a
// child process reads it under limits (`holdfast-ingress --inspect PATH [ROOTS]`).

#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

/// Reads the file in this process; called in the child. Never fails as such: Inspected::refusal has
/// the reason: kIo (missing, unreadable), kFileInvalid (empty, cut short, no GGUF, broken, changed
/// while it was read), kUnsupported (architecture, tokenizer). Cost: one read of the file.
wire::Inspected inspect_file(const std::string& path);

/// Checks what a profile says, and parses its template. kInvalidRequest with what is wrong.
Result<void> check_profile(const std::string& profile);

/// Changes an answer to what the file is with the job's profile, checked before: how its template
/// has reasoning and calls written. A profile with a template for a file without a tokenizer is
/// refused: kUnsupported.
void add_profile(const wire::Inspect& job, wire::Inspected& inspected);

/// Makes an answer that holds only a refusal.
wire::Inspected refused_file(const Error& error);

/// Limits this process; the child calls it first of all. CPU time and address space follow the
/// file's size, descriptors are enough for `files` files; no core file, no new privileges, death
/// with the parent.
void limit_this_process(const std::string& path, std::size_t files);

/// Runs `program --inspect path roots` and reads its answer. A child that a limit or a signal
/// killed is kFileInvalid, and the message says so.
wire::Inspected inspect_in_child(const std::string& program, const wire::Inspect& job);

}  // namespace holdfast::ingress
