// Goal: a compute thread that is stuck for ever does not hold its requests for ever: the worker
// ends itself, the stuck request is blamed and isolated, its neighbours finish. Method: real
// processes with the fake engine, which hangs on a given prompt token; the watchdog's time is
// short.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "shared/base/progress.h"
#include "tests/process/test_server.h"

namespace holdfast::process::watchdog_test {
namespace {

constexpr wire::TokenId kHangs = 77;

wire::Submit ids(std::vector<wire::TokenId> prompt, std::int64_t tokens) {
  wire::Submit submit = make_submit("", tokens, 1);
  submit.prompts[0] = {};
  submit.prompts[0].ids = std::move(prompt);
  return submit;
}

TEST(Watchdog, StepWatchdog_WhenAStepHangs_EndsTheWorkerAndNeighboursFinish) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(
      server.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--engine-options",
                    "{\"crash\":\"hang\",\"crash_on_prompt_token\":77,\"step_us\":2000}",
                    "--step-watchdog-ms", "300"}))
      << server.errors();
  const auto client = server.client();
  const auto stuck = client->submit(client::Principal::local(), ids({5, kHangs}, 20));
  const auto* accepted = std::get_if<wire::Accepted>(&stuck);
  ASSERT_NE(accepted, nullptr);
  const StreamResult neighbour = submit_and_stream(*client, ids({5, 6, 7}, 200));
  EXPECT_EQ(neighbour.failure, "") << server.errors();
  EXPECT_EQ(neighbour.ids.size(), 200u);
  bool quarantined = false;
  for (int i = 0; i < 400 && !quarantined; ++i) {
    const Ended show_result = server.cli({"--json", "requests", "show", accepted->info.request_id});
    quarantined = show_result.out.find("\"state\":\"quarantined\"") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(quarantined) << server.errors();
  EXPECT_GE(server.restarts_of("worker-0"), 2);
  EXPECT_NE(server.errors().find("stuck"), std::string::npos) << server.errors();
  const StreamResult after = submit_and_stream(*client, ids({8, 9}, 50));
  EXPECT_EQ(after.failure, "") << server.errors();
  EXPECT_EQ(server.cli({"requests", "cancel", accepted->info.request_id}).code, 0);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::process::watchdog_test
