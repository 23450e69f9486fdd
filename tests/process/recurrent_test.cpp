// Goal: a model whose layers carry states is served like any other: texts that begin alike share
// what was computed, and streams go on with the same text when workers and the daemon are killed,
// whose states are gone.
// Method: `holdfast serve` with a tiny random model (`synth`); streams alone, then together while a
// worker, later the daemon is killed among them.

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "ops/cli/synth_family.h"
#include "tests/process/house.h"

namespace holdfast::process::recurrent_test {
namespace {

constexpr std::uint64_t kStreams = 8;
constexpr std::int64_t kTokens = 70;  // over the end of a page

std::string prompt_of(std::uint64_t stream) {
  std::string text;  // of more than a page that they have in common
  for (int i = 0; i < 45; ++i) text += "O Romeo ";
  return text.substr(0, 100) + std::to_string(stream % 3) + " and " + std::to_string(stream % 4);
}

wire::Submit request_of(std::uint64_t stream) {
  wire::Submit submit = make_submit(prompt_of(stream), kTokens, 40 + stream);
  submit.sampling.ignore_eos = true;
  return submit;
}

/// All of them at once; `disturb` is called when one of them has come to `tokens`.
std::vector<Heard> together(House& house, std::size_t tokens,
                            const std::function<void()>& disturb) {
  std::atomic<bool> disturbed{false};
  std::vector<std::future<Heard>> streams;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::async(std::launch::async, [&, i] {
      const auto client = house.client();
      return hear(*client, request_of(i), [&](std::size_t heard) {
        if (heard >= tokens && !disturbed.exchange(true)) disturb();
      });
    }));
  }
  std::vector<Heard> heard;
  for (auto& stream : streams) heard.push_back(stream.get());
  EXPECT_TRUE(disturbed);
  return heard;
}

TEST(Recurrent, StreamsHaveTheSameTextWhoeverIsKilled) {
  const TempDir dir;
  const std::string model = dir.path() + "/model.gguf";
  ASSERT_TRUE(cli::synth_family("qwen35", model, "q8_0", 7, "none").has_value());
  House house(dir.path() + "/state");
  ASSERT_TRUE(house.start({"--model", "demo=" + model, "--threads", "1"})) << house.errors();
  std::vector<Heard> alone;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    const auto client = house.client();
    alone.push_back(hear(*client, request_of(i)));
    ASSERT_EQ(alone.back().failure, "") << house.errors();
    ASSERT_EQ(alone.back().ids.size(), static_cast<std::size_t>(kTokens));
  }
  for (const char* victim : {"worker-0", "daemon", "worker-0"}) {
    const auto heard =
        together(house, 20, [&] { EXPECT_TRUE(house.kill_child(victim)) << victim; });
    for (std::size_t i = 0; i < kStreams; ++i) {
      EXPECT_EQ(heard[i].failure, "") << house.errors();
      EXPECT_EQ(heard[i].ids, alone[i].ids) << victim << " " << i;
      EXPECT_EQ(heard[i].text, alone[i].text) << victim << " " << i;
    }
  }
  EXPECT_GE(house.restarts_of("worker-0"), 2);
  EXPECT_EQ(house.stop(), 0) << house.errors();
}

}  // namespace
}  // namespace holdfast::process::recurrent_test
