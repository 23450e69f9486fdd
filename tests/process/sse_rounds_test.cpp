// Goal: whichever process dies while 32 clients read SSE, each of them ends up with the text of an
// undisturbed run: plain chat, tool calls with reasoning, two choices, documents under a schema.
// Method: `holdfast serve` with the demo model and a template that knows tools; each round all 32
// streams run and one process is killed, gateway, daemon and worker in turn; clients come back as
// careful programs do, by their POST or by the stream of their request; the joined output of each
// is compared with that of an undisturbed run.
//
//   process_sse_rounds_test                9 rounds
//   process_sse_rounds_test --rounds 100   the long form

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::sse_rounds_test {
namespace {

using nlohmann::json;

int g_rounds = 9;
constexpr std::size_t kStreams = 32;
constexpr auto kPatience = std::chrono::seconds(120);

constexpr const char* kTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{%- if tools %}{{ tools | tojson }} write <tool_call>{...}</tool_call>{% endif %}"
    "{%- if false %}</think>{% endif %}";
constexpr const char* kCall =
    R"(<think>[a-z ]{20,40}[a-z]</think>\n[A-Z][a-z ]{10,20}[a-z]\.)"
    R"(\n<tool_call>\{"name": "look", "arguments": \{"q": "[a-z]{20,40}"\}\}</tool_call>)";

json chat(std::size_t i) {
  return {{"model", "m"},
          {"messages", {{{"role", "user"}, {"content", "Scene " + std::to_string(i)}}}},
          {"max_tokens", 120},
          {"temperature", 0.9},
          {"seed", 100 + i},
          {"stream", true}};
}

/// One of the 32 requests; each of the four kinds in turn.
json body_of(std::size_t i) {
  json body = chat(i);
  switch (i % 4) {
    case 0:
      body["ignore_eos"] = true;
      break;
    case 1:
      body["tools"] = {{{"type", "function"}, {"function", {{"name", "look"}}}}};
      body["guided_regex"] = kCall;
      body["max_tokens"] = 300;
      break;
    case 2:
      body["n"] = 2;
      body["ignore_eos"] = true;
      body["max_tokens"] = 60;
      break;
    default:
      body["response_format"] = json::parse(
          R"({"type":"json_schema","json_schema":{"name":"line","schema":{"type":"object",
              "properties":{"speaker":{"enum":["Romeo","Juliet"]},
              "line":{"type":"string","minLength":40,"maxLength":60},"sad":{"type":"boolean"}},
              "required":["speaker","line","sad"],"additionalProperties":false}}})");
      body["max_tokens"] = 300;
  }
  return body;
}

/// The progress of the streams of a round.
struct Progress {
  std::atomic<std::size_t> begun{0}, ended{0};
};

class SseRounds : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = dir_.path() + "/model";
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    dir_.write("model/chat_template.jinja", kTemplate);
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start({"--restart-max-ms", "20"})) << server_->errors();
    const Ended added = server_->cli({"models", "add", "m", folder, "--slots", "40", "--load"});
    ASSERT_EQ(added.code, 0) << added.err;
  }
  void TearDown() override {
    if (server_->supervisor_pid() > 0) {
      EXPECT_EQ(server_->stop(), 0) << server_->errors();
    }
  }

  SseResult stream_one(std::size_t i, const std::string& key, Resume resume, Progress& progress) {
    bool first = true;
    const SseResult received = stream_sse([this] { return server_->url(); }, "/v1/chat/completions",
                                          body_of(i).dump(), key, resume,
                                          [&](const SseResult& so_far) {
                                            if (first && so_far.index > 0) {
                                              first = false;
                                              ++progress.begun;
                                            }
                                          },
                                          true);
    ++progress.ended;
    return received;
  }

  /// Runs all streams at once, and `disturb` at the same time.
  std::vector<SseResult> stream_all(const std::string& name,
                                    const std::function<void(Progress&)>& disturb) {
    std::vector<SseResult> received(kStreams);
    std::vector<std::thread> threads;
    Progress progress;
    for (std::size_t i = 0; i < kStreams; ++i) {
      threads.emplace_back([&, i] {
        const Resume resume = i / 4 % 2 == 0 ? Resume::kPost : Resume::kGet;
        received[i] = stream_one(i, name + "-" + std::to_string(i), resume, progress);
      });
    }
    disturb(progress);
    for (std::thread& thread : threads) thread.join();
    return received;
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
};

void expect_kind(std::size_t i, const SseResult& received) {
  SCOPED_TRACE("stream " + std::to_string(i));
  ASSERT_EQ(received.failure, "");
  ASSERT_EQ(received.choices.size(), i % 4 == 2 ? 2u : 1u);
  const ChoiceResult& first = received.choices.at(0);
  if (i % 4 == 1) {
    EXPECT_EQ(first.finish, "tool_calls");
    EXPECT_EQ(first.calls.rfind("look{\"q\": \"", 0), 0u) << first.calls;
    EXPECT_GE(first.reasoning.size(), 20u);
  } else if (i % 4 == 3) {
    EXPECT_TRUE(json::accept(first.text)) << first.text;
  } else {
    EXPECT_EQ(first.finish, "length");
  }
}

TEST_F(SseRounds, SseStreams_WhileProcessesAreKilled_GiveTheUndisturbedText) {
  const std::vector<SseResult> expected = stream_all("quiet", [](Progress&) {});
  for (std::size_t i = 0; i < kStreams; ++i) expect_kind(i, expected[i]);
  if (HasFailure()) return;
  EXPECT_NE(expected[2].choices.at(0).text, expected[2].choices.at(1).text);

  const std::vector<std::string> victims = {"gateway", "daemon", "worker-0"};
  std::mt19937 random(1);
  std::map<std::string, int> kills;
  std::int64_t cut = 0, in_flight = 0;
  for (int round = 0; round < g_rounds && !HasFailure(); ++round) {
    const std::string& victim = victims[static_cast<std::size_t>(round) % victims.size()];
    SCOPED_TRACE("round " + std::to_string(round) + ": " + victim);
    const auto pause = std::chrono::milliseconds(random() % 150);
    const auto received = stream_all("round-" + std::to_string(round), [&](Progress& progress) {
      const auto until = std::chrono::steady_clock::now() + kPatience;
      while (progress.begun < kStreams && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(pause);
      in_flight += static_cast<std::int64_t>(kStreams - progress.ended);
      EXPECT_TRUE(server_->kill_child(victim));
      ++kills[victim];
    });
    for (std::size_t i = 0; i < kStreams; ++i) {
      EXPECT_EQ(received[i].failure, "") << "stream " << i << server_->errors();
      EXPECT_EQ(received[i].choices, expected[i].choices) << "stream " << i;
      EXPECT_EQ(received[i].index, expected[i].index) << "stream " << i;
      cut += received[i].connections - 1;
    }
  }
  std::printf(
      "%d rounds of %zu streams; killed: gateway %d, daemon %d, worker %d; streams that ran "
      "at a death: %.1f; connections that came again: %lld\n",
      g_rounds, kStreams, kills["gateway"], kills["daemon"], kills["worker-0"],
      static_cast<double>(in_flight) / g_rounds, static_cast<long long>(cut));
  EXPECT_GT(in_flight, static_cast<std::int64_t>(g_rounds) * 8);  // deaths in the middle of streams
  EXPECT_GT(cut, 0);
}

}  // namespace
}  // namespace holdfast::process::sse_rounds_test

int main(int argc, char** argv) {
  using namespace holdfast::process::sse_rounds_test;
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--rounds") g_rounds = std::atoi(argv[i + 1]);
  }
  return RUN_ALL_TESTS();
}
