// Goal: the memory that the daemon reserves for a model is the memory that serving it takes.
// Method: a model with a real shape and random weights (`holdfast synth`), loaded into a real
// worker; the worker's own share of memory (PSS) before the load against after some work.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/process/test_server.h"

namespace holdfast::process::memory_test {
namespace {

using nlohmann::json;

/// PSS of a process in bytes; shared pages count in parts.
double pss_of(pid_t pid) {
  std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; rollup >> word;) {
    double kib = 0;
    if (word == "Pss:" && rollup >> kib) return kib * 1024;
  }
  return 0;
}

TEST(Memory, MemoryReservation_AfterServing_EqualsTheMemoryTaken) {
  const TempDir dir;
  const std::string model = dir.path() + "/135m.gguf";
  const Ended made = run_program({"holdfast", "synth", "smollm2-135m", model, "--type", "Q8_0"});
  ASSERT_EQ(made.code, 0) << made.err;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--threads", "2"})) << server.errors();
  const pid_t worker = server.pid_of("worker-0");
  const double before = pss_of(worker);
  ASSERT_GT(before, 0);
  // Little KV, so that it does not hide an error in weights or scratch.
  const Ended added =
      server.cli({"models", "add", "m", model, "--load", "--context", "512", "--slots", "4"});
  ASSERT_EQ(added.code, 0) << added.err;
  ASSERT_EQ(server.cli({"run", "m", "one two three", "--max-tokens", "20"}).code, 0);
  const double taken = pss_of(worker) - before;
  const json model_document = json::parse(server.cli({"--json", "models", "show", "m"}).out);
  const double reserved = model_document.at("loads").at(0).at("reserved_bytes").get<double>();
  std::printf("reserved %.1f MiB, taken %.1f MiB: %+.2f %%\n", reserved / (1 << 20),
              taken / (1 << 20), 100 * (taken / reserved - 1));
  EXPECT_NEAR(taken / reserved, 1, 0.03);
  EXPECT_EQ(server.pid_of("worker-0"), worker);
  EXPECT_EQ(server.stop(), 0);
}

/// A restarted worker finds the packed weights of the killed one and gives the same text, and the
/// memory is freed when the model is unloaded.
TEST(Memory, PackedWeights_WhenTheWorkerIsKilled_AreReused) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "2"}))
      << server.errors();
  const std::vector<std::string> prompt = {"run", "demo",          "To be", "--max-tokens",
                                           "20",  "--temperature", "0",     "--raw"};
  const Ended whole = server.cli(prompt);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto model_document = [&] {
    return json::parse(server.cli({"--json", "models", "show", "demo"}).out);
  };
  EXPECT_EQ(model_document().at("reason").get<std::string>().find("packed already"),
            std::string::npos);
  for (int i = 0; i < 3; ++i) {
    const pid_t worker = server.pid_of("worker-0");
    ASSERT_EQ(kill(worker, SIGKILL), 0);
    const Ended again = server.cli(prompt);  // waits for the next worker
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.out, whole.out);
    const json model = model_document();
    EXPECT_NE(model.dump().find("weights were packed already"), std::string::npos) << model;
    EXPECT_NE(server.pid_of("worker-0"), worker);
  }
  ASSERT_EQ(server.cli({"models", "unload", "demo"}).code, 0);
  ASSERT_EQ(server.cli({"models", "load", "demo"}).code, 0);
  EXPECT_EQ(model_document().dump().find("weights were packed already"), std::string::npos)
      << "unloaded on purpose: not kept";
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::memory_test
