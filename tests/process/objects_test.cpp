// Goal: objects of gateways outlive every kill once they were acknowledged, changes of an old
// version are refused, and the bounds hold. Method: a server, the verbs over the operator socket,
// kills.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/base64.h"
#include "tests/process/test_server.h"

namespace holdfast::process::objects_test {
namespace {

using nlohmann::json;

class ObjectServerTest : public testing::Test {
 protected:
  void start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--engine", "fake"};
    args.insert(args.end(), more.begin(), more.end());
    ASSERT_TRUE(server.start(args)) << server.errors();
    client = server.operator_client();
  }
  json call(const std::string& verb, const json& args) {
    const auto answer = client->op(client::AllTenants::local(), "objects." + verb, args.dump());
    if (const auto* failure = std::get_if<client::Failure>(&answer)) {
      return {{"refused", errc_name(failure->code)}, {"largest", failure->largest}};
    }
    return json::parse(std::get<std::string>(answer));
  }
  json put(const std::string& id, const json& more) {
    json args = {{"kind", "file"}, {"id", id}};
    args.update(more);
    return call("put", args);
  }
  std::string content(const std::string& id) {
    std::string all;
    for (;;) {
      const json answer =
          call("get", {{"kind", "file"}, {"id", id}, {"from", all.size()}, {"limit", 5}});
      const std::string part = from_base64(answer.value("content", "")).value_or("?");
      if (part.empty()) return all;
      all += part;
    }
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::unique_ptr<client::Client> client;
};

TEST_F(ObjectServerTest, ObjectPut_WhenAcknowledged_SurvivesADaemonKill) {
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(put("a", {{"body", {{"x", 1}}}, {"owner", "ann"}, {"version", 0}})["version"], 1);
  EXPECT_EQ(put("a", {{"append", to_base64("hello ")}, {"append_at", 0}})["bytes"], 6);
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_EQ(put("a", {{"append", to_base64("world")}, {"append_at", 6}})["version"], 3);
  ASSERT_TRUE(server.kill_child("daemon"));
  const json found = call("get", {{"kind", "file"}, {"id", "a"}});
  EXPECT_EQ(found["object"]["body"], json({{"x", 1}}));
  EXPECT_EQ(found["object"]["owner"], "ann");
  EXPECT_EQ(content("a"), "hello world");
  // An acknowledged change is not made twice.
  EXPECT_EQ(put("a", {{"append", to_base64("world")}, {"append_at", 6}})["refused"], "conflict");
  EXPECT_EQ(call("get", {{"kind", "batch"}, {"id", "a"}})["found"], false);
  EXPECT_EQ(call("get", {{"kind", "file"}, {"id", "a"}, {"owner", "ben"}})["found"], false);
  EXPECT_EQ(call("list", {{"kind", "file"}})["objects"].size(), 1u);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(ObjectServerTest, ObjectPut_WithAnOldVersion_IsRefusedAsAConflict) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_EQ(put("a", {{"body", {{"x", 1}}}})["version"], 1);
  EXPECT_EQ(put("a", {{"body", {{"x", 9}}}, {"version", 0}})["refused"], "conflict");
  EXPECT_EQ(put("a", {{"body", {{"x", 2}}}, {"version", 1}})["version"], 2);
  EXPECT_EQ(put("a", {{"body", {{"x", 9}}}, {"version", 1}})["refused"], "conflict");
  EXPECT_EQ(put("a", {{"body", {{"x", 9}}}, {"owner", "ben"}})["refused"], "conflict");
  EXPECT_EQ(put("b", {{"append", "AA=="}})["refused"], "invalid_request");
  EXPECT_EQ(put("b", {{"body", 7}})["refused"], "usage");
  EXPECT_EQ(put("b", {{"body", json::object()}, {"append", "A"}})["refused"], "usage");
  EXPECT_EQ(put("", {{"body", json::object()}})["refused"], "usage");
  EXPECT_EQ(call("get", {{"kind", "file"}, {"id", "a"}})["object"]["body"]["x"], 2);
  // Many writers change one counter: each change is made once.
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&] {
      const auto mine = server.operator_client();
      for (int done = 0; done < 20;) {
        const auto now =
            mine->op(client::AllTenants::local(), "objects.get", R"({"kind":"file","id":"a"})");
        const json object = json::parse(std::get<std::string>(now))["object"];
        const json args = {{"kind", "file"},
                           {"id", "a"},
                           {"version", object["version"]},
                           {"body", {{"x", object["body"]["x"].get<int>() + 1}}}};
        const auto answer = mine->op(client::AllTenants::local(), "objects.put", args.dump());
        done += std::holds_alternative<std::string>(answer) ? 1 : 0;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(call("get", {{"kind", "file"}, {"id", "a"}})["object"]["body"]["x"], 82);
  EXPECT_EQ(call("delete", {{"kind", "file"}, {"id", "a"}, {"version", 3}})["refused"], "conflict");
  EXPECT_EQ(call("delete", {{"kind", "file"}, {"id", "a"}, {"owner", "ben"}})["deleted"], false);
  EXPECT_EQ(call("delete", {{"kind", "file"}, {"id", "a"}})["deleted"], true);
  EXPECT_EQ(call("delete", {{"kind", "file"}, {"id", "a"}})["deleted"], false);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(ObjectServerTest, ObjectPut_OverTheCountOrByteLimit_IsRefused) {
  ASSERT_NO_FATAL_FAILURE(
      start({"--config", "objects.max_count=2", "--config", "objects.max_bytes=1000"}));
  EXPECT_EQ(put("a", {{"body", json::object()}})["version"], 1);
  EXPECT_EQ(put("b", {{"body", json::object()}})["version"], 1);
  const json third = put("c", {{"body", json::object()}});
  EXPECT_EQ(third["refused"], "storage_full");
  EXPECT_EQ(third["largest"], 2);
  EXPECT_EQ(put("a", {{"append", to_base64(std::string(900, 'x'))}})["bytes"], 900);
  const json more = put("b", {{"append", to_base64(std::string(100, 'x'))}});
  EXPECT_EQ(more["refused"], "storage_full");
  EXPECT_EQ(more["largest"], 1000);
  EXPECT_EQ(call("delete", {{"kind", "file"}, {"id", "a"}})["deleted"], true);
  EXPECT_EQ(put("b", {{"append", to_base64(std::string(100, 'x'))}})["bytes"], 100);
  EXPECT_EQ(put("c", {{"body", json::object()}})["version"], 1);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(ObjectServerTest, Object_WhenExpired_IsRemovedAndNoLongerCounts) {
  ASSERT_NO_FATAL_FAILURE(start({"--config", "objects.max_count=1"}));
  EXPECT_EQ(put("a", {{"body", json::object()}, {"expires_ms", 1}})["version"], 1);
  for (int i = 0; i < 200 && call("get", {{"kind", "file"}, {"id", "a"}})["found"] == true; ++i) {
    usleep(50'000);
  }
  EXPECT_EQ(call("get", {{"kind", "file"}, {"id", "a"}})["found"], false);
  EXPECT_EQ(put("b", {{"body", json::object()}, {"expires_ms", 0}})["version"], 1)
      << "it gave its place back";
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::objects_test
