#pragma once
// Holds packed weights beyond the life of the worker that packed them: a worker that was killed and
// restarted maps them again instead of reading and packing its models once more. Lives in the
// supervisor, the parent of the workers, and holds descriptors alone: only workers map the memory.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "shared/base/result.h"
#include "shared/weight_cache/idle.h"
#include "shared/weight_cache/message.h"

namespace holdfast::weight_cache {

/// The time that an entry waits for a user after its last one has died: a restarted worker comes
/// within a second, and memory without a user is missing elsewhere.
inline constexpr std::int64_t kOrphanMs = 30'000;

/// The server of the weight cache, with its own thread. held() may be called from any thread.
class WeightCacheServer {
 public:
  struct Options {
    std::string path;  // of the socket, mode 0600; an old one is removed
    std::int64_t orphan_ms = kOrphanMs;
    std::size_t entries_max = 64;
  };
  /// Serves on a thread of its own until it is destroyed. kIo if the socket cannot be made.
  static Result<std::unique_ptr<WeightCacheServer>> start(Options options);
  ~WeightCacheServer();
  WeightCacheServer(const WeightCacheServer&) = delete;
  WeightCacheServer& operator=(const WeightCacheServer&) = delete;

  struct Held {
    std::size_t entries = 0;
    std::uint64_t bytes = 0;
    std::size_t users = 0;
  };
  Held held() const;  // any thread

 private:
  struct Entry {
    int fd = -1;
    std::uint64_t bytes = 0;
    std::set<int> users;         // connections
    std::int64_t orphan_us = 0;  // when its last user went; 0: it has one
  };
  explicit WeightCacheServer(Options options) : options_(std::move(options)) {}
  Result<void> listen_on_path();
  void serve();
  void accept_one();
  /// Serves one message. False when the connection is over.
  bool serve_one(int connection);
  void find(int connection, const Message& message);
  void put(int connection, const Message& message, int fd);
  void release(int connection, const std::string& key);
  void drop(int connection);
  void forget(int connection);
  void evict_unused(int connection, const std::string& exempt_key);
  void drop_orphans();
  void note_idle();
  void drop(std::map<std::string, Entry>::iterator entry);

  const Options options_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};  // a pipe: closing its end wakes the thread
  std::set<int> connections_;
  mutable std::mutex mutex_;  // guards entries_ for held()
  std::map<std::string, Entry> entries_;
  std::unique_ptr<IdleNote> idle_;
  std::thread thread_;
};

}  // namespace holdfast::weight_cache
