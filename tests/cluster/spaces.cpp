#include "tests/cluster/spaces.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "shared/base/check.h"
#include "tests/cluster/devices.h"

namespace holdfast::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kErrorBytesMax = 512;
constexpr int kKillRounds = 2'000;  // of at least a millisecond

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

/// The error of a call that only some processes may make.
Error refusal(const std::string& what) {
  const bool unsupported = errno == EPERM || errno == EACCES || errno == ENOSPC ||
                           errno == EUSERS || errno == EINVAL || errno == ENOSYS;
  return {unsupported ? Errc::kUnsupported : Errc::kIo, what + ": " + std::strerror(errno)};
}

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  close(fd);
  errno = reason;
  return written;
}

Result<int> open_space(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  return io_error(std::string("open ") + path);
}

std::uint64_t inode_of(int fd) {
  struct stat status {};
  CHECK(fstat(fd, &status) == 0);
  return status.st_ino;
}

/// The number of a process's network namespace; 0 if it has none any more or is not ours to see.
std::uint64_t net_of(pid_t pid) {
  struct stat status {};
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Signals a process if it is in the namespace still: its number may be another's by now.
void send_in(std::uint64_t inode, pid_t pid, int signal) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return;
  if (net_of(pid) == inode) (void)syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
  close(fd);
}

/// Kills all other processes in the namespace. False if some are there after the patience.
bool kill_all_in(std::uint64_t inode) {
  for (int i = 0; i < kKillRounds; ++i) {
    const std::vector<pid_t> left = processes_in(inode, getpid());
    if (left.empty()) return true;
    for (const pid_t pid : left) send_in(inode, pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// The guard's life after the namespace was made. Nothing of the test stays open in it.
[[noreturn]] void guard(int test_fd, std::uint64_t inode, const std::string& dir) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    signal(signal_number, SIG_IGN);  // of a terminal: the test ends by them, the guard after it
  }
  prctl(PR_SET_NAME, "cluster-guard");
  const int null = open("/dev/null", O_RDWR);
  dup2(test_fd, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  close_range(3, ~0U, 0);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  // The kernel goes on sending for sockets of the dead, and the namespace stays as long.
  (void)set_net_setting("ipv4/tcp_orphan_retries", "1");
  const bool all = kill_all_in(inode);
  std::error_code ignored;
  if (!dir.empty()) fs::remove_all(dir, ignored);
  _exit(all ? 0 : 1);
}

/// Makes the namespace and enters it.
Result<int> begin_net_space(const NetSpaceOptions& options) {
  if (!enter({options.user_space, -1})) return io_error("enter a user namespace");
  if (unshare(CLONE_NEWNET) != 0) return refusal("make a network namespace");
  HOLDFAST_CHECKED(set_up_loopback());
  if (options.forwards) HOLDFAST_CHECKED(set_net_setting("ipv4/ip_forward", "1"));
  return open_space("/proc/self/ns/net");
}

/// Both ends of a connection between a process and its child.
struct Ends {
  int parent = -1;
  int child = -1;
  Ends() {
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    parent = both[0];
    child = both[1];
  }
};

}  // namespace

bool enter(const Spaces& spaces) {
  // A process may not enter the user namespace that it is in.
  struct stat here {};
  const bool inside = spaces.user < 0 || (stat("/proc/self/ns/user", &here) == 0 &&
                                          here.st_ino == inode_of(spaces.user));
  if (!inside && setns(spaces.user, CLONE_NEWUSER) != 0) return false;
  return spaces.net < 0 || setns(spaces.net, CLONE_NEWNET) == 0;
}

void send_descriptor(int connection, const Result<int>& descriptor) {
  char code = descriptor ? 0 : static_cast<char>(descriptor.error().code);
  std::string text = descriptor ? "" : descriptor.error().what.substr(0, kErrorBytesMax);
  iovec parts[2] = {{&code, 1}, {text.data(), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor.value(), sizeof(int));
  }
  (void)sendmsg(connection, &message, MSG_NOSIGNAL);
}

Result<int> receive_descriptor(int connection) {
  char bytes[kErrorBytesMax + 1];
  iovec part = {bytes, sizeof bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) return Error{Errc::kIo, "a process in a namespace ended without a word"};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) {
    return Error{static_cast<Errc>(bytes[0]), {bytes + 1, static_cast<std::size_t>(n - 1)}};
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

Result<int> descriptor_from(const Spaces& spaces, const std::function<Result<int>()>& make) {
  const Ends ends;
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    // A refusal is ours, unlike one to make a namespace: no test may skip with it.
    if (enter(spaces)) {
      send_descriptor(ends.child, make());
    } else {
      send_descriptor(ends.child, io_error("enter the namespaces of a machine"));
    }
    _exit(0);
  }
  close(ends.child);
  Result<int> descriptor = receive_descriptor(ends.parent);
  close(ends.parent);
  waitpid(pid, nullptr, 0);
  return descriptor;
}

Result<int> make_user_space() {
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  return descriptor_from({}, [&]() -> Result<int> {
    if (unshare(CLONE_NEWUSER) != 0) return refusal("make a user namespace");
    const bool mapped = write_file("/proc/self/setgroups", "deny") &&
                        write_file("/proc/self/uid_map", user + " " + user + " 1") &&
                        write_file("/proc/self/gid_map", group + " " + group + " 1");
    if (!mapped) return refusal("map user " + user + " into a user namespace");
    return open_space("/proc/self/ns/user");
  });
}

Result<NetSpace> make_net_space(const NetSpaceOptions& options) {
  const Ends ends;
  int waiting[2];
  CHECK(pipe2(waiting, O_CLOEXEC) == 0);
  NetSpace space;
  space.guard = fork();
  CHECK(space.guard >= 0);
  if (space.guard == 0) {
    const Result<int> made = begin_net_space(options);
    send_descriptor(ends.child, made);
    if (!made) _exit(1);
    guard(waiting[0], inode_of(*made), options.dir);
  }
  close(ends.child);
  close(waiting[0]);
  const Result<int> fd = receive_descriptor(ends.parent);
  close(ends.parent);
  if (!fd) {
    close(waiting[1]);
    waitpid(space.guard, nullptr, 0);
    return fd.error();
  }
  space.fd = *fd;
  space.inode = inode_of(*fd);
  space.guard_fd = waiting[1];
  return space;
}

void release(NetSpace& space) {
  if (space.guard == 0) return;
  close(space.guard_fd);
  int status = 0;
  CHECK(waitpid(space.guard, &status, 0) == space.guard);
  CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "a process in a namespace could not be killed");
  close(space.fd);
  space = {};
}

void send_to_all_in(std::uint64_t inode, const std::vector<pid_t>& except, int signal) {
  std::set<pid_t> done(except.begin(), except.end());
  for (bool found = true; found;) {
    found = false;
    for (const pid_t pid : processes_in(inode, getpid())) {
      if (!done.insert(pid).second) continue;
      send_in(inode, pid, signal);
      found = true;
    }
  }
}

std::vector<pid_t> processes_in(std::uint64_t inode, pid_t except) {
  std::vector<pid_t> found;
  std::error_code failed;
  for (auto it = fs::directory_iterator("/proc", failed); !failed && it != fs::end(it);
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    pid_t pid = 0;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data(), end, pid).ptr != end) continue;
    if (pid != except && net_of(pid) == inode) found.push_back(pid);
  }
  return found;
}

}  // namespace holdfast::cluster
