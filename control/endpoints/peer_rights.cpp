#include "control/endpoints/peer_rights.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "control/endpoints/peer_role.h"
#include "shared/base/json_text.h"
#include "shared/client/api_key.h"
#include "shared/client/webhook.h"

namespace holdfast::daemon {
namespace {

using client::PeerRole;

// The whole database with its secrets: neither for gateways, which speak for strangers, nor for
// clients.
constexpr std::string_view kOperatorVerbs[] = {"db.copy", "db.copy_end", "db.copy_range"};

constexpr std::string_view kNodeVerbs[] = {"node.bye",    "node.chunks", "node.exit",
                                           "node.offer",  "node.probe",  "node.range",
                                           "node.report", "node.supply"};

// The stored objects that gateways work with, in order. Keys of the API and webhooks are made by
// operators: a gateway reads them, to check who comes and to tell of ends.
constexpr std::string_view kGatewayKinds[] = {"batch",        "batch.open",  "blame",
                                              "file",         "pull",        "response",
                                              "webhook.done", "webhook.due", "webhook.watch"};
constexpr std::string_view kKindsReadByGateways[] = {client::kKeyKind, client::kWebhookKind};

bool may_gateway_touch(const std::string& kind, const std::string& verb) {
  if (std::ranges::find(kGatewayKinds, kind) != std::end(kGatewayKinds)) return true;
  const bool reads = verb == "objects.get" || verb == "objects.list";
  return reads && std::ranges::find(kKindsReadByGateways, kind) != std::end(kKindsReadByGateways);
}

bool may_operator_touch(const std::string& kind) {
  return kind != client::kPeerKeyKind && kind != client::kKeyKind && kind != client::kWebhookKind;
}

bool is_node_verb(std::string_view verb) {
  return std::find(std::begin(kNodeVerbs), std::end(kNodeVerbs), verb) != std::end(kNodeVerbs);
}

bool is_operator_verb(std::string_view verb) {
  return std::ranges::find(kOperatorVerbs, verb) != std::end(kOperatorVerbs);
}

template <class... Types>
bool holds_any(const wire::Message& message) {
  return (std::holds_alternative<Types>(message) || ...);
}

bool is_of_client(const wire::Message& message) {
  return holds_any<wire::Submit, wire::Attach, wire::Credit, wire::Detach, wire::Cancel,
                   wire::StatusQuery, wire::ModelsQuery>(message);
}

bool is_of_worker(const wire::Message& message) {
  return holds_any<wire::Hello, wire::Tokens, wire::Returned, wire::StateReport, wire::WorkerStats,
                   wire::Drain, wire::Drained>(message);
}

std::optional<Receiver> receiver_of_verb(PeerRole role, const std::string& verb) {
  if (role == PeerRole::kNode) {
    return is_node_verb(verb) ? std::optional(Receiver::kNodes) : std::nullopt;
  }
  if (role == PeerRole::kOperator && is_operator_verb(verb)) return Receiver::kOperators;
  // Files of its machine, deaths of workers and the daemon's own end are matters of that machine.
  return is_gateway_verb(verb) ? std::optional(Receiver::kOperators) : std::nullopt;
}

std::string stamp_hello(const client::PeerKey& key, const wire::Hello& hello) {
  const std::string prefix = key.name + "/";
  if (hello.worker_key.starts_with(prefix) && hello.worker_key.size() > prefix.size()) return {};
  return "the worker \"" + hello.worker_key + "\" is not of node " + key.name + "; expected " +
         prefix + "NAME";
}

void stamp_submit(const client::PeerKey& key, wire::Submit& submit) {
  submit.tenant = key.tenant;
  submit.api_key = key.id;
  submit.key_max_requests.reset();
  submit.key_requests_per_minute.reset();
  // To go before the ordinary work of all tenants is a right that such a key does not give.
  if (submit.priority == wire::PriorityClass::kInteractive) {
    submit.priority = wire::PriorityClass::kNormal;
  }
}

}  // namespace

std::optional<Receiver> receiver_of(PeerRole role, const wire::Message& message) {
  if (role == PeerRole::kStandby) {
    const bool pair = holds_any<wire::StandbyHello, wire::Shipped>(message);
    return pair ? std::optional(Receiver::kPair) : std::nullopt;
  }
  if (const auto* op = std::get_if<wire::Op>(&message)) return receiver_of_verb(role, op->verb);
  if (role == PeerRole::kNode) {
    return is_of_worker(message) ? std::optional(Receiver::kWorkers) : std::nullopt;
  }
  return is_of_client(message) ? std::optional(Receiver::kClients) : std::nullopt;
}

std::string reason_to_refuse_object(PeerRole role, const wire::Op& op) {
  // A client's objects are its tenant's, and keys are nobody's.
  if (!op.verb.starts_with("objects.") || role == PeerRole::kClient) return {};
  const auto args = try_parse_json<nlohmann::json>(op.args);
  const bool named = args.is_object() && args.contains("kind") && args["kind"].is_string();
  const std::string kind = named ? args["kind"].get<std::string>() : std::string();
  const bool may =
      role == PeerRole::kGateway ? may_gateway_touch(kind, op.verb) : may_operator_touch(kind);
  if (may) return {};
  return op.verb + " " + kind +
         ": works at the operator's socket alone; run the command line on the "
         "machine of the server";
}

std::string stamp(const client::PeerKey& key, wire::Message& message) {
  if (auto* op = std::get_if<wire::Op>(&message)) {
    op->from_network = true;
    if (key.role == PeerRole::kClient) op->tenant = key.tenant;
    return reason_to_refuse_object(key.role, *op);
  }
  if (const auto* hello = std::get_if<wire::Hello>(&message)) return stamp_hello(key, *hello);
  if (key.role != PeerRole::kClient) return {};
  if (auto* submit = std::get_if<wire::Submit>(&message)) stamp_submit(key, *submit);
  if (auto* attach = std::get_if<wire::Attach>(&message)) attach->tenant = key.tenant;
  if (auto* cancel = std::get_if<wire::Cancel>(&message)) cancel->tenant = key.tenant;
  if (auto* query = std::get_if<wire::StatusQuery>(&message)) query->tenant = key.tenant;
  return {};
}

std::optional<wire::Message> refusal_of(const wire::Message& message, const std::string& why) {
  wire::Refusal refusal;
  refusal.code = Errc::kUnauthorized;
  refusal.message = why;
  if (const auto* op = std::get_if<wire::Op>(&message)) {
    return wire::OpResult{op->tag, false, std::move(refusal), {}, {}};
  }
  return std::visit(
      [&](const auto& question) -> std::optional<wire::Message> {
        using Question = std::decay_t<decltype(question)>;
        constexpr bool kAnswered =
            std::is_same_v<Question, wire::Submit> || std::is_same_v<Question, wire::Attach> ||
            std::is_same_v<Question, wire::Cancel> || std::is_same_v<Question, wire::StatusQuery> ||
            std::is_same_v<Question, wire::ModelsQuery>;
        if constexpr (kAnswered) return wire::Refused{question.tag, std::move(refusal)};
        return std::nullopt;
      },
      message);
}

void hide_from_client(wire::Message& message) {
  auto* reply = std::get_if<wire::ModelsReply>(&message);
  if (reply == nullptr) return;
  for (wire::ModelInfo& model : reply->models) model.sha = model.reason = "";
}

}  // namespace holdfast::daemon
