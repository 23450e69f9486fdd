#pragma once
// Webhooks as stored objects: targets that an operator made, deliveries that wait, and responses
// whose end is to be told. A due event is stored before the mark that its source has not ended is
// removed, so the event is told, under one id, whichever process dies.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/common/object_store.h"

namespace holdfast::gateway {

/// Kind of the marks of background responses whose end is to be told; the id is the response's.
inline constexpr const char* kWatchKind = "webhook.watch";

/// A target of webhooks.
struct WebhookTarget {
  std::string id;
  std::string url;
  std::vector<std::string> events;  // empty: all
  std::string tenant;               // empty: every tenant
  bool may_be_private = false;
  struct Secret {
    std::string secret;
    std::int64_t until_ms = 0;  // 0: without end
  };
  std::vector<Secret> secrets;
  bool wants(const std::string& owner, std::string_view type) const;
};
/// Reads targets from objects of the kind "webhook". One whose body is no object is left out.
std::vector<WebhookTarget> targets_of(const std::vector<StoredObject>& stored);
/// Returns all targets (their number is small); nullopt if they cannot be read. Blocks; must not
/// run on the SDK's thread.
std::optional<std::vector<WebhookTarget>> read_targets(ObjectStore& object_store);

/// True if any target may want the end of one of `owner`'s responses.
bool any_wants_responses(const std::vector<WebhookTarget>& targets, const std::string& owner);

/// The end of a batch, a response or a pull.
struct WebhookEvent {
  std::string type;   // "batch.completed"
  std::string about;  // id of what ended
  std::string owner;
  std::int64_t at_ms = 0;
  std::string run = {};  // which of several runs under that id
};
/// Returns the event as OpenAI writes it: id, object, type, created_at, data.id.
nlohmann::ordered_json event_json(const WebhookEvent& event);

/// Stores a delivery for each target that wants the event; a second call changes nothing. Returns
/// false if not all are stored; then call it again. Blocks; must not run on the SDK's thread.
bool put_deliveries(ObjectStore& object_store, const WebhookEvent& event);

}  // namespace holdfast::gateway
