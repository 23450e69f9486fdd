#include "tests/process/cut_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "shared/base/check.h"

namespace holdfast::process {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

bool write_all(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

CutRelay::CutRelay(const std::string& target) : target_(target) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(listen(listener_, 64) == 0);
  CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  url_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { run(); });
}

CutRelay::~CutRelay() {
  stop_ = true;
  thread_.join();
  for (const Connection& connection : connections_) {
    close(connection.ends[0]);
    close(connection.ends[1]);
  }
  close(listener_);
}

void CutRelay::accept_one() {
  const int left = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (left < 0) return;
  const int right = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(std::atoi(target_.substr(target_.rfind(':') + 1).c_str()));
  if (connect(right, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(left);
    close(right);
    return;
  }
  const int on = 1;
  for (const int fd : {left, right}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connections_.push_back({{left, right}, false});
}

bool CutRelay::pass(Connection& connection) {
  if (cut_) return connection.was_cut = true;
  if (connection.was_cut) return false;
  for (int side = 0; side < 2; ++side) {
    char bytes[1 << 16];
    const ssize_t n = recv(connection.ends[side], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0 && !write_all(connection.ends[1 - side], bytes, static_cast<std::size_t>(n))) {
      return false;
    }
    if (side == 1 && n > 0 && left_.fetch_sub(n) - n <= 0) {
      left_ = INT64_MAX;
      cut_ = true;
      return connection.was_cut = true;
    }
  }
  return true;
}

void CutRelay::run() {
  while (!stop_) {
    std::vector<pollfd> items;
    if (!cut_) {
      items.push_back({listener_, POLLIN, 0});
      for (const Connection& connection : connections_) {
        for (const int end : connection.ends) items.push_back({end, POLLIN, 0});
      }
    }
    poll(items.data(), items.size(), 20);
    for (auto it = connections_.begin(); it != connections_.end();) {
      if (pass(*it)) {
        ++it;
        continue;
      }
      close(it->ends[0]);
      close(it->ends[1]);
      it = connections_.erase(it);
    }
    if (!cut_ && !items.empty() && (items.front().revents & POLLIN) != 0) accept_one();
  }
}

}  // namespace holdfast::process
