// Goal: the end of every background response, batch and pull is delivered to its targets, signed,
// under one id, however often it takes and whichever process is killed in between; no other address
// is contacted. Method: a server, a target on loopback that answers well, badly or not at all;
// kills of daemon and gateway.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "shared/client/webhook.h"
#include "tests/process/http_stream.h"
#include "tests/process/model_hub.h"
#include "tests/process/test_server.h"
#include "tests/process/webhook_target.h"

namespace holdfast::process::webhooks_test {
namespace {

using nlohmann::json;

class Webhooks : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = dir.path() + "/model";
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    dir.write("model/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    ASSERT_TRUE(server.start({"--model", "demo=" + folder, "--threads", "1"})) << server.errors();
  }
  json cli(std::vector<std::string> args) {
    args.insert(args.begin(), "--json");
    const Ended ended = server.cli(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out, nullptr, false);
  }
  /// Asks again while the server is in trouble.
  HttpAnswer ask(const std::string& request) {
    HttpAnswer answer;
    for (int i = 0; i < 300; ++i) {
      answer = http_exchange(server.url(), request);
      if (answer.complete && answer.status != 503 && answer.status != 504) break;
      usleep(50'000);
    }
    return answer;
  }
  /// Sends a POST that is the same however often it is sent.
  HttpAnswer post(const std::string& path, const json& body) {
    const std::string key = "post-" + std::to_string(++posts);
    return ask(http_post_text(path, body.dump(), {{"Idempotency-Key", key}}));
  }
  std::string respond(bool background = true) {
    const HttpAnswer answer = post(
        "/v1/responses",
        {{"model", "demo"}, {"input", "a"}, {"max_output_tokens", 8}, {"background", background}});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false).value("id", "");
  }
  std::string batch() {
    const json line = {{"custom_id", "1"},
                       {"method", "POST"},
                       {"url", "/v1/completions"},
                       {"body", {{"model", "demo"}, {"prompt", "a"}, {"max_tokens", 3}}}};
    const std::string form =
        "--m\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--m\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" +
        line.dump() + "\n\r\n--m--\r\n";
    const HttpAnswer file =
        ask("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
            "multipart/form-data; boundary=m\r\nContent-Length: " +
            std::to_string(form.size()) + "\r\n\r\n" + form);
    EXPECT_EQ(file.status, 200) << file.body;
    const HttpAnswer made = post("/v1/batches", {{"input_file_id", json::parse(file.body)["id"]},
                                                 {"endpoint", "/v1/completions"},
                                                 {"completion_window", "24h"}});
    EXPECT_EQ(made.status, 200) << made.body;
    return json::parse(made.body)["id"];
  }
  json delivery(const std::string& about) {
    const json all = cli({"webhooks", "deliveries"});
    for (const json& one : all["deliveries"]) {
      if (one["about"] == about) return one;
    }
    return {};
  }
  json delivery_in(const std::string& about, const std::string& state) {
    json one;
    for (int i = 0; i < 600; ++i) {
      one = delivery(about);
      if (one.is_object() && one["state"] == state) return one;
      usleep(50'000);
    }
    ADD_FAILURE() << about << ": " << one.dump() << server.errors();
    return one;
  }
  static bool signed_with(const WebhookTarget::ReceivedRequest& received,
                          const std::string& secret) {
    const auto want =
        client::sign_webhook(secret, received.headers.at("webhook-id"),
                             std::stoll(received.headers.at("webhook-timestamp")), received.body);
    return want && received.headers.at("webhook-signature").find(*want) != std::string::npos;
  }

  int posts = 0;
  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  WebhookTarget target;
};

TEST_F(Webhooks, Webhook_WhenBackgroundWorkEnds_IsSentSignedOnce) {
  const json made = cli({"webhooks", "create", target.url(), "--private"});
  const std::string secret = made["secret"];
  const std::string other_tenant =
      cli({"webhooks", "create", target.url() + "/other", "--private", "--tenant", "x"})["id"];
  const std::string response = respond();
  auto received = target.wait_for(1);
  ASSERT_EQ(received.size(), 1u) << server.errors();
  EXPECT_EQ(received[0].path, "POST /hook");
  EXPECT_EQ(received[0].headers["content-type"], "application/json");
  EXPECT_TRUE(signed_with(received[0], secret));
  const json event = json::parse(received[0].body);
  EXPECT_EQ(event["object"], "event");
  EXPECT_EQ(event["data"]["id"], response);
  EXPECT_GT(event["created_at"].get<std::int64_t>(), 1'700'000'000);
  const std::string status = json::parse(
      http_exchange(server.url(), http_get_text("/v1/responses/" + response)).body)["status"];
  EXPECT_EQ(event["type"], "response." + status);
  // Both secrets sign for a while; requests that are not in the background need no webhook.
  const std::string newer = cli({"webhooks", "secret", made["id"]})["secret"];
  respond(false);
  const std::string done = batch();
  received = target.wait_for(2);
  ASSERT_EQ(received.size(), 2u) << server.errors();
  EXPECT_TRUE(signed_with(received[1], secret));
  EXPECT_TRUE(signed_with(received[1], newer));
  EXPECT_EQ(json::parse(received[1].body)["type"], "batch.completed");
  EXPECT_EQ(json::parse(received[1].body)["data"]["id"], done);
  EXPECT_EQ(delivery_in(done, "delivered")["attempts"], 1);
  // No list and no log has a secret.
  const std::string listed = server.cli({"webhooks", "list"}).out +
                             server.cli({"--json", "webhooks", "list"}).out +
                             server.cli({"--json", "webhooks", "deliveries"}).out + server.errors();
  EXPECT_EQ(listed.find("whsec_"), std::string::npos);
  EXPECT_EQ(server.cli({"webhooks", "delete", other_tenant}).code, 0);
  EXPECT_EQ(server.cli({"webhooks", "delete", other_tenant}).code, 3);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(target.wait_for(2).size(), 2u);
}

TEST_F(Webhooks, Webhook_WhenProcessesAreKilled_IsDeliveredUnderOneId) {
  const std::string secret = cli({"webhooks", "create", target.url(), "--private"})["secret"];
  target.answer(500);
  std::set<std::string> about = {respond(), batch()};
  ASSERT_GE(target.wait_for(2).size(), 2u);
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  about.insert(respond());  // accepted; its end comes after the kills
  ASSERT_TRUE(server.kill_child("gateway"));
  ASSERT_TRUE(server.kill_child("daemon"));
  usleep(300'000);
  ASSERT_EQ(server.cli({"queue", "resume"}).code, 0);
  ASSERT_TRUE(server.kill_child("gateway"));
  target.answer(204);
  std::map<std::string, std::set<std::string>> ids;  // of deliveries, by what they are about
  for (const std::string& one : about) (void)delivery_in(one, "delivered");
  for (const auto& received : target.wait_for(0)) {
    EXPECT_TRUE(signed_with(received, secret));
    ids[json::parse(received.body)["data"]["id"]].insert(received.headers.at("webhook-id") + " " +
                                                         received.body);
  }
  ASSERT_EQ(ids.size(), 3u);
  for (const auto& [what, told] : ids) {
    EXPECT_TRUE(about.contains(what));
    EXPECT_EQ(told.size(), 1u) << "the same each time";
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Webhooks, Webhook_WhenPullsEnd_IsSentOnceForEachEnd) {
  ModelHub hub;
  for (const std::string name : {"pulled", "slow", "lie"}) {
    hub.put("org/" + name, name + "-Q8_0.gguf", read_file(demo_model()));
  }
  const std::string secret = cli({"webhooks", "create", target.url(), "--private"})["secret"];
  (void)cli({"webhooks", "create", target.url() + "/other", "--private", "--tenant", "x"});
  const auto pull = [&](const char* name) {
    const std::string source = std::string("hf.co/org/") + name + ":Q8_0";
    const json args = {{"source", source}, {"name", name}, {"hub", hub.url()}};
    const auto started =
        server.operator_client()->op(client::AllTenants::local(), "pulls.start", args.dump());
    EXPECT_NE(std::get_if<std::string>(&started), nullptr);
  };
  std::set<std::string> ids;
  const auto expect_told = [&](const char* name, const std::string& type) {
    const auto received = target.wait_for(ids.size() + 1);
    ASSERT_EQ(received.size(), ids.size() + 1) << type << server.errors();
    EXPECT_EQ(received.back().path, "POST /hook");
    EXPECT_TRUE(signed_with(received.back(), secret));
    const json event = json::parse(received.back().body);
    EXPECT_EQ(event["type"], type);
    EXPECT_EQ(event["data"]["id"], name);
    ids.insert(received.back().headers.at("webhook-id"));
  };
  pull("pulled");
  ASSERT_NO_FATAL_FAILURE(expect_told("pulled", "pull.done"));
  pull("pulled");
  ASSERT_TRUE(server.kill_child("gateway"));
  ASSERT_NO_FATAL_FAILURE(expect_told("pulled", "pull.done"));
  hub.set_faults({.bytes_s = 10'000});
  pull("slow");
  EXPECT_EQ(server.cli({"jobs", "cancel", "slow"}).code, 0);
  ASSERT_NO_FATAL_FAILURE(expect_told("slow", "pull.cancelled"));
  hub.set_faults({.other_bytes = true});
  pull("lie");
  ASSERT_NO_FATAL_FAILURE(expect_told("lie", "pull.failed"));
  EXPECT_EQ(ids.size(), 4u) << "each end has an id of its own";
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(target.wait_for(0).size(), 4u);
}

// The gateway dies between an end and its delivery, at each of the crash points; the second end is
// the batch's.
class WebhookDeaths : public Webhooks, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    dir.write("crash.gateway", std::string(GetParam()) + "\n");
    setenv("HOLDFAST_CRASH_AT", ("@" + dir.path() + "/crash").c_str(), 1);
    Webhooks::SetUp();
    unsetenv("HOLDFAST_CRASH_AT");
  }
};

TEST_P(WebhookDeaths, Webhook_WhenTheGatewayCrashesAtAPoint_IsDeliveredUnderOneId) {
  ASSERT_EQ(server.cli({"webhooks", "create", target.url(), "--private"}).code, 0);
  const std::string point = std::string(GetParam()).substr(0, std::string(GetParam()).find(':'));
  std::set<std::string> about = {respond()};
  if (point != GetParam()) (void)delivery_in(*about.begin(), "delivered");
  about.insert(batch());
  for (const std::string& one : about) (void)delivery_in(one, "delivered");
  EXPECT_EQ(read_file(dir.path() + "/crash.fired").rfind(point, 0), 0u) << server.errors();
  std::set<std::string> ids;
  for (const auto& received : target.wait_for(0)) {
    EXPECT_TRUE(about.contains(json::parse(received.body)["data"]["id"]));
    ids.insert(received.headers.at("webhook-id") + received.body);
  }
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(server.stop(), 0);
}

/// A page of the list has at most 1,000 objects.
TEST_F(Webhooks, Webhook_WhenItsTargetIsBeyondTheFirstPage_IsSent) {
  for (int i = 0; i < 1'001; ++i) {
    const json body = {{"url", "https://example.com/"}, {"tenant", "another"}};
    const json args = {{"kind", "webhook"},
                       {"id", "webhook_" + std::to_string(i)},
                       {"owner", "operator"},
                       {"version", 0},
                       {"body", body}};
    const auto put =
        server.operator_client()->op(client::AllTenants::local(), "objects.put", args.dump());
    ASSERT_NE(std::get_if<std::string>(&put), nullptr) << std::get<client::Failure>(put).message;
  }
  (void)cli({"webhooks", "create", target.url(), "--private"});
  const std::string done = batch();
  const auto received = target.wait_for(1);
  ASSERT_EQ(received.size(), 1u) << server.errors();
  EXPECT_EQ(json::parse(received[0].body)["data"]["id"], done);
}

INSTANTIATE_TEST_SUITE_P(CrashPoints, WebhookDeaths,
                         testing::Values("gateway.hook.ended:2", "gateway.hook.due",
                                         "gateway.hook.sent"));

TEST_F(Webhooks, Webhook_WhenItsTargetIsNotAllowed_IsNotCalled) {
  for (const char* url : {"http://example.com/", "https://127.0.0.1/", "https://[::1]/",
                          "https://169.254.169.254/", "ftp://a/", "https://u@a/"}) {
    EXPECT_EQ(server.cli({"webhooks", "create", url}).code, 2) << url;
  }
  EXPECT_EQ(server.cli({"webhooks", "create", target.url(), "--private", "--events", "x"}).code, 2);
  // A name that resolves to this machine is refused at delivery.
  const std::string local = "https://localhost:" + std::to_string(target.port()) + "/";
  const std::string named = cli({"webhooks", "create", local})["id"];
  const std::string response = respond();
  json refused;
  for (int i = 0; i < 200 && !(refused.is_object() && refused["attempts"] != 0); ++i) {
    usleep(50'000);
    refused = delivery(response);
  }
  EXPECT_NE(refused["last"].get<std::string>().find("not public"), std::string::npos) << refused;
  EXPECT_EQ(server.cli({"webhooks", "delete", named}).code, 0);
  (void)server.cli({"webhooks", "retry", refused["id"]});  // not only when its pause is over
  EXPECT_NE(delivery_in(response, "failed")["last"].get<std::string>().find("deleted"),
            std::string::npos);
  EXPECT_TRUE(target.wait_for(0).empty());
  // A redirect is not followed, and 410 is final; by hand it is sent once more.
  ASSERT_EQ(server.cli({"webhooks", "create", target.url(), "--private"}).code, 0);
  target.answer(302);
  const std::string moved = respond();
  ASSERT_GE(target.wait_for(1).size(), 1u);
  target.answer(410);
  EXPECT_EQ(delivery_in(moved, "failed")["last"], "410");
  for (const auto& received : target.wait_for(0)) EXPECT_EQ(received.path, "POST /hook");
  target.answer(200);
  EXPECT_EQ(server.cli({"webhooks", "retry", delivery(moved)["id"]}).code, 0);
  (void)delivery_in(moved, "delivered");
  EXPECT_EQ(server.cli({"webhooks", "retry", "msg_none"}).code, 3);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::webhooks_test
