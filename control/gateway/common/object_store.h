#pragma once
// Client of the object store: what the gateway stores for its clients in the daemon's database
// (files, batches, responses), since the gateway itself may be killed at any time. Its verbs are in
// schema/protocol.md ("objects.…").

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::gateway {

/// One object as it is stored, without its content.
struct StoredObject {
  std::int64_t seq = 0;  // order of creation
  std::string id;
  std::string owner;
  std::int64_t version = 0;
  std::int64_t created_ms = 0;
  std::int64_t expires_ms = 0;
  std::string body;        // a JSON object
  std::int64_t bytes = 0;  // length of its content
};

/// A change of one object; absent members remain as they are.
struct ObjectChange {
  std::string kind;
  std::string id;
  std::optional<std::int64_t> version;  // the version it must have; 0: it must be new
  std::optional<std::string> body;
  std::string_view append;                // appended to its content
  std::optional<std::int64_t> append_at;  // length that the content must have before
  std::optional<std::int64_t> expires_ms;
};

/// A page of the objects of a kind.
struct ObjectListQuery {
  std::string kind;
  std::int64_t from = 0;
  bool newest_first = true;
  std::int64_t limit = 100;
};

/// Calls the object store over a client of the operator endpoint. Handlers run on that client's I/O
/// thread. Thread-safe. Each call names its caller: a tenant sees and changes only its own objects,
/// and owns those it makes. A text that cannot be an id (a part of a path may be any bytes) is
/// answered as not found, without asking the daemon.
class ObjectStore {
 public:
  explicit ObjectStore(client::Client& client) : client_(client) {}

  struct Put {
    std::int64_t version = 0;
    std::int64_t bytes = 0;
  };
  /// Makes or changes an object. Fails with kConflict if it has another version, length or owner.
  void put(const client::Caller& caller, const ObjectChange& change,
           std::function<void(client::Answer<Put>)> done);
  using Found = std::optional<StoredObject>;
  void get(const client::Caller& caller, const std::string& kind, const std::string& id,
           std::function<void(client::Answer<Found>)> done);
  /// Reads a chunk of the content from byte `from` on; empty at its end and for an unknown object.
  void read(const client::Caller& caller, const std::string& kind, const std::string& id,
            std::int64_t from, std::function<void(client::Answer<std::string>)> done);
  struct Page {
    std::vector<StoredObject> objects;
    bool more = false;
  };
  void list(const client::Caller& caller, const ObjectListQuery& query,
            std::function<void(client::Answer<Page>)> done);
  struct Derived {
    std::string id;
    std::int64_t version =
        0;  // of the derivation; 1: without a secret, for objects made by older versions
  };
  /// Returns the id that a principal's Idempotency-Key stands for. The daemon derives it from a
  /// secret that it never tells.
  void derive(const client::Principal& principal, const std::string& kind,
              const std::string& prefix, const std::string& key,
              std::function<void(client::Answer<Derived>)> done);
  void remove(const client::Caller& caller, const std::string& kind, const std::string& id,
              std::function<void(client::Answer<bool>)> done);  // true: it existed

 private:
  client::Client& client_;
};

}  // namespace holdfast::gateway
