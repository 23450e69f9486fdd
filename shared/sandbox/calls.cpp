// The lists of system calls. A name that this architecture or libseccomp does not know is skipped,
// so one list serves all.
#include <sys/socket.h>

#include <initializer_list>

#include "shared/base/check.h"
#include "shared/sandbox/profile.h"

namespace holdfast::sandbox {
namespace {

using Name = std::string_view;

/// Memory, time, locks between threads, open descriptors, and exit.
constexpr Name kBase[] = {
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "preadv",
    "preadv2",
    "lseek",
    "_llseek",
    "close",
    "close_range",
    "fstat",
    "fstat64",
    "newfstatat",
    "fstatat64",
    "statx",
    "fadvise64",
    "dup",
    "dup2",
    "dup3",
    "munmap",
    "mremap",
    "madvise",
    "brk",
    "msync",
    "mincore",
    "membarrier",
    "futex",
    "futex_time64",
    "sched_yield",
    "sched_getaffinity",
    "getcpu",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "nanosleep",
    "gettimeofday",
    "time",
    "times",
    "getrandom",
    "getpid",
    "gettid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getpgrp",
    "getrusage",
    "getrlimit",
    "ugetrlimit",
    "sysinfo",
    "uname",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigsuspend",
    "pause",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "set_tid_address",
    "poll",
    "ppoll",
    "select",
    "pselect6",
};

/// A Unix socket as libzmq uses it.
constexpr Name kSocket[] = {
    "connect",
    "getsockopt",
    "setsockopt",
    "getsockname",
    "getpeername",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
    "shutdown",
    "epoll_create1",
    "epoll_create",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "pipe2",
    "pipe",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "sched_getparam",
    "sched_getscheduler",
};

/// Calls to look for files to read.
constexpr Name kFind[] = {
    "access",    "faccessat",  "faccessat2", "readlink", "readlinkat", "stat",
    "lstat",     "stat64",     "lstat64",    "statfs",   "fstatfs",    "statfs64",
    "fstatfs64", "getdents64", "getcwd",     "chdir",    "fchdir",     "readahead",
};

/// Own files: create, extend, sync, rename, remove. No call that changes a file by its path alone,
/// which may be another program's: no truncate, no chmod, no utimensat.
constexpr Name kWriteFiles[] = {
    "pwrite64",  "pwritev",         "pwritev2",  "ftruncate",       "ftruncate64",
    "fallocate", "fsync",           "fdatasync", "sync_file_range", "flock",
    "unlink",    "unlinkat",        "rename",    "renameat",        "renameat2",
    "mkdir",     "mkdirat",         "rmdir",     "umask",           "link",
    "linkat",    "copy_file_range", "sendfile",  "fchmod",          "fchown",
};

constexpr Name kServe[] = {"bind", "listen", "accept", "accept4", "socketpair"};
/// Two ends by which a thread that looks up a name tells that it has it.
constexpr Name kPair[] = {"socketpair"};
constexpr Name kAccept[] = {"accept", "accept4"};
/// Files with the items in work, in a directory of the process's own.
constexpr Name kNotes[] = {"flock", "ftruncate", "unlink", "mkdir"};
/// The list in which the host's workers share what they load.
constexpr Name kShare[] = {"flock", "pwrite64"};
/// A descriptor that tells when a process ends; it gives no other power over the process.
constexpr Name kWatch[] = {"pidfd_open"};
constexpr Name kMemory[] = {"mlock",        "mlock2",    "munlock",       "mlockall",
                            "munlockall",   "mbind",     "get_mempolicy", "set_mempolicy",
                            "memfd_create", "ftruncate", "arch_prctl"};
constexpr Name kDevice[] = {
    "ftruncate", "fallocate",     "fsync",         "fdatasync",         "unlink",
    "unlinkat",  "rename",        "renameat",      "renameat2",         "mkdir",
    "mkdirat",   "rmdir",         "umask",         "socketpair",        "wait4",
    "waitid",    "eventfd",       "inotify_init1", "inotify_add_watch", "link",
    "symlink",   "sched_getattr", "getpriority",   "getresuid",         "getresgid",
    "vfork"};
/// A child between fork and its own program, and that program's start.
constexpr Name kSpawn[] = {"wait4",
                           "waitid",
                           "pipe2",
                           "recvmsg",
                           "sendmsg",
                           "sendto",
                           "arch_prctl",
                           "setsockopt",
                           "pwrite64",
                           "getsockopt",
                           "vfork",
                           "landlock_create_ruleset",
                           "landlock_add_rule",
                           "landlock_restrict_self",
                           "seccomp"};

constexpr Name kDeadly[] = {
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kexec_load",
    "kexec_file_load",
    "mount",
    "umount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "bpf",
    "userfaultfd",
    "init_module",
    "finit_module",
    "delete_module",
    "pidfd_getfd",
    "reboot",
    "swapon",
    "swapoff",
    "iopl",
    "ioperm",
    "setns",
    "open_by_handle_at",
    "add_key",
    "request_key",
    "keyctl",
    "acct",
    "settimeofday",
    "clock_settime",
    "sethostname",
    "setdomainname",
};

constexpr Name kTelltale[] = {
    "execve",
    "execveat",
    "fork",
    "vfork",
    "truncate",
    "truncate64",
    "chmod",
    "fchmodat",
    "chown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "utimensat",
    "futimesat",
    "mknod",
    "mknodat",
    "symlink",
    "symlinkat",
    "tkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_send_signal",
    "pidfd_open",
    "setpriority",
    "sched_setaffinity",

    "sched_setparam",
    "ioprio_set",
    "shmget",
    "shmat",
    "msgget",
    "semget",
    "mq_open",
    "io_uring_setup",
    "perf_event_open",
    "unshare",
    "kcmp",
    "setuid",
    "setgid",
    "setresuid",
    "setresgid",
    "setgroups",
    "capset",
    "personality",
    "setxattr",
    "fsetxattr",
    "removexattr",
    "fanotify_init",
    "name_to_handle_at",
    "process_madvise",
    "migrate_pages",
    "move_pages",
    "listen",
    "bind",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "ftruncate",
    "memfd_create",
    "memfd_secret",
    "pkey_mprotect",
    "setitimer",
    "ustat",
    "vhangup",
    "quotactl",
    "syslog",
    "lookup_dcookie",
    "modify_ldt",
    "remap_file_pages",
};

constexpr int kLocal[] = {AF_UNIX};
constexpr int kNetwork[] = {AF_UNIX, AF_INET, AF_INET6};

using Groups = std::initializer_list<std::span<const Name>>;

std::vector<Name> join(Groups groups) {
  std::vector<Name> all;
  for (const std::span<const Name> group : groups)
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

std::string_view profile_name(Profile profile) {
  switch (profile) {
    case Profile::kHeaderReader:
      return "header reader";
    case Profile::kReaderSpawner:
      return "reader spawner";
    case Profile::kHelper:
      return "helper";
    case Profile::kGateway:
      return "gateway";
    case Profile::kWorker:
      return "worker";
    case Profile::kDeviceWorker:
      return "device worker";
    case Profile::kDaemon:
      return "daemon";
    case Profile::kFetcher:
      return "fetcher";
  }
  CHECK(false);
}

Refusal refusal_of(Profile profile) {
  switch (profile) {
    case Profile::kHeaderReader:
    case Profile::kHelper:
      return Refusal::kKill;
    case Profile::kReaderSpawner:
    case Profile::kDeviceWorker:
      return Refusal::kError;
    case Profile::kGateway:
    case Profile::kWorker:
    case Profile::kDaemon:
    case Profile::kFetcher:
      return Refusal::kCount;
  }
  CHECK(false);
}

std::vector<std::string_view> calls_of(Profile profile) {
  switch (profile) {
    case Profile::kHeaderReader:
      return join({kBase});
    case Profile::kReaderSpawner:
      return join({kBase, kFind, kSpawn});
    case Profile::kHelper:
      return join({kBase, kSocket});
    case Profile::kGateway:
      return join({kBase, kSocket, kFind, kAccept, kNotes});
    case Profile::kWorker:
      return join({kBase, kSocket, kFind, kMemory, kShare});
    case Profile::kDeviceWorker:
      return join({kBase, kSocket, kFind, kMemory, kShare, kDevice});
    case Profile::kDaemon:
      return join({kBase, kSocket, kFind, kWriteFiles, kServe, kWatch});
    case Profile::kFetcher:
      return join({kBase, kSocket, kFind, kWriteFiles, kPair, kAccept});
  }
  CHECK(false);
}

std::span<const int> network_families() {
  return kNetwork;
}

std::span<const std::string_view> deadly_calls() {
  return kDeadly;
}

std::span<const std::string_view> telltale_calls() {
  return kTelltale;
}

Arguments arguments_of(Profile profile) {
  Arguments a;
  a.threads = profile != Profile::kHeaderReader && profile != Profile::kReaderSpawner;
  if (a.threads) a.families = kLocal;
  a.open_read = profile != Profile::kHeaderReader && profile != Profile::kHelper;
  switch (profile) {
    case Profile::kHeaderReader:
    case Profile::kHelper:
      break;
    case Profile::kReaderSpawner:
      a.exec_memory = a.processes = a.confine = true;
      break;
    case Profile::kGateway:
      a.families = kNetwork;
      a.open_write = true;
      break;
    case Profile::kWorker:
      a.open_write = a.seals = true;
      break;
    case Profile::kDeviceWorker:
      a.exec_memory = a.processes = a.open_write = a.devices = a.locks = a.seals = true;
      break;
    case Profile::kDaemon:
      a.open_write = a.locks = true;
      break;
    case Profile::kFetcher:
      a.families = kNetwork;
      a.open_write = true;
      break;
  }
  return a;
}

}  // namespace holdfast::sandbox
