#pragma once
// Webhooks as they are kept: targets that an operator made, deliveries that wait, responses whose
// end is to be told. An event that is due is in the database before what says that its source has
// not ended is taken away, so whoever dies, it is told, under one id.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/keeper.h"

namespace holdfast::gateway {

/// Background responses whose end is to be told: kind and, as id, the response's.
inline constexpr const char* kWatchKind = "webhook.watch";

struct WebhookTarget {
  std::string id;
  std::string url;
  std::vector<std::string> events;  // empty: all
  std::string tenant;               // empty: of every tenant
  bool may_be_private = false;
  struct Secret {
    std::string secret;
    std::int64_t until_ms = 0;  // 0: for ever
  };
  std::vector<Secret> secrets;
  bool wants(const std::string& owner, std::string_view type) const;
};
std::vector<WebhookTarget> targets_of(const std::vector<Kept>& kept);
/// All of them: there are few. Never on the SDK's thread.
std::optional<std::vector<WebhookTarget>> read_targets(Keeper& keeper);

/// Whether any of them may want the end of one of `owner`'s responses.
bool any_wants_responses(const std::vector<WebhookTarget>& targets, const std::string& owner);

/// The end of a batch or a response.
struct WebhookEvent {
  std::string type;   // "batch.completed"
  std::string about;  // id of what ended
  std::string owner;
  std::int64_t at_ms = 0;
};
/// As OpenAI writes it: id, object, type, created_at, data.id.
nlohmann::ordered_json event_json(const WebhookEvent& event);

/// A delivery for each target that wants the event; again, and nothing changes. False: not all are
/// in the database; to be called again. Never on the SDK's thread.
bool put_deliveries(Keeper& keeper, const WebhookEvent& event);

}  // namespace holdfast::gateway
