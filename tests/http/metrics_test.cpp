// Goal: /metrics is always answered, with the daemon's part if it comes in time and with the
// gateway's own numbers in any case; those count what was served, under a bounded set of names
// whatever clients send. Method: a gateway in this process over a fake daemon whose document the
// test wrote.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/http/http_peer.h"

namespace holdfast::gateway::metrics_test {
namespace {

using test::Gateway;
using test::get;
using test::Peer;
using test::post;
using test::Reply;

constexpr const char* kDocument = R"({"families": [
  {"name": "holdfast_a_total", "type": "counter", "help": "A.", "labels": ["model_name"],
   "rows": [[["m"], 12], [["with \"quotes\"\nand lines"], 1.5]]},
  {"name": "holdfast_empty", "type": "gauge", "help": "E.", "labels": [], "rows": []},
  {"name": "holdfast_b_seconds", "type": "histogram", "help": "B.", "labels": [],
   "bounds": [0.001024, 0.002048], "rows": [[[], 7, 0.25, [2, 5]]]}]})";

bool has(const Reply& reply, const std::string& line) {
  return ("\n" + reply.body).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, Scrape_WhenDaemonAnswers_ReturnsDaemonAndGatewayMetrics) {
  Gateway gateway;
  gateway.client.op_results["metrics"] = kDocument;
  const Reply reply = gateway.ask(get("/metrics"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"# HELP holdfast_a_total A.", "# TYPE holdfast_a_total counter",
        "holdfast_a_total{model_name=\"m\"} 12",
        "holdfast_a_total{model_name=\"with \\\"quotes\\\"\\nand lines\"} 1.5",
        "# TYPE holdfast_b_seconds histogram", "holdfast_b_seconds_count 7",
        "holdfast_b_seconds_sum 0.25", "holdfast_b_seconds_bucket{le=\"0.001024\"} 2",
        "holdfast_b_seconds_bucket{le=\"0.002048\"} 5", "holdfast_b_seconds_bucket{le=\"+Inf\"} 7",
        "holdfast_daemon_up 1", "holdfast_http_connections 1"}) {
    EXPECT_TRUE(has(reply, line)) << line << "\n" << reply.body;
  }
  EXPECT_EQ(reply.body.find("holdfast_empty"), std::string::npos) << "a family without rows";
}

TEST(Metrics, Scrape_WhenDaemonFailsOrIsMalformed_ReturnsDaemonUpZero) {
  Gateway gateway;
  gateway.client.failure = client::Failure{};
  EXPECT_TRUE(has(gateway.ask(get("/metrics")), "holdfast_daemon_up 0"));
  gateway.client.failure.reset();
  for (const char* broken : {"", "no JSON", "[]", R"({"families": [{"name": 3}]})",
                             R"({"families": [{"name": "a", "type": "histogram", "help": "",
                                 "labels": [], "bounds": [1], "rows": [[[], 1, 2, []]]}]})",
                             R"({"families": [{"name": "a", "type": "gauge", "help": "",
                                 "labels": ["l"], "rows": [[[], 1]]}]})"}) {
    gateway.client.op_results["metrics"] = broken;
    const Reply reply = gateway.ask(get("/metrics"));
    EXPECT_EQ(reply.status, 200) << broken;
    EXPECT_TRUE(has(reply, "holdfast_daemon_up 0")) << broken << "\n" << reply.body;
  }
}

TEST(Metrics, Scrape_WhenDaemonIsSilent_EndsAtTheTimeoutAndQueriesOnce) {
  Gateway gateway;
  gateway.context().metrics_time = std::chrono::milliseconds(50);
  gateway.client.silent = true;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 8; ++i) {
    scrapers.emplace_back([&] {
      const Reply reply = gateway.ask(get("/metrics"));
      EXPECT_EQ(reply.status, 200);
      EXPECT_TRUE(has(reply, "holdfast_daemon_up 0")) << reply.body;
    });
  }
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(gateway.client.ops(), 1) << "one question at a time, however many scrape";
}

TEST(Metrics, RequestCounter_WhenPathsVary_CountsByRoutePatternAndStatus) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a", "b"}};
  const std::string body = R"({"model": "m", "prompt": "x", "max_tokens": 2})";
  EXPECT_EQ(gateway.ask(post("/v1/completions", body)).status, 200);
  EXPECT_EQ(gateway.ask(post("/v1/completions", "{")).status, 400);
  for (const char* id : {"one", "two", "three"}) {
    EXPECT_EQ(gateway.ask(get(std::string("/v1/requests/") + id)).status, 404);
  }
  for (const char* path : {"/a", "/b", "/metrics/c"}) {
    EXPECT_EQ(gateway.ask(get(path)).status, 404);
  }
  EXPECT_EQ(gateway.ask("BREW /health HTTP/1.1\r\nHost: test\r\n\r\n").status, 405);
  EXPECT_EQ(gateway.ask("nonsense\r\n\r\n").status, 400);
  const Reply reply = gateway.ask(get("/metrics"));
  for (const char* line :
       {R"(holdfast_http_requests_total{method="POST",path="/v1/completions",status="200"} 1)",
        R"(holdfast_http_requests_total{method="POST",path="/v1/completions",status="400"} 1)",
        R"(holdfast_http_requests_total{method="GET",path="/v1/requests/{}",status="404"} 3)",
        R"(holdfast_http_requests_total{method="other",path="other",status="404"} 3)",
        R"(holdfast_http_requests_total{method="other",path="/health",status="405"} 1)",
        R"(holdfast_http_requests_total{method="other",path="none",status="400"} 1)",
        "holdfast_http_connections_accepted_total 11"}) {
    EXPECT_TRUE(has(reply, line)) << line << "\n" << reply.body;
  }
}

TEST(Metrics, StreamGauge_WhenStreamEndsOrClientDisconnects_ReturnsToZero) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"a", "b", "c"}};
  gateway.client.hold_tokens = true;
  HttpStats& http = *gateway.server().stats();
  const std::string body = R"({"model": "m", "prompt": "x", "max_tokens": 3, "stream": true})";
  {
    Peer peer(gateway.address());
    peer.send(post("/v1/completions", body));
    gateway.client.wait_for([&] { return http.streams == 1; });
    EXPECT_TRUE(has(gateway.ask(get("/metrics")), "holdfast_http_streams 1"));
  }
  gateway.client.wait_for([&] { return http.streams == 0; });
  gateway.client.hold_tokens = false;
  EXPECT_TRUE(gateway.ask(post("/v1/completions", body)).complete);
  EXPECT_EQ(http.streams, 0);
  EXPECT_GT(http.bytes_received, 0u);
  EXPECT_GT(http.bytes_sent, 0u);
}

TEST(Metrics, HeldStreamGauge_WhileReaderIsSlow_CountsTheStream) {
  Gateway gateway;
  gateway.client.script.token_bytes = {std::vector<std::string>(3000, std::string(1000, 'x'))};
  HttpStats& http = *gateway.server().stats();
  const std::string body = R"({"model": "m", "prompt": "x", "max_tokens": 3000, "stream": true})";
  {
    Peer peer(gateway.address());
    peer.small_receive_buffer();
    peer.send(post("/v1/completions", body));
    gateway.client.wait_for([&] { return http.held_streams == 1; });
  }
  gateway.client.wait_for([&] { return http.held_streams == 0; });
}

}  // namespace
}  // namespace holdfast::gateway::metrics_test
