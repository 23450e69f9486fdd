#include "shared/sandbox/report.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace holdfast::sandbox {
namespace {

std::string folder_in(const std::string& run_dir) {
  return run_dir + "/sandbox";
}

void remove_stale(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const long pid = std::strtol(entry->d_name, nullptr, 10);
    if (pid > 0 && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) {
      unlinkat(dirfd(entries), entry->d_name, 0);
    }
  }
  closedir(entries);
}

int open_report(const std::string& run_dir) {
  if (run_dir.empty()) return -1;
  const std::string folder = folder_in(run_dir);
  mkdir(folder.c_str(), 0700);
  remove_stale(folder);
  const std::string path = folder + "/" + std::to_string(getpid());
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

}  // namespace

Confinement confine_and_report(const Policy& policy, const std::string& run_dir) {
  const int fd = open_report(run_dir);
  const Confinement done = confine(policy);
  log_confinement(done);
  if (fd < 0) return done;
  char line[128];
  const int size = std::snprintf(line, sizeof line, "calls=%d relaxed=%d landlock=%d profile=%s\n",
                                 done.calls ? 1 : 0, done.relaxed ? 1 : 0, done.landlock_abi,
                                 std::string(profile_name(done.profile)).c_str());
  [[maybe_unused]] const ssize_t n = write(fd, line, static_cast<std::size_t>(size));
  close(fd);
  return done;
}

std::optional<Reported> read_report(const std::string& run_dir, std::int64_t pid) {
  std::ifstream file(folder_in(run_dir) + "/" + std::to_string(pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  int calls = 0, relaxed = 0, landlock = 0, at = 0;
  if (std::sscanf(line.c_str(), "calls=%d relaxed=%d landlock=%d profile=%n", &calls, &relaxed,
                  &landlock, &at) != 3 ||
      at == 0) {
    return std::nullopt;
  }
  return Reported{line.substr(static_cast<std::size_t>(at)), calls == 1, relaxed == 1, landlock};
}

}  // namespace holdfast::sandbox
