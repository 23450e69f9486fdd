#pragma once
// A program of bin/ that runs while the test goes on, with its stdout in a file.

#include <sys/types.h>

#include <string>
#include <vector>

namespace holdfast::process {

class Running {
 public:
  /// Starts bin/args[0] (or a whole path); stdout and stderr go to `out_path`. `terminal`: stdout
  /// is a pseudo-terminal, whose output is copied to the file.
  Running(const std::vector<std::string>& args, const std::string& out_path, bool terminal = false);
  ~Running();  // SIGKILL if it still runs
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  std::string output() const;
  /// Waits until the output has `text`; false after the patience.
  bool says(const std::string& text, int patience_s = 20) const;
  /// Sends the signal and waits for the end. Returns the exit code, or -signal.
  int end(int signal, int patience_s = 20);

 private:
  void copy_terminal() const;
  std::string out_path_;
  pid_t pid_ = 0;
  int terminal_fd_ = -1;
};

}  // namespace holdfast::process
