// Goal: the programs of docs/examples do what the documentation says of them, on a running server,
// also when the daemon is killed in the middle of their output. Method: builds are of the same
// tree; the program runs against the demo model and its output is compared with the database
// (`requests tail`).

#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/process/test_server.h"

namespace holdfast::process::examples_test {
namespace {

using nlohmann::json;

class StreamExample : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.start({"--model", "demo=" + demo_model()})) << server_.errors();
  }
  Ended run_example(const std::string& tokens) const {
    const std::string program = std::string(HOLDFAST_BUILD_DIR) + "/examples/example_stream";
    return run_program({program, server_.state(), "demo", "O Romeo, Romeo,", tokens});
  }
  /// Expects first the whole text, then its second half.
  void expect_text(const Ended& ended) {
    ASSERT_EQ(ended.code, 0) << ended.err << server_.errors();
    const std::string mark = "request ";
    const std::size_t begin = ended.err.find(mark);
    const std::size_t end = ended.err.find(" is durable");
    ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("succeeded; once more"), std::string::npos) << ended.err;
    const std::string id = ended.err.substr(begin + mark.size(), end - begin - mark.size());
    std::string text = server_.cli({"requests", "tail", id}).out;
    if (!text.empty() && text.back() == '\n') text.pop_back();
    ASSERT_GT(text.size(), 40U);
    ASSERT_EQ(ended.out.substr(0, text.size() + 1), text + "\n");
    std::string half = ended.out.substr(text.size() + 1);
    ASSERT_FALSE(half.empty());
    half.pop_back();
    EXPECT_GT(half.size(), 10U);
    EXPECT_LT(half.size(), text.size());
    EXPECT_EQ(text.substr(text.size() - half.size()), half);
    document_ = json::parse(server_.cli({"--json", "requests", "show", id}).out);
  }

  TempDir dir_;
  TestServer server_{dir_.path() + "/state"};
  json document_;
};

TEST_F(StreamExample, StreamExample_WhenRun_PrintsTheTextAndItsSecondHalf) {
  expect_text(run_example("120"));
}

TEST_F(StreamExample, StreamExample_WhenTheDaemonIsKilled_GoesOn) {
  auto ended = std::async(std::launch::async, [this] { return run_example("400"); });
  const auto watcher = server_.operator_client();
  for (int i = 0; i < 5'000; ++i) {
    const auto answer = watcher->op(client::AllTenants::local(), "queue.stats", "{}");
    const auto* text = std::get_if<std::string>(&answer);
    if (text != nullptr && json::parse(*text)["running_choices"] == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(server_.kill_child("daemon"));
  expect_text(ended.get());
  // The kill met running work: its worker was adopted with it, or it was dispatched again.
  EXPECT_GE(document_["attempts"].size(), 2U) << document_;
}

}  // namespace
}  // namespace holdfast::process::examples_test
