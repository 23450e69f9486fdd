#include "ops/serve/temporary_serve.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "ops/serve/state_dir.h"

namespace holdfast::cli {
namespace {

/// Reads up to the end of the first line, or up to the end of the stream.
std::string read_line(int fd) {
  std::string line;
  char c = 0;
  while (true) {
    const ssize_t n = read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || c == '\n') return line;
    line.push_back(c);
  }
}

pid_t spawn(std::vector<std::string> args, int stdout_fd) {
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // it then stops its own children in order
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);  // Ctrl-C is for us: we cancel the request first
  dup2(stdout_fd, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<TemporaryServe>> TemporaryServe::start(
    const std::string& model_name, const std::string& model_path,
    const std::vector<std::string>& flags) {
  const char* base = std::getenv("TMPDIR");
  std::string folder =
      std::string(base != nullptr && base[0] != '\0' ? base : "/tmp") + "/holdfast-run-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return Error{Errc::kIo, "make temporary directory " + folder + ": " + std::strerror(errno)};
  }
  std::unique_ptr<TemporaryServe> self(new TemporaryServe(folder, true));
  std::vector<std::string> args = {"--model", model_name + "=" + model_path};
  args.insert(args.end(), flags.begin(), flags.end());
  if (self->launch(args)) return self;
  return Error{Errc::kModelFailed, "run " + model_path + ": it could not be served"};
}

Result<std::unique_ptr<TemporaryServe>> TemporaryServe::start_in(const std::string& state_dir) {
  std::unique_ptr<TemporaryServe> self(new TemporaryServe(state_dir, false));
  if (self->launch({})) return self;
  return Error{Errc::kUnreachable, "no daemon runs on " + state_dir +
                                       ", and one for the time of this command did not start"};
}

bool TemporaryServe::launch(const std::vector<std::string>& flags) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  std::vector<std::string> args = {own_program(), "serve", "--quiet",   "--state", state_dir_,
                                   "--http",      "none",  "--ingress", "1"};
  args.insert(args.end(), flags.begin(), flags.end());
  pid_ = spawn(std::move(args), ends[1]);
  close(ends[1]);
  const std::string line = pid_ > 0 ? read_line(ends[0]) : "";
  close(ends[0]);
  return line.rfind("ready", 0) == 0;
}

TemporaryServe::~TemporaryServe() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (!own_directory_) return;
  std::error_code ignored;
  std::filesystem::remove_all(state_dir_, ignored);
}

}  // namespace holdfast::cli
