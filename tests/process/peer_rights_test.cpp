// Goal: through the listener for other machines a role may send what its business is and nothing
// else, always in its own name. Method: every role with every message and every verb, against a
// table that is written here by hand; identities that lie.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "control/endpoints/peer_rights.h"
#include "control/endpoints/peer_role.h"
#include "control/operator/operator_verbs.h"

namespace holdfast::daemon::peer_rights_test {
namespace {

using client::PeerRole;

constexpr PeerRole kRoles[] = {PeerRole::kNode, PeerRole::kClient, PeerRole::kGateway,
                               PeerRole::kOperator, PeerRole::kStandby};

client::PeerKey key_of(PeerRole role) {
  client::PeerKey key;
  key.name = "one";
  key.role = role;
  key.id = client::peer_key_id(role, key.name);
  if (role == PeerRole::kClient) key.tenant = "shop";
  return key;
}

/// One message of each type, in the order of the variant.
template <std::size_t... Index>
std::vector<wire::Message> all_messages(std::index_sequence<Index...>) {
  return {wire::Message(std::in_place_index<Index>)...};
}
std::vector<wire::Message> every_message() {
  return all_messages(std::make_index_sequence<std::variant_size_v<wire::Message>>());
}

const std::set<std::string> kOfClients = {"SUBMIT", "ATTACH", "CREDIT", "DETACH",
                                          "CANCEL", "STATUS", "MODELS"};
const std::set<std::string> kOfStandbys = {"STANDBY_HELLO", "SHIPPED"};
const std::set<std::string> kOfWorkers = {"HELLO", "TOKENS",  "RETURNED", "STATE",
                                          "DRAIN", "DRAINED", "STATS"};

std::optional<Receiver> expected_receiver(PeerRole role, const std::string& name) {
  if (role == PeerRole::kNode) {
    return kOfWorkers.contains(name) ? std::optional(Receiver::kWorkers) : std::nullopt;
  }
  if (role == PeerRole::kStandby) {
    return kOfStandbys.contains(name) ? std::optional(Receiver::kPair) : std::nullopt;
  }
  return kOfClients.contains(name) ? std::optional(Receiver::kClients) : std::nullopt;
}

TEST(PeerRights, Message_OfEachTypeFromEachRole_HasItsReceiverOrNone) {
  std::set<std::string> found;
  for (const wire::Message& message : every_message()) {
    const std::string name(wire::message_name(message));
    if (std::holds_alternative<wire::Op>(message)) continue;  // by its verb
    for (const PeerRole role : kRoles) {
      EXPECT_EQ(receiver_of(role, message), expected_receiver(role, name))
          << name << " from " << client::peer_role_name(role);
      if (receiver_of(role, message)) found.insert(name);
    }
  }
  EXPECT_EQ(found.size(), kOfClients.size() + kOfWorkers.size() + kOfStandbys.size())
      << "names of the table exist";
}

TEST(PeerRights, Verb_OfEachKindFromEachRole_HasItsReceiverOrNone) {
  const std::map<std::string, std::set<PeerRole>> rights = {
      {"node.report", {PeerRole::kNode}},
      {"node.exit", {PeerRole::kNode}},
      {"node.bye", {PeerRole::kNode}},
      {"node.chunks", {PeerRole::kNode}},
      {"node.range", {PeerRole::kNode}},
      {"node.offer", {PeerRole::kNode}},
      {"node.supply", {PeerRole::kNode}},
      {"node.probe", {PeerRole::kNode}},
      {"shutdown", {}},
      {"supervisor.worker_exit", {}},
      {"db.backup", {}},
      {"db.copy", {PeerRole::kOperator}},
      {"db.copy_range", {PeerRole::kOperator}},
      {"db.copy_end", {PeerRole::kOperator}},
      {"db.accept_loss", {}},
      {"keys.server", {}},
      {"no.such.verb", {}},
      {"models.golden", {}},
      {"models.add", {PeerRole::kClient, PeerRole::kGateway, PeerRole::kOperator}},
      {"config.set", {PeerRole::kClient, PeerRole::kGateway, PeerRole::kOperator}},
      {"nodes.drain", {PeerRole::kClient, PeerRole::kGateway, PeerRole::kOperator}},
      {"objects.put", {PeerRole::kClient, PeerRole::kGateway, PeerRole::kOperator}},
  };
  for (const auto& [verb, roles] : rights) {
    for (const PeerRole role : kRoles) {
      wire::Op op;
      op.verb = verb;
      EXPECT_EQ(receiver_of(role, op).has_value(), roles.contains(role))
          << verb << " from " << client::peer_role_name(role);
    }
  }
}

TEST(PeerRights, ClientsVerbs_AfterTheStamp_AreThoseOfATenant) {
  const std::set<std::string> of_tenants = {"objects.put",      "objects.delete", "objects.get",
                                            "objects.list",     "ids.derive",     "models.tokenize",
                                            "models.detokenize"};
  for (const char* verb : {"objects.put", "objects.list", "models.tokenize", "ids.derive",
                           "models.add", "config.set", "requests.list", "requests.cancel",
                           "nodes.drain", "workers.drain", "queue.pause", "metrics", "status"}) {
    wire::Op op;
    op.verb = verb;
    wire::Message message = op;
    ASSERT_EQ(stamp(key_of(PeerRole::kClient), message), "");
    EXPECT_EQ(refuse_tenant(std::get<wire::Op>(message)).has_value(), !of_tenants.contains(verb))
        << verb;
  }
}

TEST(PeerRights, Client_ThatNamesAnotherTenant_ActsForItsOwn) {
  const client::PeerKey key = key_of(PeerRole::kClient);
  wire::Submit submit;
  submit.tenant = "bank";
  submit.api_key = "stolen";
  submit.key_max_requests = 1'000'000;
  wire::Message message = submit;
  EXPECT_EQ(stamp(key, message), "");
  EXPECT_EQ(std::get<wire::Submit>(message).tenant, "shop");
  EXPECT_EQ(std::get<wire::Submit>(message).api_key, key.id);
  EXPECT_FALSE(std::get<wire::Submit>(message).key_max_requests.has_value());

  for (wire::Message question :
       {wire::Message(wire::Attach{1, "r", "", "", {}, 1}), wire::Message(wire::Cancel{1, "r", ""}),
        wire::Message(wire::StatusQuery{1, "r", "bank", ""})}) {
    EXPECT_EQ(stamp(key, question), "");
    std::visit(
        [](const auto& m) {
          if constexpr (requires { m.tenant; }) {
            EXPECT_EQ(m.tenant, "shop");
          }
        },
        question);
  }
}

TEST(PeerRights, Client_ThatWouldGoFirst_GoesInItsTurn) {
  wire::Submit submit;
  submit.priority = wire::PriorityClass::kInteractive;
  wire::Message message = submit;
  EXPECT_EQ(stamp(key_of(PeerRole::kClient), message), "");
  EXPECT_EQ(std::get<wire::Submit>(message).priority, wire::PriorityClass::kNormal);
  message = submit;
  EXPECT_EQ(stamp(key_of(PeerRole::kOperator), message), "");
  EXPECT_EQ(std::get<wire::Submit>(message).priority, wire::PriorityClass::kInteractive);
}

TEST(PeerRights, Worker_OfAnotherNode_IsRefused) {
  const client::PeerKey key = key_of(PeerRole::kNode);
  for (const auto& [worker, good] : std::map<std::string, bool>{{"one/worker-0", true},
                                                                {"two/worker-0", false},
                                                                {"worker-0", false},
                                                                {"one", false},
                                                                {"one/", false},
                                                                {"one.two/worker-0", false}}) {
    wire::Hello hello;
    hello.worker_key = worker;
    wire::Message message = hello;
    EXPECT_EQ(stamp(key, message).empty(), good) << worker;
  }
}

enum class Touch : std::uint8_t { kNothing, kRead, kAll };

/// Rights of a role over objects of a kind, by a table written by hand.
Touch expected_touch(PeerRole role, const std::string& kind) {
  static const std::set<std::string> of_gateways = {"batch",       "batch.open",   "blame",
                                                    "file",        "pull",         "response",
                                                    "webhook.due", "webhook.done", "webhook.watch"};
  if (kind == "peer_key") return Touch::kNothing;
  if (role == PeerRole::kOperator) {
    return kind == "key" || kind == "webhook" ? Touch::kNothing : Touch::kAll;
  }
  if (kind == "key" || kind == "webhook") return Touch::kRead;
  return of_gateways.contains(kind) ? Touch::kAll : Touch::kNothing;
}

TEST(PeerRights, Objects_OfEachKindOverTheNetwork_AreTouchedByTheirRolesAlone) {
  for (const std::string kind :
       {"peer_key", "key", "webhook", "batch", "batch.open", "blame", "file", "pull", "response",
        "webhook.due", "webhook.done", "webhook.watch", "chat", "unheard-of", ""}) {
    for (const PeerRole role : {PeerRole::kGateway, PeerRole::kOperator}) {
      for (const std::string verb :
           {"objects.put", "objects.get", "objects.list", "objects.delete"}) {
        wire::Op op;
        op.verb = verb;
        op.args = "{\"kind\": \"" + kind + "\", \"id\": \"x\"}";
        wire::Message message = op;
        const bool reads = verb == "objects.get" || verb == "objects.list";
        const Touch touch = expected_touch(role, kind);
        EXPECT_EQ(stamp(key_of(role), message).empty(),
                  touch == Touch::kAll || (touch == Touch::kRead && reads))
            << verb << " " << kind << " by " << client::peer_role_name(role);
        EXPECT_TRUE(std::get<wire::Op>(message).from_network);
      }
    }
  }
}

TEST(PeerRights, Objects_WithoutAKind_AreNoGateways) {
  for (const char* args : {"{}", "", "[]", R"({"kind": 7})", "not json"}) {
    wire::Op op;
    op.verb = "objects.list";
    op.args = args;
    wire::Message message = op;
    EXPECT_NE(stamp(key_of(PeerRole::kGateway), message), "") << args;
  }
}

/// All texts in quotes in the sources of the gateway.
std::set<std::string> texts_of_the_gateway() {
  std::set<std::string> texts;
  const std::regex quoted(R"re("([a-z_]+(?:\.[a-z_]+)?)")re");
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(HOLDFAST_SOURCE_DIR "/control/gateway")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
      texts.insert((*it)[1]);
    }
  }
  return texts;
}

TEST(PeerRights, VerbsOfGateways_AreThoseThatTheGatewaySends) {
  std::ifstream file(HOLDFAST_SOURCE_DIR "/control/endpoints/peer_role.cpp");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t begin = text.find("kGatewayVerbs[]");
  const std::string list = text.substr(begin, text.find("};", begin) - begin);
  const std::set<std::string> sent = texts_of_the_gateway();
  const std::regex quoted(R"re("([a-z_.]+)")re");
  int verbs = 0;
  for (std::sregex_iterator it(list.begin(), list.end(), quoted), end; it != end; ++it, ++verbs) {
    const std::string verb = (*it)[1];
    EXPECT_TRUE(is_gateway_verb(verb)) << verb;
    EXPECT_TRUE(sent.contains(verb)) << verb << ": a right that no gateway uses";
  }
  EXPECT_GE(verbs, 50);
}

TEST(PeerRights, Refusal_OfAQuestion_HasItsTag) {
  wire::Op op;
  op.tag = 7;
  const auto answer = refusal_of(op, "why");
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<wire::OpResult>(*answer).tag, 7u);
  EXPECT_EQ(std::get<wire::OpResult>(*answer).refusal.code, Errc::kUnauthorized);
  wire::Submit submit;
  submit.tag = 8;
  EXPECT_EQ(std::get<wire::Refused>(*refusal_of(submit, "why")).tag, 8u);
  EXPECT_FALSE(refusal_of(wire::Tokens{}, "why"));
}

}  // namespace
}  // namespace holdfast::daemon::peer_rights_test
