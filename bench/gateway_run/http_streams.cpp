#include "bench/gateway_run/http_streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "bench/lib/stats.h"

namespace holdfast::bench {
namespace {

Error failed(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

Result<int> connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const Error error = failed("connect to port " + std::to_string(port));
    close(fd);
    return error;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

std::string post(std::int64_t max_tokens, std::int64_t number, bool stream) {
  const std::string body = R"({"model":"bench","prompt":[5,6,)" + std::to_string(number % 900 + 3) +
                           R"(],"max_tokens":)" + std::to_string(max_tokens) +
                           (stream ? R"(,"stream":true})" : "}");
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

Result<void> send_all(int fd, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return failed("send");
    at += static_cast<std::size_t>(n);
  }
  return {};
}

/// Reads one answer of a known length; gives its status.
Result<int> read_answer(int fd) {
  std::string text;
  char buffer[8192];
  for (;;) {
    const std::size_t head = text.find("\r\n\r\n");
    if (head != std::string::npos) {
      const std::size_t at = text.find("Content-Length: ");
      if (at == std::string::npos || at > head) {
        return Error{Errc::kIo, "an answer without Content-Length"};
      }
      const std::size_t length = std::strtoull(text.c_str() + at + 16, nullptr, 10);
      if (text.size() >= head + 4 + length) return std::atoi(text.c_str() + 9);
    }
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return failed("receive");
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

HttpStreams::~HttpStreams() {
  for (const Stream& stream : streams_) close(stream.fd);
  if (epoll_ >= 0) close(epoll_);
}

Result<void> HttpStreams::open(int port, std::int64_t max_tokens, std::int64_t number) {
  if (epoll_ < 0) epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return failed("epoll_create1");
  HOLDFAST_TRY(const int fd, connect_to(port));
  Stream stream;
  stream.fd = fd;
  streams_.push_back(stream);
  HOLDFAST_CHECKED(send_all(fd, post(max_tokens, number, true)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = streams_.size() - 1;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return failed("epoll_ctl");
  return {};
}

/// Counts events. One ends with an empty line; the head of the answer counts as the first.
void HttpStreams::take(Stream& stream, const char* bytes, std::size_t n, std::int64_t now,
                       StreamStats* stats) {
  for (std::size_t i = 0; i < n; ++i) {
    if (bytes[i] == '\r') continue;
    stream.newlines = bytes[i] == '\n' ? stream.newlines + 1 : 0;
    if (stream.newlines != 2) continue;
    stream.any = true;
    if (stats == nullptr) continue;
    ++stats->events;
    if (stream.at_us >= 0) {
      stats->gap_ms.push_back(static_cast<double>(now - stream.at_us) / 1000);
    }
    stream.at_us = now;
  }
}

void HttpStreams::read_once(StreamStats* stats, int timeout_ms) {
  epoll_event events[256];
  const int n = epoll_wait(epoll_, events, 256, timeout_ms);
  char buffer[65536];
  for (int i = 0; i < n; ++i) {
    Stream& stream = streams_[events[i].data.u64];
    const ssize_t got = recv(stream.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) {
      take(stream, buffer, static_cast<std::size_t>(got), now_us(), stats);
    } else if (got == 0 || errno != EAGAIN) {
      stream.ended = true;
      epoll_ctl(epoll_, EPOLL_CTL_DEL, stream.fd, nullptr);
    }
  }
}

bool HttpStreams::wait_first_events(double seconds) {
  const std::int64_t until = now_us() + static_cast<std::int64_t>(seconds * 1e6);
  for (;;) {
    const bool all = std::all_of(streams_.begin(), streams_.end(),
                                 [](const Stream& s) { return s.any && !s.ended; });
    if (all || now_us() > until) return all;
    for (int i = 0; i < 100; ++i) read_once(nullptr, 10);
  }
}

StreamStats HttpStreams::listen(double seconds) {
  StreamStats stats;
  for (Stream& stream : streams_) stream.at_us = -1;
  const std::int64_t begin = now_us();
  const std::int64_t until = begin + static_cast<std::int64_t>(seconds * 1e6);
  while (now_us() < until) read_once(&stats, 10);
  stats.seconds = static_cast<double>(now_us() - begin) / 1e6;
  stats.ended =
      std::count_if(streams_.begin(), streams_.end(), [](const Stream& s) { return s.ended; });
  return stats;
}

namespace {

Result<void> connect_all(int port, int connections, std::vector<int>& fds) {
  for (int i = 0; i < connections; ++i) {
    HOLDFAST_TRY(const int fd, connect_to(port));
    fds.push_back(fd);
  }
  return {};
}

/// Posts `count` requests, as many in flight as connections, each read and posted to again in turn.
/// Returns how many were answered with 200.
Result<std::int64_t> post_in_turn(const std::vector<int>& fds, std::int64_t count) {
  const auto connections = static_cast<std::int64_t>(fds.size());
  std::int64_t good = 0;
  for (std::int64_t i = 0; i < count + connections; ++i) {
    const int fd = fds[static_cast<std::size_t>(i % connections)];
    if (i >= connections) {
      HOLDFAST_TRY(const int status, read_answer(fd));
      if (status == 200) ++good;
    }
    if (i < count) HOLDFAST_CHECKED(send_all(fd, post(1, i, false)));
  }
  return good;
}

}  // namespace

Result<std::int64_t> post_completions(int port, int connections, std::int64_t count) {
  std::vector<int> fds;
  const Result<void> connected = connect_all(port, connections, fds);
  Result<std::int64_t> good = connected ? post_in_turn(fds, count) : connected.error();
  for (const int fd : fds) close(fd);
  return good;
}

}  // namespace holdfast::bench
