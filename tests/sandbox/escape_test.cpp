// Goal: code that took over a confined process cannot leave it, on any kernel. Method: for each
// kind of process, with Landlock as version 0, 2 and the newest, a child confines itself exactly as
// the program does and makes one harmful call; it must be killed or refused. The same calls are
// made without confinement first, which shows that they would have worked.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/sandbox/rights.h"

namespace holdfast::sandbox::escape_test {
namespace {

namespace fs = std::filesystem;

/// The target of an attack: a file, a directory and a process of the same user.
struct Target {
  std::string folder, file, secret;
  pid_t pid = 0;
  int pidfd = -1;
  int file_fd = -1;      // open to read, as a reader's model is
  int unix_socket = -1;  // not bound
};

constexpr unsigned bit(Profile profile) {
  return 1U << static_cast<unsigned>(profile);
}
constexpr unsigned kDaemonOnly = bit(Profile::kDaemon);
constexpr unsigned kDevice = bit(Profile::kDeviceWorker);
constexpr unsigned kSpawner = bit(Profile::kReaderSpawner);
constexpr unsigned kCode = kDevice | kSpawner;
constexpr unsigned kModels = bit(Profile::kWorker) | kDevice;
constexpr unsigned kGateway = bit(Profile::kGateway);
constexpr unsigned kOpening = kDaemonOnly | kModels | kSpawner | kGateway;
constexpr unsigned kTalking = kDaemonOnly | kModels | kGateway | bit(Profile::kHelper);

struct Attempt {
  const char* name;
  std::function<long(const Target&)> call;  // returns < 0 and sets errno, or returns its result
  unsigned work_of = 0;                     // profiles that need this call: not tried there
  unsigned by_path_of = 0;  // profiles that make this call for their work, so that only Landlock
  int landlock_needed = 1;  // of this version tells their own paths from others
};

template <class... Args>
std::function<long(const Target&)> plain(long number, Args... args) {
  return [=](const Target&) { return syscall(number, args...); };
}

siginfo_t queued() {
  siginfo_t info{};
  info.si_signo = SIGWINCH;
  info.si_code = SI_QUEUE;
  return info;
}

long try_memory(int protection) {
  void* at = mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? -1 : 0;
}

long try_abstract_socket(const Target& t) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = t.folder + "-abstract";
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  return connect(fd, reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

long try_bind(const Target& t) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/s", t.folder.c_str());
  return bind(t.unix_socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

/// Attempts to signal other processes.
std::vector<Attempt> process_attempts() {
  return {
      {"kill", [](const Target& t) { return syscall(SYS_kill, t.pid, 0); }},
      {"kill all", [](const Target&) { return syscall(SYS_kill, -1, 0); }},
      {"tkill", [](const Target& t) { return syscall(SYS_tkill, t.pid, 0); }},
      {"tgkill", [](const Target& t) { return syscall(SYS_tgkill, t.pid, t.pid, 0); }},
      {"rt_sigqueueinfo",
       [](const Target& t) {
         siginfo_t info = queued();
         return syscall(SYS_rt_sigqueueinfo, t.pid, SIGWINCH, &info);
       }},
      {"rt_tgsigqueueinfo",
       [](const Target& t) {
         siginfo_t info = queued();
         return syscall(SYS_rt_tgsigqueueinfo, t.pid, t.pid, SIGWINCH, &info);
       }},
      {"pidfd_open", [](const Target& t) { return syscall(SYS_pidfd_open, t.pid, 0); },
       kDaemonOnly},
      {"pidfd_send_signal",
       [](const Target& t) { return syscall(SYS_pidfd_send_signal, t.pidfd, 0, nullptr, 0); }},
      {"pidfd_getfd", [](const Target& t) { return syscall(SYS_pidfd_getfd, t.pidfd, 0, 0); }},
  };
}

/// Attempts to look into other processes or to change their resources.
std::vector<Attempt> neighbour_attempts() {
  return {
      {"prlimit64 of another, set",
       [](const Target& t) {
         const rlimit limit{512, 512};
         return syscall(SYS_prlimit64, t.pid, RLIMIT_NOFILE, &limit, nullptr);
       }},
      {"prlimit64 of another, get",
       [](const Target& t) {
         rlimit limit{};
         return syscall(SYS_prlimit64, t.pid, RLIMIT_NOFILE, nullptr, &limit);
       }},
      {"setpriority",
       [](const Target& t) { return syscall(SYS_setpriority, PRIO_PROCESS, t.pid, 5); }},
      {"sched_setaffinity",
       [](const Target& t) {
         const unsigned long all = ~0UL;
         return syscall(SYS_sched_setaffinity, t.pid, sizeof all, &all);
       }},
      {"sched_setscheduler",
       [](const Target& t) {
         const sched_param parameter{};
         return syscall(SYS_sched_setscheduler, t.pid, SCHED_BATCH, &parameter);
       }},
      {"ptrace", [](const Target& t) { return syscall(SYS_ptrace, PTRACE_SEIZE, t.pid, 0, 0); }},
      {"process_vm_readv",
       [](const Target& t) {
         char buffer[8];
         const iovec local{buffer, 8};
         const iovec other{const_cast<Target*>(&t), 8};
         return syscall(SYS_process_vm_readv, t.pid, &local, 1, &other, 1, 0);
       }},
      {"process_vm_writev",
       [](const Target& t) {
         static char buffer[8];
         const iovec local{buffer, 8};
         return syscall(SYS_process_vm_writev, t.pid, &local, 1, &local, 1, 0);
       }},
      {"process_madvise",
       [](const Target& t) {
         static char page[4096];
         const iovec range{page, 0};
         return syscall(SYS_process_madvise, t.pidfd, &range, 1, MADV_COLD, 0);
       }},
      {"kcmp", [](const Target& t) { return syscall(SYS_kcmp, getpid(), t.pid, 0, 0, 0); }},
      {"fcntl F_SETOWN",
       [](const Target& t) { return syscall(SYS_fcntl, t.file_fd, F_SETOWN, t.pid); }},
      {"another's memory by /proc",
       [](const Target& t) {
         const std::string path = "/proc/" + std::to_string(t.pid) + "/mem";
         return syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY);
       },
       0, kOpening},
      {"prctl PR_SET_NAME", plain(SYS_prctl, PR_SET_NAME, "holdfast", 0, 0, 0)},
  };
}

/// Attempts to change or make files, by their names.
std::vector<Attempt> file_attempts() {
  const auto on_file = [](long number, auto... more) {
    return [=](const Target& t) { return syscall(number, t.file.c_str(), more...); };
  };
  const auto at_file = [](long number, auto... more) {
    return [=](const Target& t) { return syscall(number, AT_FDCWD, t.file.c_str(), more...); };
  };
  const auto to_new = [](long number) {
    return [=](const Target& t) {
      return syscall(number, t.file.c_str(), (t.folder + "/new").c_str());
    };
  };
  return {
      {"truncate", on_file(SYS_truncate, 1L)},
      {"chmod", on_file(SYS_chmod, 0666)},
      {"fchmodat", at_file(SYS_fchmodat, 0666)},
      {"chown", on_file(SYS_chown, -1, -1)},
      {"fchownat", at_file(SYS_fchownat, -1, -1, 0)},
      {"utimensat", at_file(SYS_utimensat, nullptr, 0)},
      {"utimes", on_file(SYS_utimes, nullptr)},
      {"setxattr", on_file(SYS_setxattr, "user.a", "b", 1UL, 0)},
      {"open to read",
       [](const Target& t) { return syscall(SYS_openat, AT_FDCWD, t.secret.c_str(), O_RDONLY); },
       kDaemonOnly | kSpawner, kOpening},
      {"open to write", at_file(SYS_openat, O_WRONLY), kDaemonOnly, kModels | kGateway},
      {"open and truncate", at_file(SYS_openat, O_RDONLY | O_TRUNC), kDaemonOnly,
       kModels | kGateway},
      {"create",
       [](const Target& t) {
         return syscall(SYS_openat, AT_FDCWD, (t.folder + "/made").c_str(), O_CREAT | O_WRONLY,
                        0600);
       },
       kDaemonOnly, kModels | kGateway},
      {"openat2",
       [](const Target& t) {
         const std::uint64_t how[3] = {O_RDWR, 0, 0};
         return syscall(SYS_openat2, AT_FDCWD, t.file.c_str(), how, sizeof how);
       }},
      {"rename", to_new(SYS_rename), kDaemonOnly, kDevice},
      {"link", to_new(SYS_link), kDaemonOnly, kDevice},
      {"symlink", to_new(SYS_symlink), 0, kDevice},
      {"unlink", on_file(SYS_unlink), kDaemonOnly, kDevice | kGateway},
      {"mkdir", [](const Target& t) { return syscall(SYS_mkdir, (t.folder + "/d").c_str(), 0700); },
       kDaemonOnly, kDevice | kGateway},
      {"mknod",
       [](const Target& t) {
         return syscall(SYS_mknod, (t.folder + "/fifo").c_str(), S_IFIFO | 0600, 0);
       }},
      {"ioctl of a file",
       [](const Target& t) {
         long flags = 0;
         return syscall(SYS_ioctl, t.file_fd, FS_IOC_GETFLAGS, &flags);
       }},
      {"name_to_handle_at",
       [](const Target& t) {
         alignas(8) char handle[8 + 128] = {};
         const unsigned size = 128;
         std::memcpy(handle, &size, sizeof size);
         int mount = 0;
         return syscall(SYS_name_to_handle_at, AT_FDCWD, t.file.c_str(), handle, &mount, 0);
       }},
      {"chroot", [](const Target& t) { return syscall(SYS_chroot, t.folder.c_str()); }},
      {"mount",
       [](const Target& t) {
         return syscall(SYS_mount, "none", t.folder.c_str(), "tmpfs", 0UL, nullptr);
       }},
      {"open_tree",
       [](const Target& t) { return syscall(SYS_open_tree, AT_FDCWD, t.folder.c_str(), 0); }},
  };
}

/// Attempts to make memory that is code, or shared.
std::vector<Attempt> making_attempts() {
  return {
      {"mmap read write execute",
       [](const Target&) { return try_memory(PROT_READ | PROT_WRITE | PROT_EXEC); }, kCode},
      {"mprotect execute",
       [](const Target&) {
         static char page[8192];
         const auto at = (reinterpret_cast<std::uintptr_t>(page) + 4095) & ~4095UL;
         return syscall(SYS_mprotect, at, 4096UL, PROT_READ | PROT_EXEC);
       },
       kCode},
      {"memfd_create", plain(SYS_memfd_create, "x", 0), kModels},
      {"shmget", plain(SYS_shmget, IPC_PRIVATE, 4096UL, 0600)},
      {"msgget", plain(SYS_msgget, IPC_PRIVATE, 0600)},
      {"semget", plain(SYS_semget, IPC_PRIVATE, 1, 0600)},
  };
}

/// Attempts to make processes and sockets.
std::vector<Attempt> program_attempts() {
  return {
      {"fork",
       [](const Target&) {
         const long pid = syscall(SYS_fork);
         if (pid == 0) _exit(0);
         return pid;
       }},
      {"clone",
       [](const Target&) {
         const long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
         if (pid == 0) _exit(0);
         return pid;
       },
       kCode},
      {"clone into a new namespace",
       [](const Target&) {
         const long pid = syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, 0, 0, 0, 0);
         if (pid == 0) _exit(0);
         return pid;
       }},
      {"clone3",
       [](const Target&) {
         clone_args args{};
         args.exit_signal = SIGCHLD;
         const long pid = syscall(SYS_clone3, &args, sizeof args);
         if (pid == 0) _exit(0);
         return pid;
       }},
      {"execve",
       [](const Target&) {
         const char* argv[] = {"true", nullptr};
         return syscall(SYS_execve, "/bin/true", argv, environ);
       },
       0, kCode},
      {"execveat",
       [](const Target&) {
         const char* argv[] = {"true", nullptr};
         return syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, environ, 0);
       }},
      {"socket of the network", plain(SYS_socket, AF_INET, SOCK_STREAM, 0), kGateway},
      {"socket of the kernel's news", plain(SYS_socket, AF_NETLINK, SOCK_RAW, 15)},
      {"socket of packets", plain(SYS_socket, AF_PACKET, SOCK_RAW, 0)},
      {"bind", try_bind, kDaemonOnly},
      {"listen", [](const Target& t) { return syscall(SYS_listen, t.unix_socket, 1); },
       kDaemonOnly},
      {"another's abstract socket", try_abstract_socket, 0, kTalking, 6},
  };
}

/// Attempts on the kernel's own objects and on the whole machine.
std::vector<Attempt> kernel_attempts() {
  return {
      {"unshare", plain(SYS_unshare, CLONE_NEWUSER)},
      {"setns", [](const Target& t) { return syscall(SYS_setns, t.pidfd, CLONE_NEWUTS); }},
      {"io_uring_setup",
       [](const Target&) {
         io_uring_params parameters{};
         return syscall(SYS_io_uring_setup, 1, &parameters);
       }},
      {"userfaultfd", plain(SYS_userfaultfd, 0)},
      {"bpf",
       [](const Target&) {
         bpf_attr attributes{};
         attributes.map_type = BPF_MAP_TYPE_ARRAY;
         attributes.key_size = attributes.value_size = 4;
         attributes.max_entries = 1;
         return syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes);
       }},
      {"perf_event_open",
       [](const Target& t) {
         perf_event_attr attributes{};
         attributes.type = PERF_TYPE_SOFTWARE;
         attributes.size = sizeof attributes;
         return syscall(SYS_perf_event_open, &attributes, t.pid, -1, -1, 0);
       }},
      {"add_key", plain(SYS_add_key, "user", "x", "y", 1UL, -3)},
      {"keyctl", plain(SYS_keyctl, 0, -3, 1)},
      {"kexec_load", plain(SYS_kexec_load, 0UL, 0UL, nullptr, 0UL)},
      {"init_module", plain(SYS_init_module, "", 0UL, "")},
      {"reboot", plain(SYS_reboot, 0, 0, 0, nullptr)},
      {"personality", plain(SYS_personality, 0x0040000UL)},
      {"setuid", plain(SYS_setuid, 0)},
      {"capset", plain(SYS_capset, nullptr, nullptr)},
      {"quotactl", plain(SYS_quotactl, 0x800001, nullptr, 0, nullptr)},
      {"syslog", plain(SYS_syslog, 10, nullptr, 0)},
  };
}

const std::vector<Attempt>& attempts() {
  static const std::vector<Attempt> all = [] {
    std::vector<Attempt> out = process_attempts();
    for (const auto& more : {neighbour_attempts(), file_attempts(), making_attempts(),
                             program_attempts(), kernel_attempts()}) {
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }();
  return all;
}

enum class Outcome : int { kDone = 0, kRefused = 1, kOther = 2, kKilled = 3 };

/// Makes one attempt in a child, confined or not.
Outcome try_one(const Attempt& attempt, const Target& target, const Policy* policy, int* error) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (policy != nullptr) {
      close(STDERR_FILENO);  // of its log lines
      confine(*policy);
    }
    const int got = attempt.call(target) < 0 ? errno : 0;
    [[maybe_unused]] const ssize_t n = write(ends[1], &got, sizeof got);
    _exit(0);
  }
  close(ends[1]);
  int got = 0;
  const bool told = read(ends[0], &got, sizeof got) == sizeof got;
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  *error = got;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) return Outcome::kKilled;
  if (!told) return Outcome::kDone;  // execve
  if (got == 0) return Outcome::kDone;
  return got == EPERM || got == EACCES || got == ENOSYS ? Outcome::kRefused : Outcome::kOther;
}

class Escape : public testing::Test {
 protected:
  void SetUp() override {
    if (confinement_is_relaxed()) GTEST_SKIP() << "a build with sanitizers confines nothing";
    char name[] = "/tmp/holdfast-escape-XXXXXX";
    target_.folder = mkdtemp(name);
    fs::create_directories(target_.folder + "/models");
    target_.secret = target_.folder + "/secret";
    make_files();
    target_.pid = fork();
    if (target_.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    target_.pidfd = static_cast<int>(syscall(SYS_pidfd_open, target_.pid, 0));
    target_.unix_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    listen_abstract();
  }
  void TearDown() override {
    if (target_.pid <= 0) return;
    kill(target_.pid, SIGKILL);
    waitpid(target_.pid, nullptr, 0);
    for (const int fd : {target_.pidfd, target_.file_fd, target_.unix_socket, abstract_}) close(fd);
    fs::remove_all(target_.folder);
    unsetenv("HOLDFAST_TEST_LANDLOCK_ABI");
  }
  /// Makes the files anew that an attempt without confinement has removed or changed.
  void make_files() {
    for (const char* left : {"/new", "/made", "/d", "/fifo", "/s"}) {
      fs::remove(target_.folder + left);
    }
    target_.file = target_.folder + "/control.db";
    for (const std::string& path : {target_.file, target_.secret}) {
      const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ASSERT_EQ(write(fd, "content", 7), 7);
      close(fd);
    }
    if (target_.file_fd >= 0) close(target_.file_fd);
    target_.file_fd = open(target_.file.c_str(), O_RDONLY | O_CLOEXEC);
  }
  void listen_abstract() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = target_.folder + "-abstract";
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    abstract_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(abstract_, reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    ASSERT_EQ(listen(abstract_, 1024), 0);
  }
  static bool confinement_is_relaxed() {
    const pid_t pid = fork();
    if (pid == 0) _exit(confine(helper_policy()).relaxed ? 1 : 0);
    int status = 0;
    waitpid(pid, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  bool unharmed() const {
    struct stat st {};
    return stat(target_.file.c_str(), &st) == 0 && st.st_size == 7 && (st.st_mode & 0777) == 0600 &&
           std::distance(fs::directory_iterator(target_.folder), {}) == 3;
  }
  std::vector<Policy> policies() const {
    const std::string roots = target_.folder + "/models";
    const std::string cache = target_.folder + "/models/cache";
    std::vector<Policy> out = {
        header_reader_policy(),   reader_spawner_policy("/bin/false"),
        helper_policy(),          gateway_policy({}, target_.folder + "/models/notes"),
        worker_policy(roots, ""), device_worker_policy(roots, "", cache),
        daemon_policy()};
    // A directory for temporary files of all users would contain the target of this test.
    for (Policy& policy : out) std::erase(policy.files.write, "/tmp");
    return out;
  }

  Target target_;
  int abstract_ = -1;
};

TEST_F(Escape, HarmfulCalls_WithoutConfinement_Work) {
  int done = 0;
  std::string others;
  for (const Attempt& attempt : attempts()) {
    make_files();
    int error = 0;
    const std::string_view name = attempt.name;
    const bool dangerous = name == "reboot" || name == "kill all" || name == "mount";
    if (dangerous) continue;
    if (try_one(attempt, target_, nullptr, &error) == Outcome::kDone) {
      ++done;
    } else {
      others +=
          std::string(others.empty() ? "" : ", ") + attempt.name + " (" + strerror(error) + ")";
    }
  }
  std::printf("%d of %zu calls work without confinement; not: %s\n", done, attempts().size(),
              others.c_str());
  EXPECT_GE(done, 40);
}

TEST_F(Escape, HarmfulCalls_InEachSandboxOnEachKernel_AreRefused) {
  ASSERT_GE(attempts().size(), 40u);
  std::printf("%-16s %8s %6s %7s %8s %11s\n", "process", "landlock", "killed", "refused",
              "its work", "needs more");
  int lines = 0;
  for (const int abi : {0, 2, kLandlockNewest}) {
    setenv("HOLDFAST_TEST_LANDLOCK_ABI", std::to_string(abi).c_str(), 1);
    for (const Policy& policy : policies()) {
      std::map<Outcome, int> count;
      int work = 0, needs_more = 0;
      for (const Attempt& attempt : attempts()) {
        const unsigned self = bit(policy.profile);
        const bool can_tell = landlock_abi(abi) >= attempt.landlock_needed;
        if ((attempt.work_of & self) != 0) {
          ++work;
          continue;
        }
        if ((attempt.by_path_of & self) != 0 && !can_tell) {
          ++needs_more;
          continue;
        }
        int error = 0;
        const Outcome outcome = try_one(attempt, target_, &policy, &error);
        ++count[outcome];
        ++lines;
        EXPECT_TRUE(outcome == Outcome::kKilled || outcome == Outcome::kRefused)
            << attempt.name << " in " << profile_name(policy.profile) << " with Landlock " << abi
            << ": " << (error == 0 ? "done" : std::strerror(error));
      }
      EXPECT_TRUE(unharmed()) << profile_name(policy.profile);
      if (refusal_of(policy.profile) == Refusal::kKill) {
        EXPECT_GE(count[Outcome::kKilled], 40) << profile_name(policy.profile);
      }
      std::printf("%-16s %8d %6d %7d %8d %11d\n", std::string(profile_name(policy.profile)).c_str(),
                  abi, count[Outcome::kKilled], count[Outcome::kRefused], work, needs_more);
    }
  }
  std::printf("%d lines refused\n", lines);
  kill(target_.pid, 0);
  EXPECT_EQ(waitpid(target_.pid, nullptr, WNOHANG), 0) << "the other process lives";
}

}  // namespace
}  // namespace holdfast::sandbox::escape_test
