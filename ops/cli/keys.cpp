// keys: API keys of the gateway. A key itself is printed once and stored nowhere; its hash is an
// object in the database.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/client/api_key.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kDayMs = 86'400'000;

/// Flags that are members of a key's object, with _ for -; 0 = no limit.
constexpr std::pair<const char*, const char*> kLimits[] = {
    {"max-requests", "max_requests"}, {"requests-per-minute", "requests_per_minute"}};

/// Reads the limits that were given. False: the error was reported.
bool set_limits(const Call& call, const char* verb, json& body, int& exit) {
  for (const auto& [flag, member] : kLimits) {
    if (!call.has(flag)) continue;
    const std::int64_t limit = call.integer(flag);
    if (limit < 0) {
      exit = report_error(call, Error{Errc::kUsage, std::string(verb) + ": " + flag +
                                                        ": expected 0 (no limit) or more"});
      return false;
    }
    body[member] = limit;
  }
  return true;
}

/// Reads the highest priority that its requests may ask for. False: the error was reported.
bool set_priority(const Call& call, const char* verb, json& body, int& exit) {
  if (!call.has("priority")) return true;
  const std::string priority = call.text("priority");
  if (priority != "interactive" && priority != "normal") {
    exit = report_error(call, Error{Errc::kUsage, std::string(verb) + ": priority \"" + priority +
                                                      "\": expected interactive or normal"});
    return false;
  }
  body["priority"] = priority;
  return true;
}

/// A row of `keys list`, without the hash.
json key_row(const json& object, std::int64_t now_ms) {
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
          {"max_requests", body.value("max_requests", std::int64_t{0})},
          {"requests_per_minute", body.value("requests_per_minute", std::int64_t{0})},
          {"priority",
           body.value("priority", body.value("role", "") == "operator" ? "interactive" : "normal")},
          {"state", revoked ? "revoked"
                    : over  ? "expired"
                            : "valid"}};
}

/// The error where no key, or more than one, has the name.
Error not_one_key(const char* verb, const std::string& id, const std::vector<const json*>& named) {
  if (named.empty()) {
    return {Errc::kNotFound,
            std::string(verb) + ": no key " + id + "; `holdfast keys list` shows them"};
  }
  std::string why =
      ": " + std::to_string(named.size()) + " keys have the name " + id + ", expected an id:";
  for (const json* object : named) why += " " + object->at("id").get<std::string>();
  return {Errc::kConflict, verb + why};
}

/// Finds a key by its id or by a name that no other key has (no other valid key, if any is valid);
/// nullopt after the error was reported.
std::optional<json> find_key(const Call& call, const char* verb, int& exit) {
  const std::string id = call.text("ID");
  const auto all = list_objects(call, client::kKeyKind, exit);
  if (!all) return std::nullopt;
  const std::int64_t now_ms = system_clock().wall_ms();
  std::vector<const json*> named, valid;
  for (const json& object : *all) {
    if (object.at("id") == id) return object;
    if (object.at("body").value("name", "") != id) continue;
    named.push_back(&object);
    if (key_row(object, now_ms)["state"] == "valid") valid.push_back(&object);
  }
  if (!valid.empty()) named = valid;
  if (named.size() == 1) return *named[0];
  exit = report_error(call, not_one_key(verb, id, named));
  return std::nullopt;
}

/// "key_…: laptop is revoked", for people.
std::string line_of(const json& row) {
  const std::string state = row["state"] == "valid" ? "changed" : row["state"].get<std::string>();
  return row["id"].get<std::string>() + ": " + row["name"].get<std::string>() + " is " + state;
}

/// Stores the changed object of a key and prints the change.
int put_key(const Call& call, const json& object) {
  int exit = kExitDone;
  const json args = {{"kind", client::kKeyKind},
                     {"id", object["id"]},
                     {"version", object["version"]},
                     {"body", object["body"]}};
  if (!operate(call, "objects.put", args, exit)) return exit;
  const json row = key_row(object, system_clock().wall_ms());
  print_change(call, row, line_of(row));
  return kExitDone;
}

}  // namespace

/// Checks what can be checked before anything is made.
static Result<void> check_create(const Call& call) {
  const std::string role = call.text("role", "client");
  if (role != "client" && role != "operator" && role != "metrics") {
    return Error{Errc::kUsage,
                 "keys create: role \"" + role + "\": expected client, operator or metrics"};
  }
  if (call.has("tenant") && call.text("tenant").empty()) {
    return Error{Errc::kUsage, "keys create: tenant: expected a name"};
  }
  if (call.integer("expires", 0) < 0) {
    return Error{Errc::kUsage, "keys create: expires: expected days from 1"};
  }
  return {};
}

int keys_create(const Call& call) {
  if (const auto good = check_create(call); !good) return report_error(call, good.error());
  const std::string role = call.text("role", "client");
  const std::int64_t days = call.integer("expires", 0);
  const std::int64_t now_ms = system_clock().wall_ms();
  const std::string key = client::new_api_key();
  const std::string id = "key_" + client::new_request_id();
  json body = {
      {"name", call.text("NAME")},         {"role", role},
      {"tenant", call.text("tenant", id)}, {"hash", client::hash_api_key(key)},
      {"hint", key.substr(0, 7) + "…"},    {"expires_ms", days == 0 ? 0 : now_ms + days * kDayMs}};
  int exit = kExitDone;
  if (!set_limits(call, "keys create", body, exit)) return exit;
  if (!set_priority(call, "keys create", body, exit)) return exit;
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
  if (!call.quiet) {
    std::fprintf(stderr, "holdfast: this is the only time that key %s is shown\n", id.c_str());
  }
  return kExitDone;
}

int keys_list(const Call& call) {
  const std::int64_t now_ms = system_clock().wall_ms();
  int exit = kExitDone;
  const auto all = list_objects(call, client::kKeyKind, exit);
  if (!all) return exit;
  json list = json::array();
  for (const json& object : *all) list.push_back(key_row(object, now_ms));
  RenderOptions options;
  options.columns = {"id",         "name",         "role",
                     "tenant",     "hint",         "created_ms",
                     "expires_ms", "max_requests", "requests_per_minute",
                     "priority",   "state"};
  options.when_empty =
      "no keys: this user and root may do everything at the gateway's loopback address";
  print_document(call, {{"keys", std::move(list)}}, options);
  return kExitDone;
}

int keys_update(const Call& call) {
  int exit = kExitDone;
  if (!call.has("max-requests") && !call.has("requests-per-minute") && !call.has("priority")) {
    return report_error(call, Error{Errc::kUsage,
                                    "keys update: expected --max-requests, --requests-per-minute "
                                    "or --priority"});
  }
  auto object = find_key(call, "keys update", exit);
  if (!object || !set_limits(call, "keys update", (*object)["body"], exit)) return exit;
  if (!set_priority(call, "keys update", (*object)["body"], exit)) return exit;
  return put_key(call, *object);
}

int keys_revoke(const Call& call) {
  int exit = kExitDone;
  auto object = find_key(call, "keys revoke", exit);
  if (!object) return exit;
  json& body = (*object)["body"];
  if (body.value("revoked_ms", std::int64_t{0}) > 0) {
    const json row = key_row(*object, system_clock().wall_ms());
    print_change(call, row, line_of(row));
    return kExitDone;
  }
  body["revoked_ms"] = system_clock().wall_ms();
  return put_key(call, *object);
}

}  // namespace holdfast::cli
