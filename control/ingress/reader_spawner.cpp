#include "control/ingress/reader_spawner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "control/ingress/reader_process.h"
#include "shared/sandbox/rights.h"

namespace holdfast::ingress {
namespace {

constexpr std::size_t kOrderBytesMax = 64 << 10;  // path, a zero, roots

struct Ended {
  std::int32_t started = 0;  // 1: `status` is the child's, as of waitpid
  std::int32_t status = 0;
};

union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

bool send_order(int socket, const std::string& order, int fd) {
  Control control = {};
  iovec data{const_cast<char*>(order.data()), order.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(order.size());
}

/// Returns false when the helper is gone or sent no valid order.
bool receive_order(int socket, std::string& order, int& fd) {
  Control control = {};
  order.resize(kOrderBytesMax);
  iovec data{order.data(), order.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t n = -1;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return false;
  order.resize(static_cast<std::size_t>(n));
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof fd)) {
    return false;
  }
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return true;
}

[[noreturn]] void serve_orders(int socket, const std::string& program, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  sandbox::log_confinement(sandbox::confine(sandbox::reader_spawner_policy(program)));
  std::string order;
  int fd = -1;
  while (receive_order(socket, order, fd)) {
    const std::size_t zero = std::min(order.find('\0'), order.size() - 1);
    Ended ended;
    const Result<pid_t> pid =
        start_reader(program, order.substr(0, zero), order.substr(zero + 1), fd);
    close(fd);
    if (pid.has_value()) {
      ended.started = 1;
      while (waitpid(pid.value(), &ended.status, 0) < 0 && errno == EINTR) {
      }
    }
    if (send(socket, &ended, sizeof ended, MSG_NOSIGNAL) != sizeof ended) break;
  }
  _exit(0);
}

}  // namespace

Result<std::unique_ptr<ReaderSpawner>> ReaderSpawner::start(const std::string& program) {
  const auto failed = [](const char* what) {
    return Error{Errc::kInternal, std::string("start the spawner of readers: ") + what + ": " +
                                      std::strerror(errno)};
  };
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    serve_orders(ends[1], program, parent);
  }
  close(ends[1]);
  if (pid > 0) return std::unique_ptr<ReaderSpawner>(new ReaderSpawner(ends[0]));
  const Error error = failed("fork");
  close(ends[0]);
  return error;
}

ReaderSpawner::~ReaderSpawner() {
  close(socket_);
}

std::optional<wire::Inspected> ReaderSpawner::inspect(const wire::Inspect& job) {
  const std::lock_guard lock(mutex_);
  const std::string order = job.path + '\0' + job.roots;
  if (order.size() > kOrderBytesMax || job.path.find('\0') != std::string::npos) {
    return refused_job(job, Errc::kInvalidRequest, "the path or models.roots is too long");
  }
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return refused_job(job, Errc::kInternal, std::strerror(errno));
  const bool sent = send_order(socket_, order, ends[1]);
  close(ends[1]);
  std::string answer;
  Ended ended;
  bool received = false;
  if (sent) {
    answer = read_answer(ends[0]);
    ssize_t n = -1;
    do {
      n = recv(socket_, &ended, sizeof ended, 0);
    } while (n < 0 && errno == EINTR);
    received = n == sizeof ended;
  }
  close(ends[0]);
  if (!received) return std::nullopt;
  if (ended.started != 1) {
    return refused_job(job, Errc::kInternal, "the reader of the header cannot be started");
  }
  return judge_answer(job, answer, ended.status);
}

}  // namespace holdfast::ingress
