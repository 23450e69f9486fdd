#pragma once
// Keeps packed weights beyond the life of the worker that packed them: a worker that was killed
// maps them again instead of reading and packing its models once more. Lives in the supervisor,
// the parent of the workers, and holds descriptors alone: the memory is mapped by workers only.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "shared/base/result.h"
#include "shared/images/idle.h"
#include "shared/images/message.h"

namespace holdfast::images {

/// How long an image waits for somebody after its last user has died: a restarted worker comes
/// within a second, and memory that nobody uses is missing elsewhere.
inline constexpr std::int64_t kOrphanMs = 30'000;

class Keeper {
 public:
  struct Options {
    std::string path;  // of the socket, mode 0600; an old one is removed
    std::int64_t orphan_ms = kOrphanMs;
    std::size_t images_max = 64;
  };
  /// Serves on a thread of its own until it is destroyed. kIo if the socket cannot be made.
  static Result<std::unique_ptr<Keeper>> start(Options options);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  struct Held {
    std::size_t images = 0;
    std::uint64_t bytes = 0;
    std::size_t users = 0;
  };
  Held held() const;  // any thread

 private:
  struct Image {
    int fd = -1;
    std::uint64_t bytes = 0;
    std::set<int> users;         // connections
    std::int64_t orphan_us = 0;  // since when nobody uses it; 0: somebody does
  };
  explicit Keeper(Options options) : options_(std::move(options)) {}
  Result<void> listen_on_path();
  void serve();
  void accept_one();
  /// False when the connection is over.
  bool serve_one(int connection);
  void find(int connection, const Message& message);
  void keep(int connection, const Message& message, int fd);
  void release(int connection, const std::string& key);
  void forget(int connection);
  void make_room(int connection, const std::string& wanted);
  void drop_orphans();
  void note_idle();
  void drop(std::map<std::string, Image>::iterator image);

  const Options options_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};  // a pipe: closing its end wakes the thread
  std::set<int> connections_;
  mutable std::mutex mutex_;  // guards images_ for held()
  std::map<std::string, Image> images_;
  std::unique_ptr<IdleNote> idle_;
  std::thread thread_;
};

}  // namespace holdfast::images
