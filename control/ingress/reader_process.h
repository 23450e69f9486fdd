#pragma once
// The child process that reads a model file, as its parent sees it.

#include <sys/types.h>

#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

/// Runs `program --inspect path roots`, which writes its answer to `write_end`. kInternal.
Result<pid_t> start_reader(const std::string& program, const std::string& path,
                           const std::string& roots, int write_end);

/// All that is written until the last writer has closed the pipe, bounded.
std::string read_answer(int fd);

/// What the daemon is told: the answer, or how the child ended (`status` as of waitpid).
wire::Inspected judge_answer(const wire::Inspect& job, const std::string& answer, int status);

/// Without an answer.
wire::Inspected refused_job(const wire::Inspect& job, Errc code, const std::string& what);

}  // namespace holdfast::ingress
