#include "control/gateway/http/peer_user.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <sstream>

#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

/// True for a connection that a process can still hold; others have no owner.
bool may_be_held(int state) {
  return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 ||
         state == TCP_CLOSE_WAIT;
}

/// Returns an end as /proc writes it: 32-bit words in the machine's order, then the port.
std::string proc_end(const TcpEnds& ends, const TcpEnds::End& end) {
  char text[48];
  std::string out;
  for (std::size_t i = 0; i < (ends.v6 ? 4u : 1u); ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, end.address.data() + 4 * i, sizeof word);
    std::snprintf(text, sizeof text, "%08X", word);
    out += text;
  }
  std::snprintf(text, sizeof text, ":%04X", end.port);
  return out + text;
}

int open_file(const char* path) {
  return open(path, O_RDONLY | O_CLOEXEC);
}

/// Reads from the beginning: the kernel writes the table anew.
std::string read_whole(int fd) {
  std::string out;
  std::string buffer(kReadBytes, '\0');
  if (lseek(fd, 0, SEEK_SET) != 0) return out;
  for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    out.append(buffer, 0, static_cast<std::size_t>(n));
  }
  return out;
}

}  // namespace

PeerUsers::PeerUsers(bool ask_kernel)
    : tcp_(open_file("/proc/net/tcp")), tcp6_(open_file("/proc/net/tcp6")) {
  if (ask_kernel) diag_ = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  const timeval patience{1, 0};
  if (diag_ >= 0) setsockopt(diag_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

PeerUsers::~PeerUsers() {
  for (const int fd : {diag_, tcp_, tcp6_}) {
    if (fd >= 0) close(fd);
  }
}

/// Asks twice. The kernel reads user and inode one after the other: an end that is closed between
/// the two could pass for root's. If it is held at the second question, it was held at the first
/// answer.
std::optional<uid_t> PeerUsers::find(const TcpEnds& ends) {
  const std::lock_guard lock(mutex_);
  auto first = ask(ends);
  auto second = first ? ask(ends) : std::nullopt;
  if (first && second) return user_of(*first, *second);
  first = read(ends);
  second = first ? read(ends) : std::nullopt;
  return first && second ? user_of(*first, *second) : std::nullopt;
}

std::optional<uid_t> PeerUsers::user_of(const Holder& first, const Holder& second) {
  if (first.inode == 0 || second.inode != first.inode) return std::nullopt;
  return first.user;
}

namespace {

struct DiagQuestion {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

DiagQuestion question_about(const TcpEnds& ends) {
  DiagQuestion question = {};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = ends.v6 ? AF_INET6 : AF_INET;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0u;
  inet_diag_sockid& id = question.body.id;
  id.idiag_sport = htons(ends.client.port);
  id.idiag_dport = htons(ends.server.port);
  const std::size_t bytes = ends.v6 ? 16 : 4;
  std::memcpy(id.idiag_src, ends.client.address.data(), bytes);
  std::memcpy(id.idiag_dst, ends.server.address.data(), bytes);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

}  // namespace

std::optional<PeerUsers::Holder> PeerUsers::ask(const TcpEnds& ends) {
  if (diag_ < 0) return std::nullopt;
  const DiagQuestion question = question_about(ends);
  if (send(diag_, &question, sizeof question, 0) != static_cast<ssize_t>(sizeof question)) {
    return std::nullopt;
  }
  alignas(nlmsghdr) char answer[8192];
  const ssize_t n = recv(diag_, answer, sizeof answer, 0);
  const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
  if (n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      head->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  const auto* found = reinterpret_cast<const inet_diag_msg*>(NLMSG_DATA(head));
  const inet_diag_sockid& id = question.body.id;
  // Without such a connection the kernel may name a listener at the client's address.
  if (!may_be_held(found->idiag_state) || found->id.idiag_sport != id.idiag_sport ||
      found->id.idiag_dport != id.idiag_dport) {
    return std::nullopt;
  }
  return Holder{found->idiag_uid, found->idiag_inode};
}

std::optional<PeerUsers::Holder> PeerUsers::read(const TcpEnds& ends) {
  const int fd = ends.v6 ? tcp6_ : tcp_;
  if (fd < 0) return std::nullopt;
  std::istringstream lines(read_whole(fd));
  for (std::string line; std::getline(lines, line);) {
    if (const auto found = holder_in_line(line, ends)) return Holder{found->first, found->second};
  }
  return std::nullopt;
}

std::optional<std::pair<uid_t, std::uint64_t>> holder_in_line(const std::string& line,
                                                              const TcpEnds& ends) {
  std::istringstream fields(line);
  std::string number, local, remote, state, queues, timer, retries;
  std::uint64_t user = 0, timeout = 0, inode = 0;
  fields >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
      inode;
  if (!fields || local != proc_end(ends, ends.client) || remote != proc_end(ends, ends.server)) {
    return std::nullopt;
  }
  if (state.size() != 2 ||
      !may_be_held(static_cast<int>(std::strtol(state.c_str(), nullptr, 16)))) {
    return std::nullopt;
  }
  return std::pair(static_cast<uid_t>(user), inode);
}

std::optional<Response> refuse_other_user(std::optional<uid_t> peer, uid_t gateway_uid) {
  if (peer && (*peer == gateway_uid || *peer == 0)) return std::nullopt;
  wire::Refusal refusal;
  refusal.code = Errc::kUnauthorized;
  refusal.message =
      "without a key this gateway serves the user that runs it (uid " +
      std::to_string(gateway_uid) + ") and root alone; " +
      (peer ? "you are uid " + std::to_string(*peer) : std::string("it cannot tell who you are")) +
      ". Ask for a key: `holdfast keys create NAME` makes one, as the user that runs it";
  Response response = error_response(refusal);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace holdfast::gateway
