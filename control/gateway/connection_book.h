#pragma once
// The open connections, by number and by address. Strangers, who have not shown a key yet, are in a
// small pool of their own: they take nothing from the room of the others, and when the pool is full
// the oldest one of the address that has most of them gives way to the newest.

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

/// The name by which `address` is counted: of IPv6 the network of 64 bits, as one host has
/// a whole one.
std::string counted_address(const std::string& address);

/// Thread-safe. Its lock is never held while calling out.
class ConnectionBook {
 public:
  using Id = std::uint64_t;
  explicit ConnectionBook(const ServerLimits& limits) : limits_(limits) {}

  /// 0 if the address or the server has too many.
  Id enter(const std::string& address);
  /// Always has room. `gives_way`: whom to close for it, if anybody.
  Id enter_stranger(const std::string& address, std::shared_ptr<Connection>* gives_way);
  void set(Id id, std::weak_ptr<Connection> connection);
  /// A stranger has shown a key of `tenant`. False if its address, its tenant or the server has too
  /// many; then it stays what it was.
  bool know(Id id, const std::string& tenant);
  /// Makes it a stranger again, as its key is worth nothing any more. Returns whom to close for it.
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
  std::map<std::string, int> by_address_, by_tenant_;  // strangers are in none
  std::map<std::string, std::set<Id>> strangers_;      // by address, oldest first
  int strangers_count_ = 0;
  std::unordered_map<Id, Entry> open_;
  Id last_ = 0;
};

}  // namespace holdfast::gateway
