#include "tests/process/running.h"

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
#include "tests/process/test_server.h"

namespace holdfast::process {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

Running::Running(const std::vector<std::string>& args, const std::string& out_path, bool terminal)
    : out_path_(out_path) {
  std::vector<std::string> text = args;
  if (text[0][0] != '/') text[0] = std::string(HOLDFAST_BIN_DIR) + "/" + text[0];
  std::vector<char*> argv;
  for (std::string& arg : text) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int out = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(out >= 0);
  int slave = -1;
  winsize size{};
  size.ws_row = 60;
  size.ws_col = 120;
  if (terminal) CHECK(openpty(&terminal_fd_, &slave, nullptr, nullptr, &size) == 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("HOLDFAST_STATE");
    dup2(terminal ? slave : out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out);
  if (slave >= 0) {
    close(slave);
    fcntl(terminal_fd_, F_SETFL, O_NONBLOCK);
  }
}

Running::~Running() {
  if (pid_ > 0) (void)end(SIGKILL);
  if (terminal_fd_ >= 0) close(terminal_fd_);
}

void Running::copy_terminal() const {
  if (terminal_fd_ < 0) return;
  const int out = open(out_path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal_fd_, buffer, sizeof buffer)) > 0;) {
    CHECK(write(out, buffer, static_cast<std::size_t>(got)) == got);
  }
  close(out);
}

std::string Running::output() const {
  copy_terminal();
  return read_file(out_path_);
}

bool Running::says(const std::string& text, int patience_s) const {
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  while (output().find(text) == std::string::npos) {
    if (SteadyClock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

int Running::end(int signal, int patience_s) {
  kill(pid_, signal);
  const auto until = SteadyClock::now() + std::chrono::seconds(patience_s);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    copy_terminal();  // a full terminal would hold it
    if (SteadyClock::now() > until) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pid_ = 0;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace holdfast::process
