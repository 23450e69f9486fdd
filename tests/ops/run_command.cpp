#include "tests/ops/run_command.h"

#include <sys/wait.h>

#include <cstdio>

namespace holdfast::ops {

CommandResult run_command(const std::string& command) {
  CommandResult out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    out.out.append(buffer, n);
  }
  const int ended = pclose(pipe);
  if (WIFEXITED(ended)) out.status = WEXITSTATUS(ended);
  return out;
}

}  // namespace holdfast::ops
