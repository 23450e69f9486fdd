#include "shared/sandbox/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace holdfast::sandbox {
namespace {

// Debian 12's headers end at version 2.
constexpr std::uint64_t kExecute = 1ULL << 0, kWriteFile = 1ULL << 1, kReadFile = 1ULL << 2,
                        kReadDir = 1ULL << 3, kMakeChar = 1ULL << 6, kMakeBlock = 1ULL << 11;
constexpr std::uint64_t kRefer = 1ULL << 13, kTruncate = 1ULL << 14, kIoctlDevice = 1ULL << 15;
constexpr std::uint64_t kFirst = (1ULL << 13) - 1;
constexpr std::uint64_t kBindTcp = 1ULL << 0, kConnectTcp = 1ULL << 1;
constexpr std::uint64_t kScopeAbstractUnix = 1ULL << 0, kScopeSignal = 1ULL << 1;
constexpr std::uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;

struct Attributes {
  std::uint64_t files = 0;
  std::uint64_t net = 0;     // since version 4
  std::uint64_t scoped = 0;  // since version 6
};

std::size_t size_of(int abi) {
  return sizeof(std::uint64_t) * (abi >= 6 ? 3 : abi >= 4 ? 2 : 1);
}

std::uint64_t supported_rights(int abi) {
  std::uint64_t all = kFirst;
  if (abi >= 2) all |= kRefer;
  if (abi >= 3) all |= kTruncate;
  if (abi >= 5) all |= kIoctlDevice;
  return all;
}

/// Allows a path. True if it does not exist: a missing rule for it loses nothing.
bool allow(int rules, const std::string& path, std::uint64_t rights) {
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0) return true;
  struct stat st = {};
  bool done = fstat(file, &st) == 0;
  if (done) {
    landlock_path_beneath_attr rule = {};
    rule.allowed_access = S_ISDIR(st.st_mode) ? rights : rights & kOfFiles;
    rule.parent_fd = file;
    done = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  }
  close(file);
  return done;
}

bool allow_all(int rules, const std::vector<std::string>& paths, std::uint64_t rights) {
  return std::all_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return allow(rules, path, rights); });
}

}  // namespace

int landlock_abi(int most) {
  const long kernel =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  const char* forced = std::getenv("HOLDFAST_TEST_LANDLOCK_ABI");
  if (forced != nullptr) most = std::min(most, std::atoi(forced));
  return static_cast<int>(std::clamp<long>(kernel, 0, std::max(most, 0)));
}

bool restrict_with_landlock(const FileRights& files, const NetRights& net, int abi) {
  const std::uint64_t supported = supported_rights(abi);
  Attributes attributes;
  attributes.files = supported;
  if (!net.bind_tcp) attributes.net |= kBindTcp;
  if (!net.connect_tcp) attributes.net |= kConnectTcp;
  attributes.scoped = kScopeAbstractUnix | kScopeSignal;
  const auto rules =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size_of(abi), 0));
  if (rules < 0) return false;
  const std::uint64_t read = kReadFile | kReadDir;
  const std::uint64_t write = supported & ~(kExecute | kMakeChar | kMakeBlock | kIoctlDevice);
  const bool done =
      allow_all(rules, files.read, read) && allow_all(rules, files.write, write) &&
      allow_all(rules, files.execute, read | kExecute) &&
      allow_all(rules, files.devices, supported & (read | kWriteFile | kTruncate | kIoctlDevice)) &&
      syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return done;
}

}  // namespace holdfast::sandbox
