#pragma once
// A command of the shell, run to its end, for tests of the scripts in ops/.

#include <string>

namespace holdfast::ops {

/// The end of a command: its exit status (-1 if it did not exit), and what it wrote to stdout; also
/// what it wrote to stderr, where the command asks for that ("2>&1").
struct CommandResult {
  int status = -1;
  std::string out;
};
CommandResult run_command(const std::string& command);

}  // namespace holdfast::ops
