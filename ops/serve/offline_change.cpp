#include "ops/serve/offline_change.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ops/serve/state_dir.h"
#include "shared/wire/frame.h"

extern char** environ;

namespace holdfast::cli {
namespace {

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65'536> buffer{};
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// "status 74", "signal 9".
std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "status " + std::to_string(WEXITSTATUS(status));
}

/// Runs a program and returns what it wrote to stdout; kIo if that is nothing.
Result<std::string> output_of(const std::vector<std::string>& argv) {
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    return Error{Errc::kIo, std::string("pipe: ") + std::strerror(errno)};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  // Its log lines are not for the terminal: the answer has what matters.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> raw;
  for (const std::string& argument : argv) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  pid_t pid = 0;
  const int rc = posix_spawn(&pid, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  std::string text;
  if (rc == 0) text = read_all(pipe_fds[0]);
  close(pipe_fds[0]);
  if (rc != 0) return Error{Errc::kIo, "run " + argv[0] + ": " + std::strerror(rc)};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (text.empty()) {
    return Error{Errc::kIo, argv[0] + " ended with " + how_it_ended(status) +
                                " before it answered; the change was made whole or not at all: "
                                "look, and ask again"};
  }
  return text;
}

}  // namespace

bool has_database(const std::string& state_dir) {
  std::error_code failed;
  return std::filesystem::exists(state_dir + "/control.db", failed);
}

Result<wire::OpResult> operate_offline(const std::string& state_dir, const std::string& verb,
                                       const std::string& args) {
  const std::string program = program_folder() + "/holdfastd";
  HOLDFAST_TRY(const std::string frame,
               output_of({program, "--state", state_dir, "--op", verb, "--args", args}));
  HOLDFAST_TRY(wire::Message message, wire::decode(frame));
  auto* result = std::get_if<wire::OpResult>(&message);
  if (result == nullptr) {
    return Error{Errc::kIo, verb + ": " + program + " gave no answer; run it by hand to see why"};
  }
  return std::move(*result);
}

}  // namespace holdfast::cli
