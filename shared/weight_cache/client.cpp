#include "shared/weight_cache/client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "shared/weight_cache/message.h"

namespace holdfast::weight_cache {
namespace {

constexpr int kAnswerSeconds = 2;  // how long a hanging server delays one load

}  // namespace

Client::~Client() {
  disconnect();
}

void Client::disconnect() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

bool Client::connect_if_needed() {
  if (socket_ >= 0) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  const timeval patience{kAnswerSeconds, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return true;
  }
  disconnect();
  return false;
}

bool Client::connected() {
  const std::lock_guard lock(mutex_);
  return connect_if_needed();
}

int Client::find(const std::string& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (key.size() >= kKeyBytes || !connect_if_needed()) return -1;
  Message answer;
  int fd = -1;
  if (!send_message(socket_, message_of(Verb::kFind, key, bytes), -1) ||
      !receive_message(socket_, answer, fd)) {
    disconnect();
    return -1;
  }
  if (answer.verb == Verb::kFound && key_of(answer) == key) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

void Client::put(const std::string& key, std::uint64_t bytes, int fd) {
  const std::lock_guard lock(mutex_);
  if (key.size() >= kKeyBytes || socket_ < 0) return;
  if (!send_message(socket_, message_of(Verb::kPut, key, bytes), fd)) disconnect();
}

void Client::evict_unused(const std::string& exempt_key) {
  const std::lock_guard lock(mutex_);
  if (exempt_key.size() >= kKeyBytes || !connect_if_needed()) return;
  Message answer;
  int fd = -1;
  if (!send_message(socket_, message_of(Verb::kEvictUnused, exempt_key, 0), -1) ||
      !receive_message(socket_, answer, fd)) {
    disconnect();
  }
  if (fd >= 0) close(fd);
}

void Client::release(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (socket_ < 0) return;
  if (!send_message(socket_, message_of(Verb::kRelease, key, 0), -1)) disconnect();
}

}  // namespace holdfast::weight_cache
