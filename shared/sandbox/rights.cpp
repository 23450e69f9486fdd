#include "shared/sandbox/rights.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

#include "shared/base/roots.h"

namespace holdfast::sandbox {
namespace {

/// Of a dynamic program: the kernel executes this too.
constexpr const char* kLoaders[] = {"/lib/ld-*",     "/lib64/ld-*",     "/lib/*/ld-*",
                                    "/usr/lib/ld-*", "/usr/lib64/ld-*", "/usr/lib/*/ld-*"};
/// What a driver without a linker of its own starts (PoCL).
constexpr const char* kLinkers[] = {"/usr/bin/ld", "/usr/bin/ld.*", "/usr/bin/*-linux-gnu-ld*",
                                    "/usr/bin/clang*", "/usr/lib/llvm-*/bin"};
constexpr const char* kDeviceNodes[] = {"/dev/dri", "/dev/kfd", "/dev/nvidia*", "/dev/accel"};
/// Where libraries keep what they compiled, when the environment names no other place.
constexpr const char* kHomeCaches[] = {"/.cache", "/.nv", "/.pocl"};
constexpr const char* kCacheVariables[] = {"XDG_CACHE_HOME", "POCL_CACHE_DIR", "CUDA_CACHE_PATH",
                                           "TMPDIR"};

void add_found(std::vector<std::string>& out, std::span<const char* const> patterns) {
  for (const char* pattern : patterns) {
    glob_t found{};
    if (glob(pattern, GLOB_NOSORT, nullptr, &found) == 0) {
      out.insert(out.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    globfree(&found);
  }
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Made here, so that a rule can hold for it.
std::string make_list_of_loads() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string path = "/tmp/holdfast-loads-" + std::to_string(geteuid());
  if (runtime != nullptr && *runtime == '/') path = std::string(runtime) + "/holdfast-loads";
  if (geteuid() == 0) path = "/run/holdfast-loads";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
  if (fd >= 0) close(fd);
  return path;
}

}  // namespace

Wish header_reader_wish() {
  Wish wish;
  wish.profile = Profile::kHeaderReader;
  return wish;
}

Wish reader_spawner_wish(const std::string& program) {
  Wish wish;
  wish.profile = Profile::kReaderSpawner;
  wish.files.read = {"/"};
  wish.files.execute = {program};
  add_found(wish.files.execute, kLoaders);
  return wish;
}

Wish helper_wish() {
  Wish wish;
  wish.profile = Profile::kHelper;
  return wish;
}

Wish gateway_wish(const std::vector<std::string>& files, const std::string& notes) {
  Wish wish;
  wish.profile = Profile::kGateway;
  wish.files.read = {"/etc", "/usr/share", "/usr/lib/ssl", "/run/systemd/resolve", "/proc", "/sys"};
  for (const std::string& file : files) wish.files.read.push_back(folder_of(file));
  if (!notes.empty()) {
    mkdir(notes.c_str(), 0700);
    wish.files.write = {notes};
  }
  wish.net.connect_tcp = true;
  return wish;
}

Wish worker_wish(const std::string& roots, const std::string& run_dir) {
  Wish wish;
  wish.profile = Profile::kWorker;
  wish.files.read = split_roots(roots);
  if (wish.files.read.empty()) wish.files.read = {"/"};
  for (const char* machine : {"/proc", "/sys"}) wish.files.read.emplace_back(machine);
  if (!run_dir.empty()) wish.files.read.push_back(run_dir);
  wish.files.write = {make_list_of_loads()};
  return wish;
}

Wish device_worker_wish(const std::string& roots, const std::string& run_dir,
                        const std::string& cache_dir) {
  Wish wish = worker_wish(roots, run_dir);
  wish.profile = Profile::kDeviceWorker;
  for (const char* system : {"/usr", "/etc", "/lib", "/lib64", "/bin", "/opt", "/dev"}) {
    wish.files.read.emplace_back(system);
  }
  wish.files.write.insert(wish.files.write.end(), {cache_dir, "/tmp", "/dev/shm", "/dev/null"});
  const char* home = std::getenv("HOME");
  for (const char* below : kHomeCaches) {
    if (home != nullptr) wish.files.write.push_back(std::string(home) + below);
  }
  for (const char* variable : kCacheVariables) {
    const char* value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') wish.files.write.emplace_back(value);
  }
  // A rule holds for what is there, so the caches are made now.
  for (const std::string& path : wish.files.write) mkdir(path.c_str(), 0700);
  add_found(wish.files.devices, kDeviceNodes);
  add_found(wish.files.execute, kLinkers);
  add_found(wish.files.execute, kLoaders);
  return wish;
}

Wish daemon_wish() {
  Wish wish;
  wish.profile = Profile::kDaemon;
  wish.files.read = {"/"};
  wish.files.write = {"/"};
  return wish;
}

}  // namespace holdfast::sandbox
