#pragma once
// The child process that reads a model file, from its parent's side.

#include <sys/types.h>

#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

/// Starts `program --inspect path roots`, which writes its answer to `write_end`. kInternal if it
/// cannot be started.
Result<pid_t> start_reader(const std::string& program, const std::string& path,
                           const std::string& roots, int write_end);

/// Reads until the last writer has closed the pipe; bytes beyond a bound are dropped.
std::string read_answer(int fd);

/// Makes the daemon's answer from the child's answer and its end (`status` as of waitpid).
wire::Inspected judge_answer(const wire::Inspect& job, const std::string& answer, int status);

/// Makes the answer for a job whose reader gave none.
wire::Inspected refused_job(const wire::Inspect& job, Errc code, const std::string& what);

}  // namespace holdfast::ingress
