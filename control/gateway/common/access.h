#pragma once
// Access control: which caller a request's key makes it. Without any key, the server's own user and
// root may do everything at a loopback address; once a key exists, every request needs one. A
// request is judged by the keys as they are when it arrives, or were at most a second before: an
// older list is read again first. While the keys cannot be read, nobody is let in.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/gateway/common/object_store.h"
#include "control/gateway/http/http_types.h"
#include "control/gateway/http/peer_user.h"

namespace holdfast::gateway {

/// Thread-safe.
class Access : public std::enable_shared_from_this<Access> {
 public:
  /// `loopback`: the served address can be reached from this machine alone. `users` tells this
  /// machine's users apart; with nullptr all of them are let in.
  Access(ObjectStore& object_store, bool loopback, std::shared_ptr<PeerUsers> users = nullptr)
      : object_store_(object_store), loopback_(loopback), users_(std::move(users)) {}
  void start() { refresh(); }

  /// True if no key is needed, as far as is known; true also before the keys were ever read.
  bool may_be_keyless() const;
  /// Returns false if the keys must be read first for this request (its `arrived_us` counts). Then
  /// `work` runs once, on the client's I/O thread, when they have been read or cannot be.
  bool ready(const Request& request, std::function<void()> work);
  /// Returns the principal, or the refusal: 401, or 503 where the keys could not be read.
  std::variant<Principal, Response> check(const Request& request);

  /// True at a loopback address if no key existed when the keys were last read.
  bool keyless() const;
  /// Returns the refusal of a peer that may not use this address without a key.
  std::optional<Response> refuse_peer(const Request& request) const;

 private:
  struct Key {
    Principal principal;
    std::int64_t expires_ms = 0;  // 0 = never
  };
  using Keys = std::map<std::string, Key>;  // by hash
  using Works = std::vector<std::function<void()>>;
  void refresh();
  bool judges(const std::string& hash, std::int64_t arrived_us) const;
  void begin_read();
  void end_read(bool read);
  void read_page(std::shared_ptr<Keys> keys, std::int64_t from, bool any);
  static void add_key(const StoredObject& stored, Keys& keys);
  void replace_keys(Keys keys, bool any);
  std::variant<Principal, Response> check_key(const std::string& hash) const;

  ObjectStore& object_store_;
  const bool loopback_;
  const std::shared_ptr<PeerUsers> users_;
  mutable std::mutex mutex_;
  Keys keys_;
  bool any_ = false;                // a key exists, perhaps a revoked one
  bool keys_loaded_ = false;        // they were read once
  std::int64_t keys_as_of_us_ = 0;  // start of the read that keys_ comes from
  bool reading_ = false;            // a read is under way
  std::int64_t reading_us_ = 0;     // when it began
  Works waiting_;                   // for the read that is under way
  Works later_;                     // for the next read: they came while one was under way
};

}  // namespace holdfast::gateway
