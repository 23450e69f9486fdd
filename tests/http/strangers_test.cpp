// Goal: connections without a key take nothing from those with one: no body of strangers is read,
// and they have a small pool of connections of their own. Tenants share the slots of uploads and of
// long texts that are tokenized. Method: a gateway with keys in this process, raw bytes over
// loopback, by many without a key and one with.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/http/connection_table.h"
#include "control/gateway/http/tenant_slots.h"
#include "shared/base/base64.h"
#include "shared/client/api_key.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::strangers_test {
namespace {

using gateway::Access;
using gateway::ObjectStore;
using gateway::ServerLimits;
using gateway::TenantSlots;
using nlohmann::json;
using std::chrono::milliseconds;

const std::string kAnn = "Authorization: Bearer hf_ann\r\n";
const std::string kBen = "Authorization: Bearer hf_ben\r\n";

struct GatewayFixture {
  explicit GatewayFixture(ServerLimits limits = {}, bool keys = true) : gateway(limits) {
    json objects = json::array();
    for (const char* tenant : {"ann", "ben"}) {
      const json body = {{"hash", client::hash_api_key(std::string("hf_") + tenant)},
                         {"role", "client"},
                         {"name", tenant},
                         {"tenant", tenant}};
      objects.push_back({{"seq", objects.size() + 1},
                         {"id", std::string("key_") + tenant},
                         {"owner", ""},
                         {"version", 1},
                         {"created_ms", 1},
                         {"expires_ms", 0},
                         {"bytes", 0},
                         {"body", body}});
    }
    if (!keys) objects = json::array();
    gateway.client.op_results["objects.list"] = json{{"more", false}, {"objects", objects}}.dump();
    gateway.context().access = std::make_shared<Access>(object_store, true);
    gateway.client.script.token_bytes = {{"x"}};
    EXPECT_EQ(gateway.ask(get("/v1/models", kAnn)).status, 200);  // the keys are read
    gateway.client.wait_for([this] { return gateway.server().connections() == 0; });
  }
  std::unique_ptr<Peer> connect(const std::string& bytes = {}) {
    auto peer = std::make_unique<Peer>(gateway.address());
    if (!bytes.empty()) peer->send(bytes);
    return peer;
  }
  Gateway gateway;
  ObjectStore object_store{gateway.client};
};

std::string upload_head(const std::string& key, std::size_t bytes) {
  return "POST /v1/files HTTP/1.1\r\nHost: h\r\n" + key +
         "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: " +
         std::to_string(bytes) + "\r\n\r\n";
}

TEST(Strangers, CompressedBody_WithoutApiKey_IsNotDecompressed) {
  GatewayFixture fixture;
  const std::string encoding = "Content-Encoding: gzip\r\n";
  EXPECT_EQ(fixture.gateway.ask(post("/v1/completions", "no gzip", encoding)).status, 401);
  EXPECT_EQ(fixture.gateway.ask(post("/v1/completions", "no gzip", encoding + kAnn)).status, 400);
}

TEST(Strangers, RequestBody_WithoutApiKey_IsNotReadAndReturns401) {
  GatewayFixture fixture;
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: h\r\n";
  const std::string inside = get("/health/live");
  for (const std::string& request :
       {head + "Content-Length: 900000\r\n\r\n{", upload_head("", 50'000'000) + "-",
        head + "Transfer-Encoding: chunked\r\n\r\n",
        head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        head + "Authorization: Bearer hf_nobody\r\nContent-Length: 5\r\n\r\n",
        head + "Content-Length: " + std::to_string(inside.size() + 1) + "\r\n\r\n" + inside}) {
    const auto peer = fixture.connect(request);
    const Reply reply = peer->read_reply();
    EXPECT_EQ(reply.status, 401) << request.substr(0, 200);
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_TRUE(peer->closed()) << "and nothing inside the body is taken for a request";
    EXPECT_EQ(peer->read_reply().status, 0);
  }
  // A path that needs no key needs no body either.
  const auto other =
      fixture.connect("POST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(other->read_reply().status, 404);
  EXPECT_TRUE(other->closed());
  EXPECT_EQ(fixture.gateway.client.submits(), 0);
}

TEST(Strangers, Connection_WithApiKey_ServesRequestsAsUsual) {
  GatewayFixture fixture;
  const std::string body = R"({"model":"m","prompt":"a"})";
  const auto peer = fixture.connect(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\n" + kAnn +
      "Expect: 100-continue\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  peer->send(body);
  EXPECT_EQ(peer->read_reply().status, 200);
  peer->send(post("/v1/completions", body, kAnn) + post("/v1/completions", body, kBen));
  EXPECT_EQ(peer->read_reply().status, 200);
  EXPECT_EQ(peer->read_reply().status, 200);
  EXPECT_EQ(fixture.gateway.client.last_submit().tenant, "ben");
  // Without a body a stranger's connection goes on.
  const auto nobody = fixture.connect(get("/v1/models") + get("/health/live"));
  EXPECT_EQ(nobody->read_reply().status, 401);
  EXPECT_EQ(nobody->read_reply().status, 200);
}

TEST(Strangers, UnauthenticatedConnections_WhenMany_LeaveCapacityForKeyOwners) {
  ServerLimits limits;
  limits.connections = 8;
  limits.connections_per_address = 6;
  limits.strangers = 4;
  GatewayFixture fixture(limits);
  const auto owner = fixture.connect(get("/v1/models", kAnn));
  EXPECT_EQ(owner->read_reply().status, 200);
  std::vector<std::unique_ptr<Peer>> crowd;
  const std::string parts[] = {"", "GET /v1/mod", upload_head("", 1'000'000), "POST /v1/files HT"};
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(fixture.connect(parts[i % 4]));
    if (i % 50 != 0) continue;
    // One connection that was there before, and a new one, among all of them.
    owner->send(get("/v1/models", kAnn));
    EXPECT_EQ(owner->read_reply().status, 200) << i;
    EXPECT_EQ(fixture.gateway.ask(get("/v1/models", kBen)).status, 200) << i;
    EXPECT_LE(fixture.gateway.server().connections(), 4 + 3);
  }
  EXPECT_GT(fixture.gateway.context().http->strangers_dropped, 150u);
  int open = 0;
  for (const auto& peer : crowd) open += peer->closed() ? 0 : 1;
  EXPECT_EQ(open, 0) << "those that are left end by their time";
}

TEST(Strangers, AddressConnectionLimit_WithApiKey_Returns429) {
  ServerLimits limits;
  limits.connections_per_address = 2;
  GatewayFixture fixture(limits);
  const auto first = fixture.connect(get("/v1/models", kAnn));
  EXPECT_EQ(first->read_reply().status, 200);
  const auto second = fixture.connect(get("/v1/models", kAnn));
  EXPECT_EQ(second->read_reply().status, 200);
  const auto third = fixture.connect(get("/v1/models", kAnn));
  EXPECT_EQ(third->read_reply().status, 429);
  EXPECT_TRUE(third->closed());
}

TEST(Strangers, UnauthenticatedConnection_WhenSlowOrIdle_EndsEarly) {
  ServerLimits limits;
  limits.stranger_header_time = limits.stranger_idle_time = milliseconds(50);
  GatewayFixture fixture(limits);
  const auto slow = fixture.connect("GET /v1/models HT");
  EXPECT_EQ(slow->read_reply().status, 408);
  const auto idle = fixture.connect(get("/health/live"));
  EXPECT_EQ(idle->read_reply().status, 200);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(idle->closed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, limits.idle_time / 2);
}

TEST(Strangers, KeylessGateway_WithManyConnections_AppliesNoUnauthenticatedLimit) {
  ServerLimits limits;
  limits.strangers = 2;
  limits.stranger_header_time = limits.stranger_idle_time = milliseconds(1);
  GatewayFixture fixture(limits, false);
  std::vector<std::unique_ptr<Peer>> all;
  for (int i = 0; i < 20; ++i) all.push_back(fixture.connect());
  std::this_thread::sleep_for(milliseconds(50));
  for (const auto& peer : all) {
    peer->send(post("/v1/completions", R"({"model":"m","prompt":"a"})"));
    EXPECT_EQ(peer->read_reply().status, 200);
  }
}

TEST(Uploads, UploadSlots_WhenOneTenantHoldsHalf_StayFreeForOthers) {
  ServerLimits limits;
  limits.uploads = 4;
  limits.upload_wait = milliseconds(300);
  GatewayFixture fixture(limits);
  std::vector<std::unique_ptr<Peer>> held;
  const std::string expects = std::string(kAnn) + "Expect: 100-continue\r\n";
  for (int i = 0; i < 2; ++i) {
    held.push_back(fixture.connect(upload_head(expects, 1'000'000)));
    EXPECT_EQ(held.back()->read_upgrade().status, 100) << "it has its slot";
  }
  // A third upload of the same tenant waits for its time, and is told.
  const auto third = fixture.connect(upload_head(kAnn, 1'000'000) + "-");
  const Reply late = third->read_reply();
  EXPECT_EQ(late.status, 503);
  // Ben has a slot: his body is read to its end, and then found to be no file.
  const auto bens = fixture.connect(upload_head(kBen, 10) + "0123456789");
  EXPECT_EQ(bens->read_reply().status, 400);
}

TEST(Uploads, SlowUpload_WhenOthersWait_EndsWith408) {
  ServerLimits limits;
  limits.uploads = 1;
  limits.upload_look = milliseconds(100);
  GatewayFixture fixture(limits);
  const auto slow = fixture.connect(upload_head(kAnn, 1'000'000) + "-");
  std::this_thread::sleep_for(milliseconds(300));  // nobody waits: it may go on
  const auto next = fixture.connect(upload_head(kBen, 70'000));
  EXPECT_EQ(slow->read_reply().status, 408);
  next->send(std::string(70'000, '-'));
  EXPECT_EQ(next->read_reply().status, 400);
}

TEST(TenantSlots, FreeSlot_WhenTenantsWait_GoesToTheOneWithFewest) {
  const auto slots = std::make_shared<TenantSlots>(4);
  std::vector<std::string> order;
  std::map<std::string, std::vector<TenantSlots::Slot>> held;
  const auto take = [&](const std::string& tenant) {
    return slots->take(tenant, [&, tenant](TenantSlots::Slot slot) {
      order.push_back(tenant);
      held[tenant].push_back(std::move(slot));
    });
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(take("a"));
  EXPECT_EQ(held["a"].size(), 2u) << "half of them";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(take("b"));
  EXPECT_EQ(held["b"].size(), 2u);
  EXPECT_TRUE(take("c"));
  EXPECT_TRUE(slots->has_waiters());
  held["b"].pop_back();
  EXPECT_EQ(order.back(), "c") << "it has none, although others came before";
  held["c"].clear();
  EXPECT_EQ(order.back(), "b");
  std::exchange(held["a"], {}).clear();
  EXPECT_EQ(held["a"].size(), 2u);
  for (std::size_t i = 0; i < TenantSlots::kWaitingMax; ++i) (void)take("a");
  EXPECT_FALSE(take("a")) << "too many wait";
  // A slot that is given back is granted again, while there is a map to put it into.
  while (!held.empty()) std::exchange(held, {}).clear();
}

/// Sets the fake daemon's answer to every question about tokens.
void know_tokens(Gateway& gateway, const json& ids) {
  json answer = {{"model", "m"}, {"context", 64}};
  answer.update(ids);
  gateway.client.op_results["models.tokenize"] = answer.dump();
}

std::string tokenize(const std::string& key, std::size_t bytes) {
  return post("/tokenize", json{{"model", "m"}, {"prompt", std::string(bytes, 'x')}}.dump(), key);
}

/// Returns the tenant and the text's bytes of the last question to the fake daemon.
std::pair<std::string, std::size_t> last_question(Gateway& gateway) {
  const json args = json::parse(gateway.client.op_args("models.tokenize"));
  return {args.at("tenant"), args.at("text").get<std::string>().size()};
}

TEST(TokenTurns, Tokenize_WhileOneTenantIsBusy_LeavesATurnForOthers) {
  GatewayFixture fixture;
  know_tokens(fixture.gateway, {{"ids", {7}}});
  TenantSlots::Slot anns;
  ASSERT_TRUE(fixture.gateway.context().token_turns->take(
      "ann", [&](TenantSlots::Slot slot) { anns = std::move(slot); }));
  ASSERT_TRUE(anns != nullptr) << "one of hers is under way";
  const auto waits = fixture.connect(tokenize(kAnn, 10'000));
  EXPECT_EQ(fixture.connect(tokenize(kBen, 20'000))->read_reply().status, 200);
  EXPECT_EQ(last_question(fixture.gateway), std::pair(std::string("ben"), std::size_t{20'000}));
  EXPECT_EQ(fixture.connect(tokenize(kAnn, 10))->read_reply().status, 200);
  EXPECT_EQ(last_question(fixture.gateway).second, 10u) << "what is short waits for nobody";
  anns = nullptr;
  EXPECT_EQ(waits->read_reply().status, 200);
  EXPECT_EQ(last_question(fixture.gateway).second, 10'000u);
}

TEST(TokenTurns, Tokenize_WhenTenantQueueIsFull_Returns429) {
  GatewayFixture fixture;
  know_tokens(fixture.gateway, {{"ids", {7}}});
  const auto turns = fixture.gateway.context().token_turns;
  TenantSlots::Slot anns;
  ASSERT_TRUE(turns->take("ann", [&](TenantSlots::Slot slot) { anns = std::move(slot); }));
  for (std::size_t i = 0; i < TenantSlots::kWaitingMax; ++i) {
    ASSERT_TRUE(turns->take("ann", [](TenantSlots::Slot) {}));
  }
  EXPECT_EQ(fixture.connect(tokenize(kAnn, 10'000))->read_reply().status, 429);
  EXPECT_EQ(fixture.connect(tokenize(kBen, 10'000))->read_reply().status, 200);
}

TEST(TokenTurns, TokenizeTurn_AfterTheReply_IsReleased) {
  GatewayFixture fixture;
  know_tokens(fixture.gateway, {{"ids", {7}}});
  const auto ann = fixture.connect();
  for (int i = 0; i < 3; ++i) {
    ann->send(tokenize(kAnn, 10'000));
    EXPECT_EQ(ann->read_reply().status, 200);
  }
  ann->send(post("/tokenize", std::string(10'000, '{'), kAnn));
  EXPECT_EQ(ann->read_reply().status, 400);
  ann->send(tokenize(kAnn, 10'000));
  EXPECT_EQ(ann->read_reply().status, 200);
}

TEST(TokenTurns, TokenizeReply_WithPackedOrPlainIds_ReturnsTheSameTokens) {
  GatewayFixture fixture;
  const std::string packed("\x07\0\0\0\xff\xff\xff\x7f", 8);
  for (const json& ids : {json{{"ids", {7, INT32_MAX}}}, json{{"id_bytes", to_base64(packed)}}}) {
    know_tokens(fixture.gateway, ids);
    const Reply reply = fixture.gateway.ask(tokenize(kAnn, 10));
    EXPECT_EQ(json::parse(reply.body).at("tokens"), json::array({7, INT32_MAX})) << ids;
  }
}

std::string upload(const std::string& key) {
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{}\r\n"
      "--b--\r\n";
  return upload_head(key, body.size()) + body;
}

TEST(UploadChunkSlots, UploadChunk_WhileOneTenantIsBusy_LeavesASlotForOthers) {
  GatewayFixture fixture;
  fixture.gateway.context().object_store = &fixture.object_store;
  fixture.gateway.client.op_results["objects.get"] = R"({"found":false})";
  fixture.gateway.client.op_results["objects.put"] = "no document";  // so the upload ends there
  const auto owner_of_last = [&] {
    const std::string args = fixture.gateway.client.op_args("objects.put");
    return args.empty() ? "" : json::parse(args).value("owner", "");
  };
  TenantSlots::Slot anns;
  ASSERT_TRUE(fixture.gateway.context().upload_chunk_slots->take(
      "ann", [&](TenantSlots::Slot slot) { anns = std::move(slot); }));
  ASSERT_TRUE(anns != nullptr) << "a piece of hers is on its way";
  const auto waits = fixture.connect(upload(kAnn));
  EXPECT_GE(fixture.connect(upload(kBen))->read_reply().status, 500);
  EXPECT_EQ(owner_of_last(), "ben") << "he waits for nobody";
  anns = nullptr;
  EXPECT_GE(waits->read_reply().status, 500);
  EXPECT_EQ(owner_of_last(), "ann");
}

TEST(CountedAddress, ClientAddress_WithIpv6_IsCountedByItsNetwork) {
  using gateway::counted_address;
  EXPECT_EQ(counted_address("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(counted_address("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(counted_address("2001:db8:1:2::5"), "2001:db8:1:2::/64");
  EXPECT_EQ(counted_address("2001:db8:1:2:ffff:1:2:3"), counted_address("2001:db8:1:2::5"));
  EXPECT_NE(counted_address("2001:db8:1:3::5"), counted_address("2001:db8:1:2::5"));
  EXPECT_EQ(counted_address("fe80::1%eth0"), "fe80::/64");
}

}  // namespace
}  // namespace holdfast::test::strangers_test
