// Goal: once a key exists the gateway requires one, each key sees its tenant's work alone, a
// revoked or expired one is refused, limits hold over restarts, and no log contains a key. Method:
// a server, keys by the CLI, requests with and without them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::keys_test {
namespace {

using nlohmann::json;

class Keys : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--engine", "fake"}))
        << server.errors();
  }
  json make(const std::vector<std::string>& args) {
    std::vector<std::string> all = {"--json", "keys", "create"};
    all.insert(all.end(), args.begin(), args.end());
    const Ended ended = server.cli(all);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out, nullptr, false);
  }
  static std::vector<std::pair<std::string, std::string>> bearer(const std::string& key) {
    if (key.empty()) return {};
    return {{"Authorization", "Bearer " + key}};
  }
  HttpAnswer post(const std::string& key, const json& more = json::object(),
                  const std::string& idempotency_key = "") {
    json body = {{"model", "demo"}, {"prompt", "a"}, {"max_tokens", 3}};
    body.update(more);
    auto headers = bearer(key);
    if (!idempotency_key.empty()) headers.emplace_back("Idempotency-Key", idempotency_key);
    return http_exchange(server.url(), http_post_text("/v1/completions", body.dump(), headers));
  }
  int get(const std::string& path, const std::string& key) {
    return http_exchange(server.url(), http_get_text(path, bearer(key))).status;
  }
  /// The first answer that is not `before`: the gateway's list of keys may be a second old.
  int status_after(int before, const std::string& key) {
    int status = before;
    for (int i = 0; i < 100 && status == before; ++i) {
      usleep(50'000);
      status = post(key).status;
    }
    return status;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

TEST_F(Keys, ApiKey_BeforeTheFirstOneExists_IsNotRequired) {
  EXPECT_EQ(post("").status, 200);
  EXPECT_EQ(post("hf_whatever").status, 200);
  const json key = make({"first"});
  EXPECT_EQ(key["role"], "client");
  EXPECT_EQ(key["tenant"], key["id"]) << "a tenant of its own";
  EXPECT_EQ(status_after(200, ""), 401);
  EXPECT_EQ(post(key["key"]).status, 200);
  EXPECT_EQ(post("hf_wrong").status, 401);
  EXPECT_EQ(get("/health/live", ""), 200);
  EXPECT_EQ(get("/v1/models", ""), 401);
  EXPECT_EQ(get("/v1/models", key["key"]), 200);
  const HttpAnswer answer = http_exchange(
      server.url(), http_get_text("/v1/models", {{"x-api-key", key["key"].get<std::string>()}}));
  EXPECT_EQ(answer.status, 200) << "as Anthropic's clients send it";
  const HttpAnswer refused = post("");
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "unauthorized");
  const json list = json::parse(server.cli({"--json", "keys", "list"}).out);
  ASSERT_EQ(list["keys"].size(), 1u);
  EXPECT_EQ(list["keys"][0]["name"], "first");
  EXPECT_EQ(list["keys"][0]["state"], "valid");
  EXPECT_EQ(list.dump().find(key["key"].get<std::string>()), std::string::npos);
  EXPECT_EQ(server.cli({"keys", "create", "x", "--role", "king"}).code, 2);
  EXPECT_EQ(server.cli({"keys", "revoke", "key_none"}).code, 3);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Keys, ApiKey_WhenRevokedOrExpired_IsRefused) {
  const json first = make({"first"});
  const json second = make({"second", "--expires", "1"});
  ASSERT_EQ(status_after(200, ""), 401);
  ASSERT_EQ(post(second["key"]).status, 200);
  ASSERT_TRUE(server.kill_child("gateway"));
  for (int i = 0; i < 100 && get("/v1/models", first["key"]) != 200; ++i) usleep(50'000);
  EXPECT_EQ(post(first["key"]).status, 200);
  ASSERT_EQ(server.cli({"keys", "revoke", first["id"]}).code, 0);
  EXPECT_EQ(server.cli({"keys", "revoke", first["id"]}).code, 0) << "twice is as good as once";
  EXPECT_EQ(status_after(200, first["key"]), 401);
  EXPECT_EQ(post(second["key"]).status, 200);
  // A day passes.
  const auto client = server.operator_client();
  const std::string id = second["id"];
  const auto found = client->op(client::AllTenants::local(), "objects.get",
                                json{{"kind", "key"}, {"id", id}}.dump());
  json object = json::parse(std::get<std::string>(found))["object"];
  object["body"]["expires_ms"] = 1;
  const json put = {{"kind", "key"}, {"id", id}, {"body", object["body"]}};
  ASSERT_TRUE(std::holds_alternative<std::string>(
      client->op(client::AllTenants::local(), "objects.put", put.dump())));
  EXPECT_EQ(status_after(200, second["key"]), 401);
  const json list = json::parse(server.cli({"--json", "keys", "list"}).out);
  EXPECT_EQ(list["keys"][0]["state"], "revoked");
  EXPECT_EQ(list["keys"][1]["state"], "expired");
  EXPECT_EQ(post("").status, 401) << "that no key is left opens nothing";
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Keys, ApiKey_OfAnotherTenant_DoesNotFindTheRequest) {
  const json ann = make({"ann", "--tenant", "ann"});
  const json ben = make({"ben", "--tenant", "ben"});
  const json boss = make({"boss", "--role", "operator"});
  ASSERT_EQ(status_after(200, ""), 401);
  const HttpAnswer made = post(ann["key"]);
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string path = "/v1/requests/" + made.headers.at("x-request-id");
  EXPECT_EQ(get(path, ann["key"]), 200);
  EXPECT_EQ(get(path, ben["key"]), 404);
  EXPECT_EQ(get(path + "/stream", ben["key"]), 404);
  EXPECT_EQ(get(path, boss["key"]), 200);
  const std::string removal = "DELETE " + path +
                              " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                              ben["key"].get<std::string>() + "\r\n\r\n";
  EXPECT_EQ(http_exchange(server.url(), removal).status, 404);
  const json document =
      json::parse(server.cli({"--json", "requests", "show", made.headers.at("x-request-id")}).out);
  EXPECT_EQ(document["tenant"], "ann");
  EXPECT_EQ(document["state"], "succeeded");
  // Limits of the tenant hold for its keys.
  ASSERT_EQ(server.cli({"config", "set", "tenant.ben.max_output_tokens=2"}).code, 0);
  EXPECT_EQ(post(ben["key"]).status, 400);
  EXPECT_EQ(post(ann["key"]).status, 200);
  EXPECT_EQ(server.stop(), 0);
  for (const auto& file : std::filesystem::recursive_directory_iterator(server.state())) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path());
    std::stringstream all;
    all << in.rdbuf();
    EXPECT_EQ(all.str().find(ann["key"].get<std::string>()), std::string::npos) << file.path();
  }
}

// The daemon decides, by its rows: neither another gateway nor a restart gives a key more.
TEST_F(Keys, ApiKeyLimits_AcrossRestarts_Hold) {
  const json limited_key = make({"few", "--requests-per-minute", "3"});
  const json one = make({"one", "--max-requests", "1"});
  ASSERT_EQ(status_after(200, ""), 401);
  HttpAnswer answer = post(limited_key["key"]);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("x-ratelimit-limit-requests"), "3");
  EXPECT_EQ(answer.headers.at("x-ratelimit-remaining-requests"), "2");
  ASSERT_TRUE(server.kill_child("gateway"));
  ASSERT_TRUE(server.kill_child("daemon"));
  for (int i = 0; i < 200 && get("/v1/models", limited_key["key"]) != 200; ++i) usleep(50'000);
  for (int i = 0; i < 2; ++i) {
    answer = post(limited_key["key"], json::object(), "again");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("x-ratelimit-remaining-requests"), "1") << "a repeat counts once";
  }
  answer = post(limited_key["key"]);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("x-ratelimit-remaining-requests"), "0");
  ASSERT_TRUE(server.kill_child("daemon"));
  answer = post(limited_key["key"]);
  EXPECT_EQ(answer.status, 429) << answer.body;
  const json error = json::parse(answer.body)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["type"], "requests");
  const int wait_s = std::stoi(answer.headers.at("retry-after"));
  EXPECT_TRUE(wait_s >= 1 && wait_s <= 61) << wait_s;
  EXPECT_EQ(post(limited_key["key"], json::object(), "again").status, 200)
      << "a repeat is answered whatever the limit";

  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  std::vector<std::thread> waiting;
  const auto wait_for_one_more = [&] {
    waiting.emplace_back([&] {
      int status = 429;  // until the gateway has read the key again
      for (int i = 0; i < 200 && status == 429; ++i) {
        status = post(one["key"]).status;
        if (status == 429) usleep(50'000);
      }
      EXPECT_EQ(status, 200);
    });
    for (int i = 0; i < 200; ++i) {
      const json stats = json::parse(
          server.cli({"--json", "requests", "list", "--with-state", "queued"}).out, nullptr, false);
      if (stats.value("requests", json::array()).size() == waiting.size()) return;
      usleep(20'000);
    }
  };
  wait_for_one_more();
  EXPECT_EQ(post(one["key"]).status, 429) << "one waits";
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_EQ(post(one["key"]).status, 429) << "it still does";
  ASSERT_EQ(server.cli({"keys", "update", one["id"], "--max-requests", "2"}).code, 0);
  wait_for_one_more();
  EXPECT_EQ(post(one["key"]).status, 429);
  ASSERT_EQ(server.cli({"queue", "resume"}).code, 0);
  for (std::thread& thread : waiting) thread.join();
  const json list = json::parse(server.cli({"--json", "keys", "list"}).out);
  EXPECT_EQ(list["keys"][0]["requests_per_minute"], 3);
  EXPECT_EQ(list["keys"][1]["max_requests"], 2);
  EXPECT_EQ(server.cli({"keys", "update", one["id"]}).code, 2);
  EXPECT_EQ(server.cli({"keys", "update", one["id"], "--max-requests", "-1"}).code, 2);
  EXPECT_EQ(server.cli({"keys", "update", "key_none", "--max-requests", "1"}).code, 3);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::keys_test
