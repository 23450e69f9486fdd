#include "shared/weight_cache/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/local_socket.h"
#include "shared/weight_cache/memfd.h"

namespace holdfast::weight_cache {
namespace {

constexpr int kLookMs = 1000;  // between checks for orphans
constexpr std::size_t kConnectionsMax = 256;

}  // namespace

Result<std::unique_ptr<WeightCacheServer>> WeightCacheServer::start(Options options) {
  std::unique_ptr<WeightCacheServer> server(new WeightCacheServer(std::move(options)));
  HOLDFAST_CHECKED(server->listen_on_path());
  server->thread_ = std::thread([k = server.get()] { k->serve(); });
  return server;
}

Result<void> WeightCacheServer::listen_on_path() {
  HOLDFAST_TRY(listener_, listen_locally(options_.path, SOCK_SEQPACKET, 16));
  if (pipe2(stop_, O_CLOEXEC) != 0) {
    return Error{Errc::kIo, "weight cache at " + options_.path + ": pipe: " + std::strerror(errno)};
  }
  idle_ = std::make_unique<IdleNote>(options_.path);
  return {};
}

WeightCacheServer::~WeightCacheServer() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  if (listener_ >= 0) {
    close(listener_);
    unlink(options_.path.c_str());
  }
  for (const int connection : connections_) close(connection);
  for (auto& [key, entry] : entries_) close(entry.fd);
}

WeightCacheServer::Held WeightCacheServer::held() const {
  const std::lock_guard lock(mutex_);
  Held held;
  for (const auto& [key, entry] : entries_) {
    ++held.entries;
    held.bytes += entry.bytes;
    held.users += entry.users.size();
  }
  return held;
}

void WeightCacheServer::serve() {
  for (;;) {
    std::vector<pollfd> wait = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const int connection : connections_) wait.push_back({connection, POLLIN, 0});
    if (poll(wait.data(), wait.size(), kLookMs) < 0 && errno != EINTR) return;
    if (wait[0].revents != 0) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 2; i < wait.size(); ++i) {
      if (wait[i].revents != 0 && !serve_one(wait[i].fd)) drop(wait[i].fd);
    }
    if (wait[1].revents != 0) accept_one();
    drop_orphans();
    note_idle();
  }
}

void WeightCacheServer::drop(int connection) {
  forget(connection);
  close(connection);
  connections_.erase(connection);
}

void WeightCacheServer::note_idle() {
  std::uint64_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += entry.users.empty() ? entry.bytes : 0;
  idle_->write(bytes);
}

void WeightCacheServer::accept_one() {
  const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) return;
  if (peer_process(connection) == 0 || connections_.size() >= kConnectionsMax) {
    close(connection);
    return;
  }
  connections_.insert(connection);
}

bool WeightCacheServer::serve_one(int connection) {
  Message message;
  int fd = -1;
  if (!receive_message(connection, message, fd)) return false;
  switch (message.verb) {
    case Verb::kFind:
      find(connection, message);
      break;
    case Verb::kPut:
      put(connection, message, std::exchange(fd, -1));
      break;
    case Verb::kRelease:
      release(connection, key_of(message));
      break;
    case Verb::kEvictUnused:
      evict_unused(connection, key_of(message));
      break;
    default:
      break;
  }
  if (fd >= 0) close(fd);
  return true;
}

void WeightCacheServer::find(int connection, const Message& message) {
  const auto found = entries_.find(key_of(message));
  if (found == entries_.end() || found->second.bytes != message.bytes) {
    send_message(connection, message_of(Verb::kNone, {}, 0), -1);
    return;
  }
  Entry& entry = found->second;
  if (!send_message(connection, message_of(Verb::kFound, found->first, entry.bytes), entry.fd)) {
    return;
  }
  entry.users.insert(connection);
  entry.orphan_us = 0;
}

/// Adds an entry. A second one with the same key is dropped: it has the same content.
void WeightCacheServer::put(int connection, const Message& message, int fd) {
  const std::string key = key_of(message);
  const bool good = fd >= 0 && !key.empty() && is_sealed_memfd(fd, message.bytes);
  if (!good || entries_.count(key) > 0 || entries_.size() >= options_.entries_max) {
    if (fd >= 0) close(fd);
    return;
  }
  entries_[key] = Entry{fd, message.bytes, {connection}, 0};
}

/// Ends a use. An entry that was unloaded on purpose is dropped: there is no next user to wait for.
void WeightCacheServer::release(int connection, const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.users.erase(connection) == 0) return;
  if (found->second.users.empty()) drop(found);
}

/// Ends the uses of a connection whose process has ended without a message.
void WeightCacheServer::forget(int connection) {
  for (auto& [key, entry] : entries_) {
    if (entry.users.erase(connection) > 0 && entry.users.empty())
      entry.orphan_us = system_clock().monotonic_us();
  }
}

void WeightCacheServer::evict_unused(int connection, const std::string& exempt_key) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    const bool excluded = !exempt_key.empty() && entry->first.find(exempt_key) != std::string::npos;
    if (entry->second.users.empty() && !excluded) drop(entry);
  }
  note_idle();  // before the answer: the caller checks free memory next
  send_message(connection, message_of(Verb::kNone, {}, 0), -1);
}

void WeightCacheServer::drop_orphans() {
  const std::int64_t before_us = system_clock().monotonic_us() - options_.orphan_ms * 1000;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->second.orphan_us != 0 && entry->second.orphan_us <= before_us) drop(entry);
  }
}

void WeightCacheServer::drop(std::map<std::string, Entry>::iterator entry) {
  close(entry->second.fd);
  entries_.erase(entry);
}

}  // namespace holdfast::weight_cache
