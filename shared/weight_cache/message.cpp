#include "shared/weight_cache/message.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace holdfast::weight_cache {
namespace {

/// A buffer for one descriptor, aligned as the kernel requires.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

}  // namespace

Message message_of(Verb verb, const std::string& key, std::uint64_t bytes) {
  Message message;
  message.verb = verb;
  message.bytes = bytes;
  std::memcpy(message.key, key.data(), std::min(key.size(), kKeyBytes - 1));
  return message;
}

std::string key_of(const Message& message) {
  return {message.key, strnlen(message.key, kKeyBytes)};
}

bool send_message(int socket, const Message& message, int passed) {
  Message copy = message;
  iovec part{&copy, sizeof(copy)};
  Control control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed >= 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &passed, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(copy));
}

namespace {

/// Returns the descriptor that came with a message; -1 if there is none.
int passed_descriptor(msghdr& header) {
  int passed = -1;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    std::memcpy(&passed, CMSG_DATA(item), sizeof(int));
  }
  return passed;
}

}  // namespace

bool receive_message(int socket, Message& message, int& passed) {
  passed = -1;
  iovec part{&message, sizeof(message)};
  Control control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof(control.bytes);
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  passed = passed_descriptor(header);
  const bool ours = got == static_cast<ssize_t>(sizeof(message)) && message.magic == kMagic;
  if (!ours && passed >= 0) {
    close(passed);
    passed = -1;
  }
  return ours;
}

}  // namespace holdfast::weight_cache
