#include "control/ingress/reader_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/ingress/inspect.h"
#include "shared/wire/frame.h"

namespace holdfast::ingress {
namespace {

constexpr std::uint64_t kMemoryBytes = 2ULL << 30;       // beyond the mapping of the file
constexpr std::uint64_t kCpuSeconds = 60;                // beyond the time for hashing
constexpr std::uint64_t kHashBytesPerSecond = 50 << 20;  // as a slow machine hashes
constexpr std::size_t kAnswerBytesMax = 256 << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitAddressSpace = false;  // its shadow maps terabytes
#else
constexpr bool kLimitAddressSpace = true;
#endif

void set_limit(int what, std::uint64_t value) {
  const rlimit limit{value, value};
  setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

/// Size of a file, or of everything in a folder; 0 if it cannot be read, which the reader reports.
std::uint64_t bytes_of(const std::string& path) {
  struct stat st = {};
  if (stat(path.c_str(), &st) != 0) return 0;
  std::uint64_t sum = 0;
  if (!S_ISDIR(st.st_mode)) return static_cast<std::uint64_t>(std::max<off_t>(st.st_size, 0));
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) {
    if (fstatat(dirfd(folder), entry->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode)) continue;
    sum += static_cast<std::uint64_t>(std::max<off_t>(st.st_size, 0));
  }
  closedir(folder);
  return sum;
}

}  // namespace

wire::Inspected refused_job(const wire::Inspect& job, Errc code, const std::string& what) {
  wire::Inspected out = refused_file({code, job.path + ": " + what});
  out.job = job.job;
  return out;
}

std::string read_answer(int fd) {
  std::string out;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n > 0 && out.size() < kAnswerBytesMax) out.append(buffer, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return out;
  }
}

Result<pid_t> start_reader(const std::string& program, const std::string& path,
                           const std::string& roots, int write_end) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end, 1);
  std::string flag = "--inspect";
  std::string name = program, file = path, allowed = roots;
  char* argv[] = {name.data(), flag.data(), file.data(), allowed.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Error{Errc::kInternal, program + ": " + std::strerror(error)};
  return pid;
}

void limit_this_process(const std::string& path, std::size_t files) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0);
  const std::uint64_t size = bytes_of(path);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_NOFILE, 32 + files);
  set_limit(RLIMIT_FSIZE, kAnswerBytesMax);
  set_limit(RLIMIT_CPU, kCpuSeconds + size / kHashBytesPerSecond);
  if (kLimitAddressSpace) set_limit(RLIMIT_AS, kMemoryBytes + size);
}

wire::Inspected judge_answer(const wire::Inspect& job, const std::string& answer, int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const std::string how =
        signal == SIGXCPU ? "reading the header took too much time"
                          : "reading the header ended by signal " + std::to_string(signal) + " (" +
                                strsignal(signal) + "); the file is damaged or hostile";
    return refused_job(job, Errc::kFileInvalid, how);
  }
  Result<wire::Message> message = wire::decode(answer);
  auto* inspected = message.has_value() ? std::get_if<wire::Inspected>(&message.value()) : nullptr;
  if (inspected == nullptr) {
    return refused_job(job, Errc::kFileInvalid,
                       "the reader of the header ended with status " +
                           std::to_string(WEXITSTATUS(status)) + " and no answer; out of memory?");
  }
  inspected->job = job.job;
  return std::move(*inspected);
}

wire::Inspected inspect_in_child(const std::string& program, const wire::Inspect& job) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return refused_job(job, Errc::kInternal, std::strerror(errno));
  const Result<pid_t> pid = start_reader(program, job.path, job.roots, ends[1]);
  close(ends[1]);
  if (!pid.has_value()) {
    close(ends[0]);
    return refused_job(job, pid.error().code, pid.error().what);
  }
  const std::string answer = read_answer(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(pid.value(), &status, 0) < 0 && errno == EINTR) {
  }
  return judge_answer(job, answer, status);
}

}  // namespace holdfast::ingress
