#include "shared/weight_cache/client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "shared/base/local_socket.h"
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
  socket_ = connect_locally(path_, SOCK_SEQPACKET, kAnswerSeconds);
  return socket_ >= 0;
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
