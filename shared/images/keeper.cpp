#include "shared/images/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/images/image.h"

namespace holdfast::images {
namespace {

constexpr int kLookMs = 1000;  // at orphans
constexpr std::size_t kConnectionsMax = 256;

bool is_same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::start(Options options) {
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options)));
  HF_CHECKED(keeper->listen_on_path());
  keeper->thread_ = std::thread([k = keeper.get()] { k->serve(); });
  return keeper;
}

Result<void> Keeper::listen_on_path() {
  const auto fail = [&](const char* what) {
    return Error{Errc::kIo,
                 "keep images at " + options_.path + ": " + what + ": " + std::strerror(errno)};
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options_.path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return fail("bind");
  }
  std::memcpy(address.sun_path, options_.path.data(), options_.path.size());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) return fail("socket");
  if (pipe2(stop_, O_CLOEXEC) != 0) return fail("pipe");
  unlink(options_.path.c_str());
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail("bind");
  }
  if (chmod(options_.path.c_str(), 0600) != 0) return fail("chmod");
  if (listen(listener_, 16) != 0) return fail("listen");
  idle_ = std::make_unique<IdleNote>(options_.path);
  return {};
}

Keeper::~Keeper() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  if (listener_ >= 0) {
    close(listener_);
    unlink(options_.path.c_str());
  }
  for (const int connection : connections_) close(connection);
  for (auto& [key, image] : images_) close(image.fd);
}

Keeper::Held Keeper::held() const {
  const std::lock_guard lock(mutex_);
  Held held;
  for (const auto& [key, image] : images_) {
    ++held.images;
    held.bytes += image.bytes;
    held.users += image.users.size();
  }
  return held;
}

void Keeper::serve() {
  for (;;) {
    std::vector<pollfd> wait = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const int connection : connections_) wait.push_back({connection, POLLIN, 0});
    if (poll(wait.data(), wait.size(), kLookMs) < 0 && errno != EINTR) return;
    if (wait[0].revents != 0) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 2; i < wait.size(); ++i) {
      if (wait[i].revents == 0 || serve_one(wait[i].fd)) continue;
      forget(wait[i].fd);
      close(wait[i].fd);
      connections_.erase(wait[i].fd);
    }
    if (wait[1].revents != 0) accept_one();
    drop_orphans();
    note_idle();
  }
}

void Keeper::note_idle() {
  std::uint64_t bytes = 0;
  for (const auto& [key, image] : images_) bytes += image.users.empty() ? image.bytes : 0;
  idle_->write(bytes);
}

void Keeper::accept_one() {
  const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) return;
  if (!is_same_user(connection) || connections_.size() >= kConnectionsMax) {
    close(connection);
    return;
  }
  connections_.insert(connection);
}

bool Keeper::serve_one(int connection) {
  Message message;
  int fd = -1;
  if (!receive_message(connection, message, fd)) return false;
  switch (message.verb) {
    case Verb::kFind:
      find(connection, message);
      break;
    case Verb::kKeep:
      keep(connection, message, std::exchange(fd, -1));
      break;
    case Verb::kRelease:
      release(connection, key_of(message));
      break;
    case Verb::kMakeRoom:
      make_room(connection, key_of(message));
      break;
    default:
      break;
  }
  if (fd >= 0) close(fd);
  return true;
}

void Keeper::find(int connection, const Message& message) {
  const auto found = images_.find(key_of(message));
  if (found == images_.end() || found->second.bytes != message.bytes) {
    send_message(connection, message_of(Verb::kNone, {}, 0), -1);
    return;
  }
  Image& image = found->second;
  if (!send_message(connection, message_of(Verb::kFound, found->first, image.bytes), image.fd)) {
    return;
  }
  image.users.insert(connection);
  image.orphan_us = 0;
}

/// The first one stays: a second one has the same content.
void Keeper::keep(int connection, const Message& message, int fd) {
  const std::string key = key_of(message);
  const bool good = fd >= 0 && !key.empty() && is_sealed_image(fd, message.bytes);
  if (!good || images_.count(key) > 0 || images_.size() >= options_.images_max) {
    if (fd >= 0) close(fd);
    return;
  }
  images_[key] = Image{fd, message.bytes, {connection}, 0};
}

/// Unloaded on purpose: nobody needs to wait for the next user.
void Keeper::release(int connection, const std::string& key) {
  const auto found = images_.find(key);
  if (found == images_.end() || found->second.users.erase(connection) == 0) return;
  if (found->second.users.empty()) drop(found);
}

/// Its process has ended without a word.
void Keeper::forget(int connection) {
  for (auto& [key, image] : images_) {
    if (image.users.erase(connection) > 0 && image.users.empty())
      image.orphan_us = system_clock().monotonic_us();
  }
}

void Keeper::make_room(int connection, const std::string& wanted) {
  for (auto it = images_.begin(); it != images_.end();) {
    const auto image = it++;
    const bool kept = !wanted.empty() && image->first.find(wanted) != std::string::npos;
    if (image->second.users.empty() && !kept) drop(image);
  }
  note_idle();  // before the answer: who asked looks at what is free next
  send_message(connection, message_of(Verb::kNone, {}, 0), -1);
}

void Keeper::drop_orphans() {
  const std::int64_t before_us = system_clock().monotonic_us() - options_.orphan_ms * 1000;
  for (auto it = images_.begin(); it != images_.end();) {
    const auto image = it++;
    if (image->second.orphan_us != 0 && image->second.orphan_us <= before_us) drop(image);
  }
}

void Keeper::drop(std::map<std::string, Image>::iterator image) {
  close(image->second.fd);
  images_.erase(image);
}

}  // namespace holdfast::images
