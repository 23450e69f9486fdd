#pragma once
// Who may ask for what. Without any key everybody who reaches a loopback address may do everything;
// from the first key on a key is wanted. Keys are read from the database now and then, so a revoked
// one is refused within a second or two; while the daemon is away the keys that are known hold.

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

namespace holdfast::gateway {

/// Thread-safe.
class Access : public std::enable_shared_from_this<Access> {
 public:
  /// `loopback`: the address that is served can be reached from this machine alone.
  Access(Keeper& keeper, bool loopback) : keeper_(keeper), loopback_(loopback) {}
  void start() { refresh(); }

  /// False while the keys were never read: then `work` runs when they are, or when that has failed.
  bool ready(std::function<void()> work);
  /// The principal, or the answer: 401, or 503 while the keys were never read.
  std::variant<Principal, Response> check(const Request& request);

 private:
  struct Key {
    Principal principal;
    std::int64_t expires_ms = 0;  // 0 = never
  };
  using Keys = std::map<std::string, Key>;  // by hash
  void refresh();
  void end_read(bool read);
  void read_page(std::shared_ptr<Keys> keys, std::int64_t from, bool any);

  Keeper& keeper_;
  const bool loopback_;
  std::mutex mutex_;
  Keys keys_;
  bool any_ = false;     // there is a key, perhaps a revoked one
  bool known_ = false;   // they were read
  bool asking_ = false;  // a read is on its way
  std::int64_t read_ms_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace holdfast::gateway
