#pragma once
// A worker's client of the weight cache server.

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace holdfast::weight_cache {

/// A connection to the server. Thread-safe. Without a server every call reports that and does
/// nothing; a server that went away is looked for again at the next find().
class Client {
 public:
  explicit Client(std::string path) : path_(std::move(path)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Returns true if a server listens, so that an entry is worth making.
  bool connected();
  /// Returns a descriptor of a finished entry of exactly this size, owned by the caller; -1: there
  /// is none. From then on this process counts as a user of it.
  int find(const std::string& key, std::uint64_t bytes);
  /// Stores a sealed memfd (shared/weight_cache/memfd.h) as an entry; this process is its first
  /// user.
  void put(const std::string& key, std::uint64_t bytes, int fd);
  /// Drops the entries without users, except those whose key contains `exempt_key`, to free their
  /// memory. Returns when it is free.
  void evict_unused(const std::string& exempt_key);
  /// Ends this process's use of the entry.
  void release(const std::string& key);

 private:
  bool connect_if_needed();
  void disconnect();
  const std::string path_;
  std::mutex mutex_;
  int socket_ = -1;
};

}  // namespace holdfast::weight_cache
