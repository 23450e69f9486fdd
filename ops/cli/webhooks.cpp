// webhooks: targets that are told of the ends of batches and background responses, and the
// deliveries. Both are objects in the database; secrets are shown once.

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/client/webhook.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kOverlapMs = 86'400'000;  // both secrets are signed with after a change
constexpr std::size_t kSecretsMax = 4;

std::optional<json> find(const Call& call, const char* kind, int& exit) {
  const auto found = operate(call, "objects.get", {{"kind", kind}, {"id", call.text("ID")}}, exit);
  if (!found || found->at("found") != true) return std::nullopt;
  return found->at("object");
}

int none(const Call& call, const char* verb, const char* list) {
  return report_error(call, Error{Errc::kNotFound, std::string(verb) + ": no " + call.text("ID") +
                                                       "; `holdfast " + list + "` shows them"});
}

/// A target by its id, or by a URL that no other has; nullopt after the error was reported.
std::optional<json> find_target(const Call& call, const char* verb, int& exit) {
  const std::string id = call.text("ID");
  const auto all = list_objects(call, client::kWebhookKind, exit);
  if (!all) return std::nullopt;
  std::vector<const json*> same;
  for (const json& object : *all) {
    if (object.at("id") == id) return object;
    if (object.at("body").value("url", "") == id) same.push_back(&object);
  }
  if (same.size() == 1) return *same[0];
  if (same.empty()) return exit = none(call, verb, "webhooks list"), std::nullopt;
  std::string ids;
  for (const json* object : same) ids += " " + object->at("id").get<std::string>();
  exit = report_error(call, Error{Errc::kConflict, std::string(verb) + ": several webhooks have " +
                                                       id + ", expected an id:" + ids});
  return std::nullopt;
}

json webhook_row(const json& object) {
  const json& body = object.at("body");
  std::string events;
  for (const json& event : body.value("events", json::array())) {
    events += (events.empty() ? "" : ",") + event.get<std::string>();
  }
  const std::string tenant = body.value("tenant", "");
  return {{"id", object.at("id")},
          {"url", body.value("url", "")},
          {"events", events.empty() ? "all" : events},
          {"tenant", tenant.empty() ? "all" : tenant},
          {"private", body.value("private", false)},
          {"created_ms", object.at("created_ms")}};
}

/// "a,b" as a list of events that exist; nullopt after the error was reported.
std::optional<json> read_events(const Call& call, int& exit) {
  json events = json::array();
  std::string rest = call.text("events");
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string one = rest.substr(0, comma);
    rest = comma == std::string::npos ? std::string() : rest.substr(comma + 1);
    const bool recognised =
        std::any_of(std::begin(client::kWebhookEvents), std::end(client::kWebhookEvents),
                    [&](const char* event) { return one == event; });
    if (!recognised) {
      std::string all;
      for (const char* event : client::kWebhookEvents) all += std::string(" ") + event;
      exit = report_error(
          call, Error{Errc::kUsage, "webhooks create: event \"" + one + "\": expected of" + all});
      return std::nullopt;
    }
    events.push_back(one);
  }
  return events;
}

/// Prints a secret, the only time.
int show_secret(const Call& call, const std::string& id, const std::string& secret) {
  if (call.json) {
    print_document(call, {{"id", id}, {"secret", secret}});
    return kExitDone;
  }
  std::printf("%s\n", secret.c_str());
  if (!call.quiet) {
    std::fprintf(stderr, "holdfast: this is the only time that the secret of %s is shown\n",
                 id.c_str());
  }
  return kExitDone;
}

}  // namespace

int webhooks_create(const Call& call) {
  int exit = kExitDone;
  const auto url = client::parse_webhook_url(call.text("URL"));
  if (!url) return report_error(call, url.error());
  const bool may_be_private = call.has("private");
  if (!may_be_private && (!url->https || (url->numeric && !client::is_public_address(url->host)))) {
    return report_error(call, Error{Errc::kUsage,
                                    "webhooks create: plain HTTP and addresses that are not public "
                                    "want --private"});
  }
  const auto events = read_events(call, exit);
  if (!events) return exit;
  const std::string id = "wh_" + client::new_request_id();
  const std::string secret = client::new_webhook_secret();
  const json args = {{"kind", client::kWebhookKind},
                     {"id", id},
                     {"owner", "operator"},
                     {"version", 0},
                     {"body",
                      {{"url", call.text("URL")},
                       {"events", *events},
                       {"tenant", call.text("tenant")},
                       {"private", may_be_private},
                       {"secrets", {{{"secret", secret}, {"until_ms", 0}}}}}}};
  if (!operate(call, "objects.put", args, exit)) return exit;
  return show_secret(call, id, secret);
}

int webhooks_list(const Call& call) {
  int exit = kExitDone;
  const auto objects = list_objects(call, client::kWebhookKind, exit);
  if (!objects) return exit;
  json list = json::array();
  for (const json& object : *objects) list.push_back(webhook_row(object));
  RenderOptions options;
  options.columns = {"id", "url", "events", "tenant", "private", "created_ms"};
  options.when_empty = "no webhooks: nobody is told of anything";
  print_document(call, {{"webhooks", std::move(list)}}, options);
  return kExitDone;
}

int webhooks_delete(const Call& call) {
  int exit = kExitDone;
  const auto object = find_target(call, "webhooks delete", exit);
  if (!object) return exit;
  const std::string id = object->at("id");
  const json args = {{"kind", client::kWebhookKind}, {"id", id}};
  const auto done = operate(call, "objects.delete", args, exit);
  if (!done) return exit;
  if (done->at("deleted") != true) return none(call, "webhooks delete", "webhooks list");
  print_change(call, {{"id", id}, {"deleted", true}}, id + ": deleted");
  return kExitDone;
}

int webhooks_secret(const Call& call) {
  int exit = kExitDone;
  const auto object = find_target(call, "webhooks secret", exit);
  if (!object) return exit;
  const std::int64_t now_ms = system_clock().wall_ms();
  const std::string secret = client::new_webhook_secret();
  json body = object->at("body");
  json secrets = {{{"secret", secret}, {"until_ms", 0}}};
  for (json before : body.value("secrets", json::array())) {
    const std::int64_t until_ms = before.value("until_ms", std::int64_t{0});
    if (secrets.size() >= kSecretsMax || (until_ms > 0 && until_ms <= now_ms)) continue;
    if (until_ms == 0) before["until_ms"] = now_ms + kOverlapMs;
    secrets.push_back(std::move(before));
  }
  body["secrets"] = std::move(secrets);
  const json args = {{"kind", client::kWebhookKind},
                     {"id", object->at("id")},
                     {"version", object->at("version")},
                     {"body", std::move(body)}};
  if (!operate(call, "objects.put", args, exit)) return exit;
  return show_secret(call, object->at("id"), secret);
}

int webhooks_deliveries(const Call& call) {
  int exit = kExitDone;
  json list = json::array();
  for (const char* kind : {client::kDueKind, client::kDoneKind}) {
    const auto objects = list_objects(call, kind, exit);
    if (!objects) return exit;
    for (const json& object : *objects) {
      const json& body = object.at("body");
      list.push_back({{"id", object.at("id")},
                      {"webhook", body.value("webhook", "")},
                      {"type", body.value("type", "")},
                      {"about", body.value("about", "")},
                      {"tenant", object.at("owner")},
                      {"state", body.value("state", "waiting")},
                      {"attempts", body.value("attempts", 0)},
                      {"last", body.value("last", "")},
                      {"created_ms", object.at("created_ms")},
                      {"next_ms", body.contains("state") ? 0 : body.value("next_ms", 0LL)}});
    }
  }
  RenderOptions options;
  options.columns = {"id",       "webhook", "type",       "about",  "state",
                     "attempts", "last",    "created_ms", "next_ms"};
  options.when_empty = "no deliveries";
  print_document(call, {{"deliveries", std::move(list)}}, options);
  return kExitDone;
}

int webhooks_retry(const Call& call) {
  int exit = kExitDone;
  auto object = find(call, client::kDueKind, exit);
  const bool waits = object.has_value();
  if (!object && exit == kExitDone) object = find(call, client::kDoneKind, exit);
  if (!object) {
    return exit != kExitDone ? exit : none(call, "webhooks retry", "webhooks deliveries");
  }
  json body = object->at("body");
  body.erase("state");
  body.erase("ended_ms");
  body["attempts"] = 0;
  body["next_ms"] = 0;
  json args = {{"kind", client::kDueKind},
               {"id", object->at("id")},
               {"owner", object->at("owner")},
               {"version", waits ? object->at("version") : json(0)},
               {"body", std::move(body)}};
  if (!operate(call, "objects.put", args, exit)) return exit;
  if (!waits) {
    args = {{"kind", client::kDoneKind}, {"id", object->at("id")}};
    if (!operate(call, "objects.delete", args, exit)) return exit;
  }
  print_change(call, {{"id", object->at("id")}, {"state", "waiting"}},
               object->at("id").get<std::string>() + ": waiting");
  return kExitDone;
}

}  // namespace holdfast::cli
