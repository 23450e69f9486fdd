#include "shared/sdk/server_start.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "shared/base/local_socket.h"
#include "shared/base/supervisor_note.h"

namespace holdfast::sdk {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kPause{20};
constexpr std::size_t kLogEndBytes = 400;

/// True if somebody listens on the daemon's socket.
bool answers(const std::string& state_dir) {
  const int fd = connect_locally(state_dir + "/run/clients.sock", SOCK_STREAM);
  if (fd < 0) return false;
  close(fd);
  return true;
}

bool is_program(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

/// Returns the program `holdfast`: what HOLDFAST_PROGRAM names, else in the prefix of this library,
/// else on PATH; empty if there is none.
std::string find_program() {
  if (const char* named = std::getenv("HOLDFAST_PROGRAM"); named != nullptr && *named != '\0') {
    return is_program(named) ? named : "";
  }
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&ensure_server), &here) != 0 &&
      here.dli_fname != nullptr) {
    std::error_code failed;
    for (fs::path up = fs::weakly_canonical(here.dli_fname, failed).parent_path();
         up.has_relative_path(); up = up.parent_path()) {
      if (std::string path = (up / "bin/holdfast").string(); is_program(path)) return path;
    }
  }
  const char* list = std::getenv("PATH");
  std::istringstream folders(list == nullptr ? "/usr/local/bin:/usr/bin" : list);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (std::string path = folder + "/holdfast"; is_program(path)) return path;
  }
  return "";
}

/// Starts the server in a session of its own, so that it lives on when this process ends. Returns
/// false if the program could not be started.
bool start_detached(const std::string& program, const std::string& state_dir,
                    const std::string& log) {
  const std::vector<std::string> words = {program,   "serve",  "--quiet", "--state",
                                          state_dir, "--http", "none"};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);  // nobody here waits for it
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  if (out >= 0) close(out);
  if (in >= 0) close(in);
  if (child < 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string end_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.size() > kLogEndBytes ? all.substr(all.size() - kLogEndBytes) : all;
}

/// One process at a time starts a server of a state directory.
class StartLock {
 public:
  explicit StartLock(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~StartLock() {
    if (fd_ >= 0) close(fd_);
  }
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

 private:
  int fd_;
};

/// Returns the pid of the server that runs on the state directory, 0 if none does. Its daemon may
/// be down for a moment: it is started again by that server, and by nobody else.
pid_t supervisor_of(const std::string& state_dir) {
  const pid_t pid = read_supervisor_note(state_dir + "/run").pid;
  if (pid <= 0 || kill(pid, 0) != 0) return 0;
  std::ifstream name("/proc/" + std::to_string(pid) + "/comm");  // not a later process of that pid
  std::string command;
  return std::getline(name, command) && command.starts_with("holdfast") ? pid : 0;
}

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return Error{Errc::kIo, "make " + path + ": " + failed.message()};
  chmod(path.c_str(), 0700);
  return {};
}

}  // namespace

Result<void> ensure_server(const std::string& state_dir) {
  if (answers(state_dir)) return {};
  const std::string program = find_program();
  if (program.empty()) {
    return Error{Errc::kIo,
                 "no server runs on " + state_dir +
                     ", and no program `holdfast` was found: set HOLDFAST_PROGRAM to its path"};
  }
  HOLDFAST_CHECKED(make_folder(state_dir));
  HOLDFAST_CHECKED(make_folder(state_dir + "/logs"));
  const StartLock lock(state_dir + "/start.lock");
  if (answers(state_dir)) return {};
  const std::string log = state_dir + "/logs/serve.log";
  if (supervisor_of(state_dir) == 0 && !start_detached(program, state_dir, log)) {
    return Error{Errc::kIo, "start " + program + ": " + std::strerror(errno)};
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!answers(state_dir)) {
    if (std::chrono::steady_clock::now() > end) {
      return Error{Errc::kUnreachable,
                   "the server on " + state_dir + " did not come up: " + end_of(log)};
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

Result<void> stop_server(const std::string& state_dir) {
  const pid_t pid = supervisor_of(state_dir);
  if (pid <= 0 || kill(pid, SIGTERM) != 0) {
    return Error{Errc::kNotFound, "no server runs on " + state_dir};
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (kill(pid, 0) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPause);
  return {};
}

}  // namespace holdfast::sdk
