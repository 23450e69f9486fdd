// keys: who may use the gateway. The key itself is printed once and kept nowhere; its hash is an
// object in the database.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/daemon.h"
#include "ops/cli/output.h"
#include "ops/cli/verb_functions.h"
#include "shared/base/clock.h"
#include "shared/client/api_key.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kDayMs = 86'400'000;

/// A row of `keys list`, without the hash.
json shown(const json& object, std::int64_t now_ms) {
  const json& body = object.at("body");
  const std::int64_t expires_ms = body.value("expires_ms", std::int64_t{0});
  const bool revoked = body.value("revoked_ms", std::int64_t{0}) > 0;
  const bool over = expires_ms > 0 && expires_ms <= now_ms;
  return {{"id", object.at("id")},
          {"name", body.value("name", "")},
          {"role", body.value("role", "")},
          {"tenant", body.value("tenant", "")},
          {"hint", body.value("hint", "")},
          {"created_ms", object.at("created_ms")},
          {"expires_ms", expires_ms},
          {"state", revoked ? "revoked" : over ? "expired" : "valid"}};
}

}  // namespace

int keys_create(const Call& call) {
  const std::string role = call.text("role", "client");
  if (role != "client" && role != "operator") {
    return report_error(call, Error{Errc::kUsage, "keys create: role \"" + role +
                                                      "\": expected client or operator"});
  }
  const std::int64_t days = call.integer("expires", 0);
  if (days < 0) {
    return report_error(call, Error{Errc::kUsage, "keys create: expires: expected days from 1"});
  }
  const std::int64_t now_ms = system_clock().wall_ms();
  const std::string key = client::new_api_key();
  const std::string id = "key_" + client::new_request_id();
  const json body = {{"name", call.text("NAME")},
                     {"role", role},
                     {"tenant", call.text("tenant", "default")},
                     {"hash", client::hash_api_key(key)},
                     {"hint", key.substr(0, 7) + "…"},
                     {"expires_ms", days == 0 ? 0 : now_ms + days * kDayMs}};
  int exit = kExitDone;
  const json args = {{"kind", client::kKeyKind},
                     {"id", id},
                     {"owner", "operator"},
                     {"version", 0},
                     {"body", body}};
  if (!operate(call, "objects.put", args, exit)) return exit;
  if (call.json) {
    print_document(call, {{"id", id}, {"key", key}, {"role", role}, {"tenant", body["tenant"]}});
    return kExitDone;
  }
  std::printf("%s\n", key.c_str());
  std::fprintf(stderr, "holdfast: this is the only time that key %s is shown\n", id.c_str());
  return kExitDone;
}

int keys_list(const Call& call) {
  const std::int64_t now_ms = system_clock().wall_ms();
  json list = json::array();
  json args = {{"kind", client::kKeyKind}, {"order", "oldest"}, {"limit", 1000}};
  for (;;) {
    int exit = kExitDone;
    const auto page = operate(call, "objects.list", args, exit);
    if (!page) return exit;
    for (const json& object : page->at("objects")) list.push_back(shown(object, now_ms));
    if (page->at("more") != true) break;
    args["from"] = page->at("objects").back().at("seq");
  }
  RenderOptions options;
  options.columns = {"id", "name", "role", "tenant", "hint", "created_ms", "expires_ms", "state"};
  options.when_empty = "no keys: whoever reaches the gateway's loopback address may do everything";
  print_document(call, {{"keys", std::move(list)}}, options);
  return kExitDone;
}

int keys_revoke(const Call& call) {
  int exit = kExitDone;
  const std::string id = call.text("ID");
  const auto found = operate(call, "objects.get", {{"kind", client::kKeyKind}, {"id", id}}, exit);
  if (!found) return exit;
  if (found->at("found") != true) {
    return report_error(call, Error{Errc::kNotFound, "keys revoke: no key " + id +
                                                         "; `holdfast keys list` shows them"});
  }
  json object = found->at("object");
  if (object["body"].value("revoked_ms", std::int64_t{0}) == 0) {
    object["body"]["revoked_ms"] = system_clock().wall_ms();
    const json args = {{"kind", client::kKeyKind},
                       {"id", id},
                       {"version", object["version"]},
                       {"body", object["body"]}};
    if (!operate(call, "objects.put", args, exit)) return exit;
  }
  print_document(call, shown(object, system_clock().wall_ms()));
  return kExitDone;
}

}  // namespace holdfast::cli
