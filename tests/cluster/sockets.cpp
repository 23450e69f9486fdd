#include "tests/cluster/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "shared/base/check.h"

namespace holdfast::cluster {
namespace {

constexpr std::uint16_t kPort = 4000;

sockaddr_in address_of(int machine) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  CHECK(inet_pton(AF_INET, Machines::address(machine).c_str(), &address.sin_addr) == 1);
  return address;
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int bound_socket(const Machines& machines, int machine, int type) {
  const int fd = machines.socket(machine, type).value();
  const int on = 1;
  CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  const sockaddr_in address = address_of(machine);
  CHECK(bind(fd, plain(address), sizeof address) == 0);
  return fd;
}

bool readable(int fd, int patience_ms) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, patience_ms) > 0;
}

}  // namespace

std::int64_t monotonic_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

bool becomes_true(const std::function<bool()>& done, int patience_ms) {
  const std::int64_t until = monotonic_us() + patience_ms * std::int64_t{1000};
  while (!done()) {
    if (monotonic_us() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Datagrams::Datagrams(const Machines& machines, int machine)
    : fd_(bound_socket(machines, machine, SOCK_DGRAM)) {}

Datagrams::~Datagrams() {
  close(fd_);
}

void Datagrams::send(int machine, int number, std::size_t bytes) const {
  std::string datagram(bytes, 'd');
  CHECK(bytes >= sizeof number);
  std::memcpy(datagram.data(), &number, sizeof number);
  const sockaddr_in to = address_of(machine);
  const ssize_t sent = sendto(fd_, datagram.data(), bytes, 0, plain(to), sizeof to);
  CHECK(sent == static_cast<ssize_t>(bytes));
}

std::optional<int> Datagrams::receive(int patience_ms) const {
  int number = 0;
  if (!readable(fd_, patience_ms)) return std::nullopt;
  if (recv(fd_, &number, sizeof number, MSG_DONTWAIT) < 0) return std::nullopt;
  return number;
}

int listen_in(const Machines& machines, int machine) {
  const int fd = bound_socket(machines, machine, SOCK_STREAM);
  CHECK(listen(fd, 8) == 0);
  return fd;
}

int accept_within(int listener, int patience_ms) {
  return readable(listener, patience_ms) ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
}

int connect_from_here(int machine) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = address_of(machine);
  if (connect(fd, plain(to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

Stream::Stream(const Machines& machines, int from, int to) {
  const int listener = listen_in(machines, to);
  from_fd_ = machines.socket(from, SOCK_STREAM).value();
  const sockaddr_in address = address_of(to);
  CHECK(connect(from_fd_, plain(address), sizeof address) == 0);
  to_fd_ = accept_within(listener, 10'000);
  CHECK(to_fd_ >= 0);
  close(listener);
}

Stream::~Stream() {
  close(from_fd_);
  close(to_fd_);
}

std::string Stream::carry(int sender, const std::string& bytes, int patience_ms) const {
  const int receiver = sender == from_fd_ ? to_fd_ : from_fd_;
  std::thread sending([&] {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = send(sender, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
    }
  });
  std::string arrived = read_stream(receiver, bytes.size(), patience_ms);
  if (arrived.size() < bytes.size()) shutdown(sender, SHUT_RDWR);  // ends a send that waits
  sending.join();
  return arrived;
}

std::string read_stream(int fd, std::size_t bytes_max, int patience_ms, bool* ended) {
  std::string all;
  char buffer[65536];
  while (all.size() < bytes_max && readable(fd, patience_ms)) {
    const ssize_t n = recv(fd, buffer, std::min(sizeof buffer, bytes_max - all.size()), 0);
    if (ended != nullptr) *ended = n <= 0;
    if (n <= 0) break;
    all.append(buffer, static_cast<std::size_t>(n));
  }
  return all;
}

}  // namespace holdfast::cluster
