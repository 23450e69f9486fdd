#pragma once
// What the gateway keeps for its clients, in the daemon's database: files, batches, responses. The
// gateway itself may be killed at any time. Verbs of schema/protocol.md ("objects.…").

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::gateway {

struct Kept {
  std::int64_t seq = 0;  // order in which they were made
  std::string id;
  std::string owner;
  std::int64_t version = 0;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;
  std::string body;        // a JSON object
  std::int64_t bytes = 0;  // of its content
};

/// A change of one object; what is absent stays as it is.
struct KeepChange {
  std::string kind;
  std::string id;
  std::optional<std::int64_t> version;  // that it must have; 0: it must be new
  std::optional<std::string> body;
  std::string_view append;                // behind its content
  std::optional<std::int64_t> append_at;  // how long the content must be before
  std::optional<std::int64_t> expires_ms;
};

struct KeepList {
  std::string kind;
  std::int64_t from = 0;
  bool newest_first = true;
  std::int64_t limit = 100;
};

/// Over a client of the operator's endpoint. Handlers run on that client's I/O thread. Thread-safe.
/// Each call says whose objects it is about: a tenant sees and changes its own alone, and what it
/// makes is its own. What cannot be an id (a part of a path may be any bytes) is not there: the
/// daemon is not asked about it.
class Keeper {
 public:
  explicit Keeper(client::Client& client) : client_(client) {}

  struct Put {
    std::int64_t version = 0;
    std::int64_t bytes = 0;
  };
  /// kConflict: it has another version, length or owner.
  void put(const client::Caller& caller, const KeepChange& change,
           std::function<void(client::Answer<Put>)> done);
  using Found = std::optional<Kept>;
  void get(const client::Caller& caller, const std::string& kind, const std::string& id,
           std::function<void(client::Answer<Found>)> done);
  /// A piece of the content from byte `from` on; empty at its end, and for what is not there.
  void read(const client::Caller& caller, const std::string& kind, const std::string& id,
            std::int64_t from, std::function<void(client::Answer<std::string>)> done);
  struct Page {
    std::vector<Kept> objects;
    bool more = false;
  };
  void list(const client::Caller& caller, const KeepList& query,
            std::function<void(client::Answer<Page>)> done);
  struct Derived {
    std::string id;
    std::int64_t version =
        0;  // of the derivation: 1 is without a secret, for what is there already
  };
  /// The id that a principal's Idempotency-Key stands for: the daemon derives it from a secret that
  /// it tells nobody.
  void derive(const client::Principal& principal, const std::string& kind,
              const std::string& prefix, const std::string& key,
              std::function<void(client::Answer<Derived>)> done);
  void remove(const client::Caller& caller, const std::string& kind, const std::string& id,
              std::function<void(client::Answer<bool>)> done);  // true: it was there

 private:
  client::Client& client_;
};

}  // namespace holdfast::gateway
