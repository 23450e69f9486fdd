// Goal: bench/soak counts what it says: every request that it sent is accounted for, kills
// happened, and requests that came again gave the same tokens. Never: that a figure is good.
// Method: a run of seconds with a kill every second, so that each kind of process dies once.

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

double figure(const json& document, const std::string& name) {
  for (const json& one : document["figures"]) {
    if (one["name"] == name) return one["value"].get<double>();
  }
  ADD_FAILURE() << "no figure " << name;
  return -1;
}

TEST(BenchSoak, AShortRunAccountsForEveryRequest) {
  const std::string command =
      std::string(HOLDFAST_BIN_DIR) +
      "/holdfast-bench-soak --json --hours 0.005 --kill-every 1 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  const json document = json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(status, 0);
  EXPECT_EQ(document["problems"], json::array()) << document["problems"].dump();
  EXPECT_GT(figure(document, "soak.submitted"), 500);  // kinds come again
  EXPECT_EQ(figure(document, "soak.succeeded"), figure(document, "soak.submitted"));
  EXPECT_EQ(figure(document, "soak.request_ms.n"), figure(document, "soak.submitted"));
  EXPECT_EQ(figure(document, "soak.other_tokens"), 0);
  EXPECT_GE(figure(document, "soak.kills"), 6);
  EXPECT_GE(figure(document, "soak.daemon_kills"), 1);
  for (const char* name : {"soak.rss_max", "soak.descriptors_max", "soak.wal_max", "soak.rate"}) {
    EXPECT_GT(figure(document, name), 0) << name;
  }
  for (const char* name : {"soak.rss_slope", "soak.descriptors_slope", "soak.queue_slope"}) {
    figure(document, name);  // there; too short a run to mean anything
  }
}

}  // namespace
