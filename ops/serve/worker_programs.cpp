#include "ops/serve/worker_programs.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <utility>

#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAnswerMs = 5'000;
constexpr std::size_t kAnswerBytes = 4096;
constexpr const char* kProgram = "/holdfast-worker";

/// Reads until the other end is closed, the answer is long, or the time is over.
std::string read_answer(int fd) {
  std::string text;
  const std::int64_t until_ms = system_clock().monotonic_us() / 1000 + kAnswerMs;
  while (text.size() < kAnswerBytes) {
    const std::int64_t left_ms = until_ms - system_clock().monotonic_us() / 1000;
    pollfd item{fd, POLLIN, 0};
    if (left_ms <= 0 || poll(&item, 1, static_cast<int>(left_ms)) <= 0) break;
    char part[512];
    const ssize_t n = read(fd, part, sizeof part);
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(in, part, '/');) parts.push_back(part);
  return parts;
}

}  // namespace

std::vector<std::string> revisions_in(const std::string& class_start) {
  const std::vector<std::string> parts = parts_of(class_start);
  std::vector<std::string> revisions;
  if (parts.empty()) return revisions;
  std::string backend = parts[0];
  // BACKEND/FAMILY/REVISION[:RULE][+BACKEND/FAMILY/REVISION…]
  for (std::size_t at = 2; at < parts.size(); at += 2) {
    revisions.push_back(backend + "/" + parts[at].substr(0, parts[at].find_first_of(":+*")));
    const std::size_t plus = parts[at].rfind('+');
    if (plus == std::string::npos || parts[at].substr(plus + 1) != "cpu") break;
    backend = "cpu";
  }
  return revisions;
}

bool has_class(const WorkerProgram& program, const std::string& class_start) {
  const std::vector<std::string> named = revisions_in(class_start);
  return !named.empty() && std::ranges::all_of(named, [&](const std::string& revision) {
    return std::ranges::find(program.revisions, revision) != program.revisions.end();
  });
}

std::vector<std::string> ask_revisions(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = path;
  std::string flag = "--revisions";
  char* argv[] = {program.data(), flag.data(), nullptr};
  pid_t pid = 0;
  const int rc = posix_spawn(&pid, program.c_str(), &files, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  const std::string answer = rc == 0 ? read_answer(ends[0]) : std::string();
  close(ends[0]);
  if (rc != 0) return {};
  kill(pid, SIGKILL);  // it has answered, or is not going to
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return answer.ends_with('\n') ? words_of(answer) : std::vector<std::string>();
}

const WorkerProgram& WorkerPrograms::ask(const std::string& path) {
  struct stat info {};
  const bool there = stat(path.c_str(), &info) == 0;
  const std::string key = path + "\n" + std::to_string(there ? info.st_mtim.tv_sec : 0) + "\n" +
                          std::to_string(there ? info.st_mtim.tv_nsec : 0) + "\n" +
                          std::to_string(there ? info.st_ino : 0);
  const auto entry = programs_.find(key);
  if (entry != programs_.end()) return entry->second;
  return programs_.emplace(key, WorkerProgram{path, ask_revisions(path)}).first->second;
}

const WorkerProgram& WorkerPrograms::current() {
  return ask(folder_ + kProgram);
}

std::vector<WorkerProgram> WorkerPrograms::older() {
  std::vector<std::string> paths;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_ + "/workers", failed)) {
    std::string path = entry.path().string() + kProgram;
    if (access(path.c_str(), X_OK) == 0) paths.push_back(std::move(path));
  }
  std::ranges::sort(paths);
  std::vector<WorkerProgram> programs;
  programs.reserve(paths.size());
  for (const std::string& path : paths) programs.push_back(ask(path));
  return programs;
}

std::string WorkerPrograms::find(const std::string& class_start) {
  if (has_class(current(), class_start)) return current().path;
  for (const WorkerProgram& program : older()) {
    if (has_class(program, class_start)) return program.path;
  }
  return {};
}

}  // namespace holdfast::cli
