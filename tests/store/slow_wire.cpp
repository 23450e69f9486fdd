#include "tests/store/slow_wire.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>

#include "shared/base/check.h"
#include "shared/wire/frame.h"

namespace holdfast::store {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kDelay = std::chrono::milliseconds(1);

struct Parcel {
  SteadyClock::time_point due;
  std::string bytes;
};

/// Reads what is there; false at the end of the stream.
bool take_in(int fd, std::deque<Parcel>& line) {
  char bytes[1 << 16];
  for (;;) {
    const ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    line.push_back({SteadyClock::now() + kDelay, std::string(bytes, static_cast<std::size_t>(n))});
  }
}

/// Sends what is due; false once the reader is gone.
bool pass_on(int fd, std::deque<Parcel>& line) {
  while (!line.empty() && line.front().due <= SteadyClock::now()) {
    std::string& bytes = line.front().bytes;
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    bytes.erase(0, static_cast<std::size_t>(n));
    if (bytes.empty()) line.pop_front();
  }
  return true;
}

[[noreturn]] void relay(int left, int right) {
  std::deque<Parcel> lines[2];
  const int fds[2] = {left, right};
  for (bool open = true; open;) {
    for (int i = 0; i < 2; ++i) {
      open = take_in(fds[i], lines[i]) && pass_on(fds[1 - i], lines[i]) && open;
    }
    usleep(100);
  }
  _exit(0);
}

}  // namespace

bool WireEnd::send(const wire::Message& message) const {
  const std::string frame = wire::encode(message);
  const auto length = static_cast<std::uint32_t>(frame.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += frame;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<wire::Message> WireEnd::receive(int wait_ms) {
  for (;;) {
    std::uint32_t length = 0;
    if (buffer_.size() >= sizeof length) {
      std::memcpy(&length, buffer_.data(), sizeof length);
      if (buffer_.size() >= sizeof length + length) {
        auto message = wire::decode(buffer_.substr(sizeof length, length));
        buffer_.erase(0, sizeof length + length);
        CHECK(message.has_value());
        return std::move(message).value();
      }
    }
    pollfd item{fd_, POLLIN, 0};
    if (poll(&item, 1, wait_ms) <= 0) return std::nullopt;
    char bytes[1 << 16];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    over_ = n <= 0;
    if (over_) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(n));
  }
}

SlowWire::SlowWire() {
  int left[2];
  int right[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, left) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, right) == 0);
  relay_ = fork();
  CHECK(relay_ >= 0);
  if (relay_ == 0) {
    close(left[0]);
    close(right[0]);
    relay(left[1], right[1]);
  }
  close(left[1]);
  close(right[1]);
  ends_[0] = left[0];
  ends_[1] = right[0];
}

SlowWire::~SlowWire() {
  cut();
  close_left();
  close_right();
}

void SlowWire::close_left() {
  if (ends_[0] >= 0) close(ends_[0]);
  ends_[0] = -1;
}

void SlowWire::close_right() {
  if (ends_[1] >= 0) close(ends_[1]);
  ends_[1] = -1;
}

void SlowWire::cut() {
  if (relay_ <= 0) return;
  kill(relay_, SIGKILL);
  waitpid(relay_, nullptr, 0);
  relay_ = 0;
}

}  // namespace holdfast::store
