// keys node, keys gateway, keys client: key pairs of other machines, for the daemon's listener
// (serve --listen). The secret half is written into a file and stored nowhere; the public half is
// an object in the database.

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/clock.h"
#include "shared/client/peer_key.h"
#include "shared/wire/curve.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kDayMs = 86'400'000;

/// A key's object, if there is one of the name.
struct Stored {
  client::PeerKey key;
  std::int64_t version = 0;
};

/// Finds the key of a name; nullopt if there is none, or after an error was reported (`exit`).
std::optional<Stored> find_peer_key(const Call& call, client::PeerRole role, int& exit) {
  const auto all = list_objects(call, client::kPeerKeyKind, exit);
  if (!all) return std::nullopt;
  const std::string id = client::peer_key_id(role, call.text("NAME"));
  for (const json& object : *all) {
    if (object.at("id") != id) continue;
    auto key = client::read_peer_key(id, object.at("body").dump());
    if (key) return Stored{std::move(*key), object.at("version")};
  }
  return std::nullopt;
}

int put_peer_key(const Call& call, const client::PeerKey& key, std::int64_t version) {
  int exit = kExitDone;
  const json args = {{"kind", client::kPeerKeyKind},
                     {"id", key.id},
                     {"owner", "operator"},
                     {"version", version},
                     {"body", client::peer_key_body(key)}};
  operate(call, "objects.put", args, exit);
  return exit;
}

/// Makes the key's two halves: the file for the peer, and what the database is to have.
Result<client::PeerKey> make_key(const Call& call, client::PeerRole role,
                                 const std::string& server_key) {
  HOLDFAST_TRY(const wire::CurvePair pair, wire::new_curve_pair());
  const std::int64_t days = call.integer("expires", 0);
  client::PeerKey key;
  key.name = call.text("NAME");
  key.role = role;
  key.id = client::peer_key_id(role, key.name);
  key.public_key = pair.public_key;
  if (role == client::PeerRole::kClient) key.tenant = call.text("tenant", key.id);
  key.expires_ms = days == 0 ? 0 : system_clock().wall_ms() + days * kDayMs;
  HOLDFAST_CHECKED(client::write_key_file(
      call.text("out"), {key.name, role, pair.public_key, pair.secret_key, server_key}));
  return key;
}

Result<void> check_create(const Call& call, const std::string& verb) {
  if (const std::string wrong = client::wrong_peer_name(call.text("NAME")); !wrong.empty()) {
    return Error{Errc::kUsage, verb + ": " + wrong};
  }
  if (call.integer("expires", 0) < 0) {
    return Error{Errc::kUsage, verb + ": expires: expected days from 1"};
  }
  return {};
}

int create(const Call& call, const std::string& verb, client::PeerRole role) {
  if (const auto good = check_create(call, verb); !good) return report_error(call, good.error());
  int exit = kExitDone;
  const auto stored = find_peer_key(call, role, exit);
  if (exit != kExitDone) return exit;
  if (stored && stored->key.is_valid(system_clock().wall_ms())) {
    return report_error(
        call, Errc::kConflict,
        verb + ": " + stored->key.name + " has a valid key; revoke it first, or take another name");
  }
  const auto server = operate(call, "keys.server", json::object(), exit);
  if (!server) return exit;
  const auto key = make_key(call, role, server->at("server_key"));
  if (!key) return report_error(call, key.error());
  exit = put_peer_key(call, *key, stored ? stored->version : 0);
  if (exit != kExitDone) {
    unlink(call.text("out").c_str());
    return exit;
  }
  print_change(call,
               {{"id", key->id},
                {"name", key->name},
                {"role", client::peer_role_name(role)},
                {"file", call.text("out")}},
               key->id + ": written to " + call.text("out") +
                   "; bring it to its machine by a private way, and remove it here");
  return kExitDone;
}

json row_of(const client::PeerKey& key, std::int64_t created_ms, std::int64_t now_ms) {
  const bool valid = key.is_valid(now_ms);
  return {{"id", key.id},
          {"name", key.name},
          {"role", client::peer_role_name(key.role)},
          {"tenant", key.tenant},
          {"public_key", key.public_key},
          {"created_ms", created_ms},
          {"expires_ms", key.expires_ms},
          {"state", valid                 ? "valid"
                    : key.revoked_ms != 0 ? "revoked"
                                          : "expired"}};
}

int revoke(const Call& call, const std::string& verb, client::PeerRole role) {
  int exit = kExitDone;
  auto stored = find_peer_key(call, role, exit);
  if (exit != kExitDone) return exit;
  // Clients, gateways and operators share their names.
  const bool is_other = stored && role == client::PeerRole::kGateway && stored->key.role != role;
  if (!stored || is_other) {
    return report_error(
        call, Errc::kNotFound,
        verb + ": no key of the name " + call.text("NAME") + "; `holdfast keys peers` shows them");
  }
  if (stored->key.revoked_ms == 0) {
    stored->key.revoked_ms = system_clock().wall_ms();
    exit = put_peer_key(call, stored->key, stored->version);
    if (exit != kExitDone) return exit;
  }
  print_change(call, row_of(stored->key, 0, system_clock().wall_ms()),
               stored->key.id + " is revoked");
  return kExitDone;
}

}  // namespace

int keys_node_create(const Call& call) {
  return create(call, "keys node create", client::PeerRole::kNode);
}

int keys_gateway_create(const Call& call) {
  return create(call, "keys gateway create", client::PeerRole::kGateway);
}

int keys_gateway_revoke(const Call& call) {
  return revoke(call, "keys gateway revoke", client::PeerRole::kGateway);
}

int keys_client_create(const Call& call) {
  const std::string verb = "keys client create";
  const std::string name = call.text("role", "client");
  const auto role = client::parse_peer_role(name);
  if (!role || *role == client::PeerRole::kNode) {
    return report_error(
        call, Errc::kUsage,
        verb + ": role \"" + name + "\": expected client, gateway, operator or standby");
  }
  if (call.has("tenant") && (*role != client::PeerRole::kClient || call.text("tenant").empty())) {
    return report_error(call, Errc::kUsage,
                        verb + ": tenant: expected a name, for the role client alone");
  }
  return create(call, verb, *role);
}

int keys_node_revoke(const Call& call) {
  return revoke(call, "keys node revoke", client::PeerRole::kNode);
}

int keys_client_revoke(const Call& call) {
  return revoke(call, "keys client revoke", client::PeerRole::kClient);
}

int keys_peers(const Call& call) {
  int exit = kExitDone;
  const auto all = list_objects(call, client::kPeerKeyKind, exit);
  if (!all) return exit;
  const std::int64_t now_ms = system_clock().wall_ms();
  json list = json::array();
  for (const json& object : *all) {
    const auto key = client::read_peer_key(object.at("id"), object.at("body").dump());
    if (key) list.push_back(row_of(*key, object.at("created_ms"), now_ms));
  }
  RenderOptions options;
  options.columns = {"id", "role", "tenant", "created_ms", "expires_ms", "state"};
  options.when_empty = "no keys of other machines; `holdfast keys node create NAME --out FILE`";
  print_document(call, {{"keys", std::move(list)}}, options);
  return kExitDone;
}

}  // namespace holdfast::cli
