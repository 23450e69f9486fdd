// Goal: a client that goes away and cannot come back costs nothing more; a client that is being
// answered when the server is told to stop gets its answer, and a request that cannot be finished
// in time is resumed after the next start. Method: `holdfast serve` with the demo model and with
// slow fake ones, clients over HTTP.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::leaving_test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

json body_of(std::int64_t tokens, bool stream) {
  return {{"model", "demo"}, {"prompt", "To be"}, {"max_tokens", tokens}, {"ignore_eos", true},
          {"seed", 7},       {"stream", stream},  {"temperature", 0.8}};
}

/// Sends a request; returns the open connection, for the test to close.
int begin(const std::string& url, const std::string& request) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  return fd;
}

/// The state of the server's newest request.
std::string newest_state(const TestServer& server) {
  const Ended ended = server.cli({"--json", "requests", "list", "--limit", "1"});
  const json list = json::parse(ended.out, nullptr, false);
  if (!list.is_object() || list.value("requests", json::array()).empty()) return "none";
  return list["requests"][0].value("state", "");
}

bool comes_to(const TestServer& server, const std::string& state) {
  for (int i = 0; i < 100; ++i) {
    if (newest_state(server) == state) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

const std::vector<std::string> kSlow = {"--model", "demo=" + demo_model(), "--engine",
                                        "fake",    "--engine-options",     R"({"step_us":20000})"};

TEST(Leaving, Request_WhenTheClientCannotReturn_IsCancelledAtOnce) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kSlow)) << server.errors();
  const struct {
    bool stream;
    std::vector<std::pair<std::string, std::string>> headers;
    const char* ends;
  } kCases[] = {{false, {}, "cancelled"},
                {true, {{"X-On-Disconnect", "cancel"}}, "cancelled"},
                {true, {}, "running"},
                {false, {{"Idempotency-Key", "k"}}, "running"}};
  for (const auto& c : kCases) {
    const int fd = begin(
        server.url(), http_post_text("/v1/completions", body_of(480, c.stream).dump(), c.headers));
    EXPECT_TRUE(comes_to(server, "running"));
    close(fd);
    // Long before the 30 s that clients have to come back are over.
    EXPECT_TRUE(comes_to(server, c.ends)) << c.ends << " " << newest_state(server);
    if (std::string(c.ends) == "running") {
      std::this_thread::sleep_for(500ms);
      EXPECT_EQ(newest_state(server), "running");
    }
  }
  EXPECT_EQ(server.cli({"config", "set", "drain.limit_ms=0"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Stopping, Stop_WithAnswersInFlight_DeliversThem) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "2"}))
      << server.errors();
  constexpr int kClients = 32, kTokens = 60;
  std::vector<std::future<HttpAnswer>> answers;
  for (int i = 0; i < kClients; ++i) {
    answers.push_back(std::async(std::launch::async, [&server, i] {
      return http_exchange(server.url(),
                           http_post_text("/v1/completions", body_of(kTokens, i % 2 == 0).dump()));
    }));
  }
  // All requests are with the daemon.
  const auto client = server.operator_client();
  for (int i = 0; i < 400; ++i) {
    const auto list = client->op(client::AllTenants::local(), "requests.list", R"({"limit":100})");
    const auto* text = std::get_if<std::string>(&list);
    const json all = text == nullptr ? json() : json::parse(*text, nullptr, false);
    if (all.is_object() && all.value("requests", json::array()).size() >= kClients) break;
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(server.stop(), 0);
  for (auto& pending : answers) {
    const HttpAnswer answer = pending.get();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.complete);
    const bool stream = answer.headers.at("content-type").starts_with("text/event-stream");
    const std::string end = stream ? "[DONE]" : "\"completion_tokens\":60";
    EXPECT_NE(answer.body.find(end), std::string::npos) << answer.body;
  }
}

TEST(Stopping, Stop_WithUnfinishedWork_ResumesItAtTheNextStart) {
  const TempDir dir;
  std::string whole;
  {
    TestServer server(dir.path() + "/other");
    ASSERT_TRUE(server.start(kSlow)) << server.errors();
    whole =
        stream_sse(server.url(), "/v1/completions", body_of(100, true).dump(), "w", Resume::kPost)
            .text;
    EXPECT_EQ(server.stop(), 0);
  }
  TestServer server(dir.path() + "/state");
  auto flags = kSlow;
  flags.insert(flags.end(), {"--config", "drain.limit_ms=300"});
  ASSERT_TRUE(server.start(flags)) << server.errors();
  auto plain = std::async(std::launch::async, [&server] {
    return http_exchange(server.url(),
                         http_post_text("/v1/completions", body_of(480, false).dump()));
  });
  std::promise<void> underway;
  std::string url = server.url();
  std::mutex mutex;
  auto stream = std::async(std::launch::async, [&] {
    bool told = false;
    return stream_sse(
        [&] {
          const std::lock_guard lock(mutex);
          return url;
        },
        "/v1/completions", body_of(100, true).dump(), "k", Resume::kPost,
        [&](const SseResult& result) {
          if (result.index > 5 && !std::exchange(told, true)) underway.set_value();
        },
        true);
  });
  underway.get_future().wait();
  EXPECT_EQ(server.stop(), 0);
  const HttpAnswer refused = plain.get();
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_NE(refused.body.find("\"code\":\"draining\""), std::string::npos) << refused.body;
  EXPECT_EQ(refused.headers.count("x-request-id"), 1U);
  ASSERT_TRUE(server.start(flags)) << server.errors();
  {
    const std::lock_guard lock(mutex);
    url = server.url();
  }
  const SseResult result = stream.get();
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.text, whole);
  EXPECT_GT(result.connections, 1);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::leaving_test
