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

/// Loaders of dynamic programs, which the kernel executes too.
constexpr const char* kLoaders[] = {"/lib/ld-*",     "/lib64/ld-*",     "/lib/*/ld-*",
                                    "/usr/lib/ld-*", "/usr/lib64/ld-*", "/usr/lib/*/ld-*"};
/// Linkers that a driver without one of its own starts (PoCL).
constexpr const char* kLinkers[] = {"/usr/bin/ld", "/usr/bin/ld.*", "/usr/bin/*-linux-gnu-ld*",
                                    "/usr/bin/clang*", "/usr/lib/llvm-*/bin"};
constexpr const char* kDeviceNodes[] = {"/dev/dri", "/dev/kfd", "/dev/nvidia*", "/dev/accel"};
/// Folders where libraries cache compiled code, unless the environment names others.
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

/// Creates the list of loads, so that a rule can apply to it. Returns its path.
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

Policy header_reader_policy() {
  Policy policy;
  policy.profile = Profile::kHeaderReader;
  return policy;
}

Policy reader_spawner_policy(const std::string& program) {
  Policy policy;
  policy.profile = Profile::kReaderSpawner;
  policy.files.read = {"/"};
  policy.files.execute = {program};
  add_found(policy.files.execute, kLoaders);
  return policy;
}

Policy helper_policy() {
  Policy policy;
  policy.profile = Profile::kHelper;
  return policy;
}

Policy gateway_policy(const std::vector<std::string>& files, const std::string& notes) {
  Policy policy;
  policy.profile = Profile::kGateway;
  policy.files.read = {"/etc",  "/usr/share", "/usr/lib/ssl", "/run/systemd/resolve",
                       "/proc", "/sys"};
  for (const std::string& file : files) policy.files.read.push_back(folder_of(file));
  if (!notes.empty()) {
    mkdir(notes.c_str(), 0700);
    policy.files.write = {notes};
  }
  policy.net.connect_tcp = true;
  return policy;
}

Policy worker_policy(const std::string& roots, const std::string& run_dir) {
  Policy policy;
  policy.profile = Profile::kWorker;
  policy.files.read = split_roots(roots);
  if (policy.files.read.empty()) policy.files.read = {"/"};
  for (const char* machine : {"/proc", "/sys"}) policy.files.read.emplace_back(machine);
  if (!run_dir.empty()) policy.files.read.push_back(run_dir);
  policy.files.write = {make_list_of_loads()};
  return policy;
}

Policy device_worker_policy(const std::string& roots, const std::string& run_dir,
                            const std::string& cache_dir) {
  Policy policy = worker_policy(roots, run_dir);
  policy.profile = Profile::kDeviceWorker;
  for (const char* system : {"/usr", "/etc", "/lib", "/lib64", "/bin", "/opt", "/dev"}) {
    policy.files.read.emplace_back(system);
  }
  policy.files.write.insert(policy.files.write.end(), {cache_dir, "/tmp", "/dev/shm", "/dev/null"});
  const char* home = std::getenv("HOME");
  for (const char* below : kHomeCaches) {
    if (home != nullptr) policy.files.write.push_back(std::string(home) + below);
  }
  for (const char* variable : kCacheVariables) {
    const char* value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') policy.files.write.emplace_back(value);
  }
  // A rule applies to what exists, so the caches are created first.
  for (const std::string& path : policy.files.write) mkdir(path.c_str(), 0700);
  add_found(policy.files.devices, kDeviceNodes);
  add_found(policy.files.execute, kLinkers);
  add_found(policy.files.execute, kLoaders);
  return policy;
}

Policy fetcher_policy(const std::string& models, const std::string& run_dir) {
  Policy policy;
  policy.profile = Profile::kFetcher;
  policy.files.read = {"/etc",  "/usr/share", "/usr/lib/ssl", "/run/systemd/resolve",
                       "/proc", "/sys"};
  if (const char* authorities = std::getenv("SSL_CERT_FILE")) {
    policy.files.read.push_back(folder_of(authorities));
  }
  policy.files.read.push_back(run_dir);
  policy.files.write = {models};
  policy.net.connect_tcp = true;
  return policy;
}

Policy connecting(Policy policy) {
  policy.network = policy.net.connect_tcp = true;
  return policy;
}

Policy daemon_policy(bool listens) {
  Policy policy;
  policy.profile = Profile::kDaemon;
  policy.network = policy.net.bind_tcp = listens;
  policy.files.read = {"/"};
  policy.files.write = {"/"};
  return policy;
}

}  // namespace holdfast::sandbox
