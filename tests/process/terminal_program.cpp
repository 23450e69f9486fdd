#include "tests/process/terminal_program.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "shared/base/check.h"

namespace holdfast::process {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

TerminalProgram::TerminalProgram(const std::vector<std::string>& args) {
  std::vector<std::string> text = args;
  if (text[0][0] != '/') text[0] = std::string(HOLDFAST_BIN_DIR) + "/" + text[0];
  std::vector<char*> argv;
  for (std::string& arg : text) argv.push_back(arg.data());
  argv.push_back(nullptr);
  winsize size{};
  size.ws_row = 40;
  size.ws_col = 200;
  pid_ = forkpty(&fd_, nullptr, nullptr, &size);
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("NO_COLOR", "1", 1);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("HOLDFAST_STATE");
    execv(argv[0], argv.data());
    _exit(127);
  }
  fcntl(fd_, F_SETFL, O_NONBLOCK);
}

TerminalProgram::~TerminalProgram() {
  if (pid_ > 0) kill_now();
  close(fd_);
}

void TerminalProgram::type(const std::string& text) const {
  CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

void TerminalProgram::read_screen() {
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd_, buffer, sizeof buffer)) > 0;) {
    screen_.append(buffer, static_cast<std::size_t>(n));
  }
}

const std::string& TerminalProgram::screen() {
  read_screen();
  return screen_;
}

bool TerminalProgram::shows(const std::string& text, int patience_s) {
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  for (;;) {
    read_screen();
    const std::size_t at = screen_.find(text, looked_at_);
    if (at != std::string::npos) {
      looked_at_ = at + text.size();
      return true;
    }
    if (SteadyClock::now() > until) return false;
    std::this_thread::sleep_for(kLook);
  }
}

void TerminalProgram::send(int signal) const {
  kill(pid_, signal);
}

void TerminalProgram::kill_now() {
  send(SIGKILL);
  wait();
}

int TerminalProgram::wait(int patience_s) {
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    read_screen();  // a full terminal would hold it
    if (SteadyClock::now() > until) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(kLook);
  }
  read_screen();
  pid_ = 0;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace holdfast::process
