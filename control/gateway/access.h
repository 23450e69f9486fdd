#pragma once
// Decides who may ask for what. Without any key the users of this machine who own the server may do
// everything at its loopback address; from the first key on a key is wanted. A request is judged by
// the keys as they were when it came, or at most a moment before: keys that were read earlier are
// read again first. While they cannot be read nobody is let in.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/gateway/http_types.h"
#include "control/gateway/keeper.h"
#include "control/gateway/peer_user.h"

namespace holdfast::gateway {

/// Thread-safe.
class Access : public std::enable_shared_from_this<Access> {
 public:
  /// `loopback`: the address that is served can be reached from this machine alone. `users`: tells
  /// its users apart; nullptr: all of them are let in.
  Access(Keeper& keeper, bool loopback, std::shared_ptr<PeerUsers> users = nullptr)
      : keeper_(keeper), loopback_(loopback), users_(std::move(users)) {}
  void start() { refresh(); }

  /// Nobody is asked for a key, as far as is known: also before the keys were ever read.
  bool may_be_keyless() const;
  /// False: the keys are to be read first for this request (its `arrived_us` counts); then `work`
  /// runs when they were, or could not be.
  bool ready(const Request& request, std::function<void()> work);
  /// The principal, or the answer: 401, or 503 where the keys could not be read.
  std::variant<Principal, Response> check(const Request& request);

  /// True at a loopback address if there was no key when they were last read.
  bool keyless() const;
  /// The refusal of a peer who may not use this address without a key.
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

  Keeper& keeper_;
  const bool loopback_;
  const std::shared_ptr<PeerUsers> users_;
  mutable std::mutex mutex_;
  Keys keys_;
  bool any_ = false;             // there is a key, perhaps a revoked one
  bool known_ = false;           // they were read
  std::int64_t known_us_ = 0;    // when the read began that told what is known
  bool reading_ = false;         // a read is on its way
  std::int64_t reading_us_ = 0;  // since when
  Works waiting_;                // for the read that is on its way
  Works later_;                  // for the one after it: they came while it was under way
};

}  // namespace holdfast::gateway
