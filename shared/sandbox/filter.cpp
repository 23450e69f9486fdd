#include "shared/sandbox/filter.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace holdfast::sandbox {
namespace {

constexpr std::uint64_t kLow32 = 0xffffffffULL;  // callers sign-extend an int
constexpr std::uint64_t kNewSpaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint64_t kOpenChanges = O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
constexpr int kNetlink = 16, kNetlinkRoute = 0, kNetlinkSockets = 4;
// fcntl commands that glibc names only with GNU extensions of some version.
constexpr int kAddSeals = 1033, kGetSeals = 1034;

/// Adds rules and remembers the first failure. A comparison names both of its numbers, also where
/// the second has no meaning: otherwise clang warns that it is missing.
class Rules {
 public:
  explicit Rules(Profile profile)
      : refusal_(refusal_of(profile)),
        filter_(seccomp_init(refusal_ == Refusal::kKill ? SCMP_ACT_KILL_PROCESS
                                                        : SCMP_ACT_ERRNO(EPERM))) {
    good_ = filter_ != nullptr;
  }
  ~Rules() {
    if (filter_ != nullptr) seccomp_release(filter_);
  }
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  void add(std::uint32_t action, std::string_view name,
           std::initializer_list<scmp_arg_cmp> arguments = {}) {
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (!good_ || number == __NR_SCMP_ERROR || number < 0) return;  // not a call of this machine
    const int rc = seccomp_rule_add_array(
        filter_, action, number, static_cast<unsigned>(arguments.size()), arguments.begin());
    good_ = rc == 0;
  }
  void allow(std::string_view name, std::initializer_list<scmp_arg_cmp> arguments = {}) {
    add(SCMP_ACT_ALLOW, name, arguments);
  }
  /// Adds a rule that refuses where one is needed: elsewhere everything that is not allowed is
  /// refused.
  void refuse(std::string_view name, std::initializer_list<scmp_arg_cmp> arguments = {}) {
    if (refusal_ == Refusal::kCount) add(SCMP_ACT_TRAP, name, arguments);
  }
  bool load(bool fast) {
    const auto set = [&](scmp_filter_attr what, std::uint32_t value) {
      good_ = good_ && seccomp_attr_set(filter_, what, value) == 0;
    };
    set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    set(SCMP_FLTATR_CTL_TSYNC, 1);
    set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (fast) set(SCMP_FLTATR_CTL_SSB, 1);
    return good_ && seccomp_load(filter_) == 0;
  }
  Refusal refusal() const { return refusal_; }

 private:
  Refusal refusal_;
  scmp_filter_ctx filter_;
  bool good_ = false;
};

void add_memory(Rules& rules, const Arguments& a) {
  for (const char* name : {"mmap", "mmap2", "mprotect"}) {
    if (a.exec_memory) {
      rules.allow(name);
      continue;
    }
    rules.allow(name, {SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)});
    rules.refuse(name, {SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)});
  }
}

void add_processes(Rules& rules, const Arguments& a) {
  // The flags of clone3 are in memory, where no filter can look; glibc uses clone() then.
  rules.add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  if (a.processes) {
    rules.allow("clone", {SCMP_A0_64(SCMP_CMP_MASKED_EQ, kNewSpaces, 0)});
    rules.allow("execve");
  } else if (a.threads) {
    rules.allow("clone", {SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  }
  // libzmq sets the ordinary policy on each of its threads, and aborts where it may not.
  if (a.threads) rules.allow("sched_setscheduler", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, 0)});
  if (a.devices) rules.allow("sched_setaffinity", {SCMP_A0_64(SCMP_CMP_EQ, 0, 0)});
  const auto self = static_cast<std::uint64_t>(getpid());
  for (const char* name : {"kill", "tgkill"}) {
    rules.allow(name, {SCMP_A0_64(SCMP_CMP_MASKED_EQ, kLow32, self)});
    // Signal 0 only checks whether a process exists: refused too, but not reported.
    rules.refuse(name, {SCMP_A0_64(SCMP_CMP_NE, self, 0), SCMP_A1_64(SCMP_CMP_NE, 0, 0)});
  }
  rules.allow("prlimit64", {SCMP_A0_64(SCMP_CMP_EQ, 0, 0)});
  rules.refuse("prlimit64", {SCMP_A0_64(SCMP_CMP_NE, 0, 0)});
}

void add_files(Rules& rules, const Arguments& a) {
  const auto read_only = [](unsigned at) {
    return scmp_arg_cmp{at, SCMP_CMP_MASKED_EQ, kOpenChanges, 0};
  };
  if (a.open_write) {
    rules.allow("open");
    rules.allow("openat");
    rules.allow("creat");
  } else if (a.open_read) {
    rules.allow("open", {read_only(1)});
    rules.allow("openat", {read_only(2)});
  } else {
    // Libraries look for settings and for the machine's processors when they start; they work
    // without.
    rules.add(SCMP_ACT_ERRNO(EPERM), "open", {read_only(1)});
    rules.add(SCMP_ACT_ERRNO(EPERM), "openat", {read_only(2)});
  }
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL}) {
    rules.allow("fcntl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, std::uint64_t(command))});
  }
  if (a.locks) {
    for (const int command : {F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW}) {
      rules.allow("fcntl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, std::uint64_t(command))});
    }
  }
  if (a.seals) {
    for (const int command : {kAddSeals, kGetSeals}) {
      rules.allow("fcntl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, std::uint64_t(command))});
    }
  }
  for (const unsigned long request : {TCGETS, FIONREAD, FIONBIO}) {
    rules.allow("ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, request)});
  }
}

/// Allows requests of the render nodes of AMD, Intel and others ('d'), of AMD's compute driver
/// ('K'), of NVIDIA's control devices ('F') and of its unified memory, whose numbers are small and
/// have no type letter.
void add_devices(Rules& rules, const Arguments& a) {
  if (!a.devices) return;
  for (const char kind : {'d', 'K', 'F'}) {
    const auto type = static_cast<std::uint64_t>(kind) << 8;
    rules.allow("ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xff00, type)});
  }
  rules.allow("ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32 & ~0xffULL, 0)});
  for (const std::uint64_t uvm : {0x30000001ULL, 0x30000002ULL}) {
    rules.allow("ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow32, uvm)});
  }
}

void add_sockets(Rules& rules, const Arguments& a) {
  for (const int family : a.families) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
      rules.allow("socket", {SCMP_A0_64(SCMP_CMP_EQ, std::uint64_t(family), 0),
                             SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xf, std::uint64_t(type))});
    }
  }
  // A name lookup needs this machine's addresses, and the user of a local connection is looked up
  // too.
  const bool network = std::find(a.families.begin(), a.families.end(), AF_INET) != a.families.end();
  if (network) {
    for (const int protocol : {kNetlinkRoute, kNetlinkSockets}) {
      rules.allow("socket", {SCMP_A0_64(SCMP_CMP_EQ, kNetlink, 0),
                             SCMP_A2_64(SCMP_CMP_EQ, std::uint64_t(protocol), 0)});
    }
  }
}

void add_prctl(Rules& rules, const Arguments& a) {
  const auto option = [](int what) {
    return SCMP_A0_64(SCMP_CMP_MASKED_EQ, kLow32, std::uint64_t(what));
  };
  // A confined process must not change its name, which identifies it
  // (control/endpoints/peer_role.h); libzmq tries to name its threads and works without.
  if (rules.refusal() == Refusal::kKill)
    rules.add(SCMP_ACT_ERRNO(EPERM), "prctl", {option(PR_SET_NAME)});
  for (const int what : {PR_GET_NAME, PR_GET_NO_NEW_PRIVS, PR_SET_NO_NEW_PRIVS, PR_GET_DUMPABLE}) {
    rules.allow("prctl", {option(what)});
  }
  if (!a.confine) return;
  for (const int what : {PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_GET_SECCOMP}) {
    rules.allow("prctl", {option(what)});
  }
}

/// Returns true if a refused call is reported. Not reported: a name lookup binds a socket to the
/// kernel's routes, and works without. A copy of the database is private from its first byte, so
/// the chmod that is refused changes nothing.
bool is_news(std::string_view name, Profile profile, const Arguments& arguments) {
  if (name == "bind") return arguments.families.size() < 2;
  return name != "chmod" || profile != Profile::kDaemon;
}

}  // namespace

bool filter_calls(Profile profile, bool network) {
  Rules rules(profile);
  Arguments arguments = arguments_of(profile);
  if (network) arguments.families = network_families();
  const std::vector<std::string_view> allowed = calls_of(profile);
  for (const std::string_view name : allowed) rules.allow(name);
  add_memory(rules, arguments);
  add_processes(rules, arguments);
  add_files(rules, arguments);
  add_devices(rules, arguments);
  add_sockets(rules, arguments);
  add_prctl(rules, arguments);
  if (rules.refusal() != Refusal::kKill) {
    for (const std::string_view name : deadly_calls()) rules.add(SCMP_ACT_KILL_PROCESS, name);
  }
  for (const std::string_view name : telltale_calls()) {
    const bool is_allowed = std::find(allowed.begin(), allowed.end(), name) != allowed.end() ||
                            (arguments.processes && name == "execve");
    if (!is_allowed && is_news(name, profile, arguments)) rules.refuse(name);
  }
  // Speculation stays enabled: processes that run models keep their speed on kernels that would
  // disable it.
  return rules.load(rules.refusal() != Refusal::kKill);
}

}  // namespace holdfast::sandbox
