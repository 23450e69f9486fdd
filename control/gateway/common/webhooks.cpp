#include "control/gateway/common/webhooks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/common/await.h"
#include "control/gateway/common/object_pages.h"
#include "control/gateway/common/params.h"
#include "shared/base/crash_point.h"
#include "shared/base/json_text.h"
#include "shared/client/webhook.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kIdDigits = 26;
constexpr std::int64_t kTargetsMax = 100'000;

std::string derived_id(const char* prefix, const WebhookEvent& event, const std::string& target) {
  std::string name = event.type;
  name.append(1, '\0').append(event.about).append(1, '\0').append(target);
  if (!event.run.empty()) name.append(1, '\0').append(event.run);
  return prefix + hash_bytes(name).substr(0, kIdDigits);
}

std::optional<bool> object_exists(ObjectStore& object_store, const char* kind,
                                  const std::string& id) {
  const auto answer = await<ObjectStore::Found>(
      [&](auto done) { object_store.get(client::AllTenants::local(), kind, id, std::move(done)); });
  const auto* found = std::get_if<ObjectStore::Found>(&answer);
  return found == nullptr ? std::nullopt : std::optional(found->has_value());
}

}  // namespace

bool WebhookTarget::wants(const std::string& owner, std::string_view type) const {
  const bool theirs = tenant.empty() || tenant == owner;
  return theirs && (events.empty() || std::any_of(events.begin(), events.end(),
                                                  [&](const auto& e) { return e == type; }));
}

std::vector<WebhookTarget> targets_of(const std::vector<StoredObject>& stored) {
  std::vector<WebhookTarget> out;
  for (const StoredObject& one : stored) {
    const json body = try_parse_json<json>(one.body);
    if (!body.is_object()) continue;
    WebhookTarget target;
    target.id = one.id;
    target.url = body.value("url", "");
    target.events = body.value("events", std::vector<std::string>());
    target.tenant = body.value("tenant", "");
    target.may_be_private = body.value("private", false);
    for (const json& secret : body.value("secrets", json::array())) {
      target.secrets.push_back(
          {secret.value("secret", ""), secret.value("until_ms", std::int64_t{0})});
    }
    out.push_back(std::move(target));
  }
  return out;
}

std::optional<std::vector<WebhookTarget>> read_targets(ObjectStore& object_store) {
  std::vector<WebhookTarget> targets;
  const auto add = [&](const std::vector<StoredObject>& stored) {
    for (WebhookTarget& target : targets_of(stored)) targets.push_back(std::move(target));
    return true;
  };
  if (!each_page(object_store, client::kWebhookKind, Order::kOldestFirst, kTargetsMax, add)) {
    return std::nullopt;
  }
  return targets;
}

bool any_wants_responses(const std::vector<WebhookTarget>& targets, const std::string& owner) {
  return std::any_of(targets.begin(), targets.end(), [&](const WebhookTarget& target) {
    return std::any_of(std::begin(client::kWebhookEvents), std::end(client::kWebhookEvents),
                       [&](std::string_view type) {
                         return type.starts_with("response.") && target.wants(owner, type);
                       });
  });
}

json event_json(const WebhookEvent& event) {
  return {{"id", derived_id("evt_", event, "")},
          {"object", "event"},
          {"type", event.type},
          {"created_at", event.at_ms / 1000},
          {"data", {{"id", event.about}}}};
}

bool put_deliveries(ObjectStore& object_store, const WebhookEvent& event) {
  crash_point(CrashPoint::kGatewayHookEnded);
  const auto targets = read_targets(object_store);
  if (!targets) return false;
  for (const WebhookTarget& target : *targets) {
    if (!target.wants(event.owner, event.type)) continue;
    const std::string id = derived_id("msg_", event, target.id);
    const auto over = object_exists(object_store, client::kDoneKind, id);
    if (!over) return false;
    if (*over) continue;
    ObjectChange change;
    change.kind = client::kDueKind;
    change.id = id;
    change.version = 0;
    change.body = json{{"webhook", target.id}, {"type", event.type},
                       {"about", event.about}, {"payload", event_json(event).dump()},
                       {"attempts", 0},        {"next_ms", 0},
                       {"lease_ms", 0},        {"last", ""}}
                      .dump();
    const auto owner = client::Principal::on_behalf_of(event.owner);
    const auto put = await<ObjectStore::Put>(
        [&](auto done) { object_store.put(owner, change, std::move(done)); });
    const auto* failure = std::get_if<client::Failure>(&put);
    if (failure != nullptr && failure->code != Errc::kConflict) return false;
  }
  crash_point(CrashPoint::kGatewayHookDue);
  return true;
}

}  // namespace holdfast::gateway
