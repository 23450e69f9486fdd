// Goal: a request is judged by the keys as they are when it comes, however long the silence before
// it: a revoked key is refused at once, a new one is accepted at once, and while the keys cannot be
// read nobody is let in. Method: a gateway in this process over a fake daemon whose list of keys
// the test changes between two requests, with and without silence between them.
#include "control/gateway/common/access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>

#include "shared/base/clock.h"
#include "shared/client/api_key.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::access_test {
namespace {

using gateway::Access;
using gateway::ObjectStore;
using gateway::Principal;
using gateway::Request;
using gateway::Response;
using nlohmann::json;

/// Waits longer than a list of keys is valid.
void be_silent() {
  usleep(1'100'000);
}

/// A fake daemon with keys, and Access over it.
struct AccessFixture {
  void put(const std::string& key, const std::string& role, bool revoked = false) {
    keys[key] = {{"seq", keys.size() + 1},
                 {"id", "key_" + key},
                 {"owner", ""},
                 {"version", 1},
                 {"created_ms", 1},
                 {"expires_ms", 0},
                 {"bytes", 0},
                 {"body",
                  {{"hash", client::hash_api_key(key)},
                   {"role", role},
                   {"tenant", "t-" + key},
                   {"revoked_ms", revoked ? 5 : 0}}}};
    json list = json::array();
    for (const auto& [name, object] : keys) list.push_back(object);
    client.op_results["objects.list"] = json{{"more", false}, {"objects", list}}.dump();
  }
  Request request(const std::string& key) const {
    Request out;
    out.arrived_us = system_clock().monotonic_us();
    if (!key.empty()) out.headers.emplace_back("Authorization", "Bearer " + key);
    return out;
  }
  /// Waits if ready() says so, then checks, as the router does.
  std::variant<Principal, Response> ask(const Request& from) {
    std::promise<void> read;
    auto done = read.get_future();
    waited = !access->ready(from, [&read] { read.set_value(); });
    if (waited) done.wait();
    return access->check(from);
  }
  int status(const Request& from) {
    const auto verdict = ask(from);
    const auto* refused = std::get_if<Response>(&verdict);
    return refused == nullptr ? 200 : refused->status;
  }

  FakeClient client;
  ObjectStore object_store{client};
  std::map<std::string, json> keys;
  std::shared_ptr<Access> access = std::make_shared<Access>(object_store, true);
  bool waited = false;
};

TEST(Access, ApiKeyList_WhenStale_IsReloadedBeforeTheCheck) {
  AccessFixture fixture;
  fixture.put("a", "client");
  fixture.put("boss", "operator");
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
  EXPECT_TRUE(fixture.waited);
  fixture.put("a", "client", true);
  be_silent();
  EXPECT_EQ(fixture.status(fixture.request("a")), 401) << "after silence";
  EXPECT_TRUE(fixture.waited);
  EXPECT_EQ(fixture.status(fixture.request("boss")), 200);
}

TEST(Access, ApiKey_WhenNewlyCreated_IsAcceptedOnFirstRequest) {
  AccessFixture fixture;
  fixture.put("a", "client");
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
  fixture.put("new", "client");
  const auto verdict = fixture.ask(fixture.request("new"));
  const auto* principal = std::get_if<Principal>(&verdict);
  ASSERT_NE(principal, nullptr);
  EXPECT_EQ(principal->tenant(), "t-new");
  EXPECT_EQ(principal->key(), "key_new");
  EXPECT_FALSE(principal->is_operator());
  EXPECT_EQ(fixture.status(fixture.request("none")), 401);
}

TEST(Access, KeylessRequest_AfterFirstApiKeyIsCreated_IsRefused) {
  AccessFixture fixture;
  fixture.client.op_results["objects.list"] = R"({"more": false, "objects": []})";
  EXPECT_EQ(fixture.status(fixture.request("")), 200);
  EXPECT_TRUE(fixture.access->keyless());
  fixture.put("a", "client");
  be_silent();
  EXPECT_EQ(fixture.status(fixture.request("")), 401);
  EXPECT_FALSE(fixture.access->keyless());
}

TEST(Access, ApiKeyCheck_WhenDaemonIsUnreachable_Returns503) {
  AccessFixture fixture;
  fixture.put("a", "client");
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
  fixture.client.failure = client::Failure{};
  be_silent();
  EXPECT_EQ(fixture.status(fixture.request("a")), 503);
  EXPECT_EQ(fixture.status(fixture.request("")), 503);
  fixture.client.failure.reset();
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
}

TEST(Access, ApiKeyList_WhenFresh_IsUsedWithoutWaiting) {
  AccessFixture fixture;
  fixture.put("a", "client");
  EXPECT_EQ(fixture.status(fixture.request("a")), 200);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fixture.status(fixture.request("a")), 200);
    EXPECT_FALSE(fixture.waited);
  }
}

TEST(Access, ApiKeyRole_WhenItDoesNotCoverTheRoute_Returns403) {
  Gateway gateway;
  AccessFixture fixture;
  fixture.put("c", "client");
  fixture.put("m", "metrics");
  fixture.put("o", "operator");
  gateway.context().operating = &gateway.client;
  gateway.context().access = fixture.access;
  gateway.client.op_results["status"] = "{}";
  const auto status = [&](const char* method, const std::string& path, const std::string& key) {
    return gateway
        .ask(std::string(method) + " " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n" +
             "Content-Type: application/json\r\nAuthorization: Bearer " + key + "\r\n\r\n{}")
        .status;
  };
  EXPECT_EQ(status("GET", "/metrics", "c"), 403);
  EXPECT_EQ(status("GET", "/metrics", "m"), 200);
  EXPECT_EQ(status("GET", "/metrics", "o"), 200);
  EXPECT_EQ(status("GET", "/metrics", "x"), 401);
  for (const auto& route : gateway::routes()) {
    if (route.pattern == "/metrics" || route.pattern.starts_with("/health") ||
        (route.pattern.starts_with("/console") && route.method == "GET" &&
         route.pattern != "/console/api/history")) {
      continue;
    }
    std::string path(route.pattern);
    for (std::size_t at; (at = path.find("{")) != std::string::npos;) {
      path.replace(at, path.find('}', at) - at + 1, "x");
    }
    EXPECT_EQ(status(std::string(route.method).c_str(), path, "m"), 403) << path;
  }
}

}  // namespace
}  // namespace holdfast::test::access_test
