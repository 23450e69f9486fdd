#pragma once
// A program of bin/ on a terminal of its own: what is typed, what is shown, and its end.

#include <sys/types.h>

#include <string>
#include <vector>

namespace holdfast::process {

class TerminalProgram {
 public:
  /// Starts bin/args[0] with stdin, stdout and stderr on a new pseudo-terminal that is its
  /// controlling one, so that a typed Ctrl-C is a signal.
  explicit TerminalProgram(const std::vector<std::string>& args);
  ~TerminalProgram();  // SIGKILL if it still runs
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& text) const;
  /// Waits until the screen has shown `text` after what earlier calls waited for.
  bool shows(const std::string& text, int patience_s = 30);
  /// Everything that was shown.
  const std::string& screen();
  void send(int signal) const;
  void kill_now();  // SIGKILL, and waits
  /// Waits for the end; the exit code, or -signal.
  int wait(int patience_s = 30);

 private:
  void read_screen();
  pid_t pid_ = 0;
  int fd_ = -1;
  std::string screen_;
  std::size_t looked_at_ = 0;
};

}  // namespace holdfast::process
