// Goal: a model whose layers have states is served like any other: texts that begin alike share
// what was computed, and streams go on with the same text when workers and the daemon are killed,
// whose states are lost. Method: `holdfast serve` with a tiny random model (`synth`); streams
// alone, then together while a worker, later the daemon is killed.

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "ops/model_tools/synth_family.h"
#include "tests/process/test_server.h"

namespace holdfast::process::recurrent_test {
namespace {

constexpr std::uint64_t kStreams = 8;
constexpr std::int64_t kTokens = 70;  // beyond the end of a page

std::string prompt_of(std::uint64_t stream) {
  std::string text;  // a common beginning of more than a page
  for (int i = 0; i < 45; ++i) text += "O Romeo ";
  return text.substr(0, 100) + std::to_string(stream % 3) + " and " + std::to_string(stream % 4);
}

wire::Submit request_of(std::uint64_t stream) {
  wire::Submit submit = make_submit(prompt_of(stream), kTokens, 40 + stream);
  submit.sampling.ignore_eos = true;
  return submit;
}

/// Streams all of them at once; calls `disturb` when one of them has come to `tokens`.
std::vector<StreamResult> together(TestServer& server, std::size_t tokens,
                                   const std::function<void()>& disturb) {
  std::atomic<bool> disturbed{false};
  std::vector<std::future<StreamResult>> streams;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::async(std::launch::async, [&, i] {
      const auto client = server.client();
      return submit_and_stream(*client, request_of(i), [&](std::size_t received) {
        if (received >= tokens && !disturbed.exchange(true)) disturb();
      });
    }));
  }
  std::vector<StreamResult> received;
  for (auto& stream : streams) received.push_back(stream.get());
  EXPECT_TRUE(disturbed);
  return received;
}

TEST(Recurrent, RecurrentModel_WhenAProcessIsKilled_StreamsTheSameText) {
  const TempDir dir;
  const std::string model = dir.path() + "/model.gguf";
  ASSERT_TRUE(cli::synth_family("qwen35", model, "q8_0", 7, "none").has_value());
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "demo=" + model, "--threads", "1"})) << server.errors();
  std::vector<StreamResult> alone;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    const auto client = server.client();
    alone.push_back(submit_and_stream(*client, request_of(i)));
    ASSERT_EQ(alone.back().failure, "") << server.errors();
    ASSERT_EQ(alone.back().ids.size(), static_cast<std::size_t>(kTokens));
  }
  for (const char* victim : {"worker-0", "daemon", "worker-0"}) {
    const auto received =
        together(server, 20, [&] { EXPECT_TRUE(server.kill_child(victim)) << victim; });
    for (std::size_t i = 0; i < kStreams; ++i) {
      EXPECT_EQ(received[i].failure, "") << server.errors();
      EXPECT_EQ(received[i].ids, alone[i].ids) << victim << " " << i;
      EXPECT_EQ(received[i].text, alone[i].text) << victim << " " << i;
    }
  }
  EXPECT_GE(server.restarts_of("worker-0"), 2);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::process::recurrent_test
