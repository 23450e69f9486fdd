#pragma once
// The open connections, by number and by address. Strangers (connections that have not shown a key)
// are in a small pool of their own: they take nothing from the limits of the others. When the pool
// is full, the oldest connection of the address that has most of them gives way to the newest.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace holdfast::gateway {

class Connection;
struct ServerLimits;

/// Returns the name by which `address` is counted: for IPv6 its network of 64 bits, as one host has
/// a whole one.
std::string counted_address(const std::string& address);

/// Counts connections against the server's limits. Thread-safe; never calls out while it holds its
/// lock.
class ConnectionTable {
 public:
  using Id = std::uint64_t;
  explicit ConnectionTable(const ServerLimits& limits) : limits_(limits) {}

  /// Adds a connection. Returns 0 if the address or the server has too many.
  Id enter(const std::string& address);
  /// Adds a stranger; always succeeds. `gives_way` is the connection to close for it, or nullptr.
  Id enter_stranger(const std::string& address, std::shared_ptr<Connection>* gives_way);
  /// Sets the connection of an entry.
  void set(Id id, std::weak_ptr<Connection> connection);
  /// Moves a stranger that has shown a key of `tenant` to the others. Returns false if its address,
  /// its tenant or the server has too many; then it remains a stranger. False also for an unknown
  /// id.
  bool know(Id id, const std::string& tenant);
  /// Makes a connection a stranger again, as its key is no longer valid. Returns the connection to
  /// close for it, or nullptr.
  std::shared_ptr<Connection> forget(Id id);
  void leave(Id id);

  std::vector<std::shared_ptr<Connection>> all() const;
  int size() const;

 private:
  struct Entry {
    std::string address;
    std::string tenant;
    bool stranger = false;
    std::weak_ptr<Connection> connection;
  };
  bool full(const std::string& address, const std::string& tenant) const;
  void count(const Entry& entry, int by);
  std::shared_ptr<Connection> add_stranger(Id id);
  void drop_stranger(Id id);

  const ServerLimits& limits_;
  mutable std::mutex mutex_;
  std::map<std::string, int> by_address_, by_tenant_;  // without strangers
  std::map<std::string, std::set<Id>> strangers_;      // by address, oldest first
  int strangers_count_ = 0;
  std::unordered_map<Id, Entry> open_;
  Id last_ = 0;
};

}  // namespace holdfast::gateway
