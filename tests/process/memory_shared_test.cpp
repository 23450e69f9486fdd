// Goal: workers of one machine reserve its memory once: whatever is loaded together, and whatever
// is killed meanwhile, all loads together never reserve more than is allowed, and a load that does
// not fit says why. Method: real workers with a real model's shape under a small
// models.memory_percent; the sum of reservations is checked all the time, in the status document
// and in the database. Then the same in a control group with a limit, and a model file that is cut
// or changed under its load.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/host_memory.h"
#include "tests/process/memory_watch.h"
#include "tests/process/test_server.h"

namespace holdfast::process::memory_shared_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A model of 135M, made once for all tests of this program.
const std::string& model_135m() {
  static const TempDir dir;
  static const std::string path = [] {
    const std::string file = dir.path() + "/135m.gguf";
    const Ended made = run_program({"holdfast", "synth", "smollm2-135m", file, "--type", "Q8_0"});
    EXPECT_EQ(made.code, 0) << made.err;
    return file;
  }();
  return path;
}

/// Adds a model with so many slots that one load takes more than half of what may be reserved.
std::vector<std::string> add_large(const std::string& name, std::int64_t reservable) {
  // 30 layers, 3 heads of 64, keys and values, f16: 22.5 KiB a token, and whole contexts count.
  const std::int64_t tokens =
      std::max<std::int64_t>((reservable * 6 / 10 - 170'000'000) / 23'040, 64);
  const std::int64_t context = std::min<std::int64_t>(tokens / 64 * 64, 2048);
  return {"models",
          "add",
          name,
          model_135m(),
          "--load",
          "--context",
          std::to_string(context),
          "--slots",
          std::to_string(std::max<std::int64_t>(tokens / context, 1))};
}

void run_workers(int workers, std::int64_t percent) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--workers", std::to_string(workers), "--threads", "1"}))
      << server.errors();
  ASSERT_EQ(server.cli({"config", "set", "models.memory_percent=" + std::to_string(percent)}).code,
            0);
  const std::int64_t reservable = host_memory_pools().at(0).total / 100 * percent;
  MemoryWatch watch(server, reservable);
  const Ended added = server.cli(add_large("large", reservable));
  ASSERT_EQ(added.code, 0) << added.err;
  const Ended small = server.cli(
      {"models", "add", "small", model_135m(), "--load", "--context", "256", "--slots", "1"});
  ASSERT_EQ(small.code, 0) << small.err;
  watch.look_until_quiet();
  const json document = ask(watch.daemon(), "models.show", {{"name", "large"}});
  ASSERT_EQ(document["loads"].size(), 1u) << document.dump(1);
  int refused = 0;
  for (const json& device : document["devices"]) {
    if (device["verdict"] != "no room now") continue;
    ++refused;
    EXPECT_NE(device["why"].get<std::string>().find("more worker"), std::string::npos) << device;
  }
  EXPECT_EQ(refused, workers - 1) << document.dump(1);
  // Each worker is killed once; the memory of a dead one is not given away twice.
  for (int w = 0; w < workers; ++w) {
    ASSERT_TRUE(server.kill_child("worker-" + std::to_string(w)));
    watch.look_for(300);
  }
  watch.look_until_quiet();
  EXPECT_EQ(server.cli({"run", "small", "one two", "--max-tokens", "4"}).code, 0);
  std::printf("%d workers, %lld %%: at most %.1f of %.1f MiB reserved\n", workers,
              static_cast<long long>(percent), static_cast<double>(watch.most()) / (1 << 20),
              static_cast<double>(reservable) / (1 << 20));
  EXPECT_EQ(server.stop(), 0);
}

TEST(SharedMemory, HostMemory_WithTwoWorkersAndThreePercent_IsReservedOnce) {
  run_workers(2, 3);
}

TEST(SharedMemory, HostMemory_WithFourWorkersAndTwoPercent_IsReservedOnce) {
  run_workers(4, 2);
}

TEST(SharedMemory, ModelLoad_InAMemoryLimitedCgroup_ReservesFromItsLimit) {
  constexpr std::int64_t kLimit = 700 << 20;
  LimitedGroup group(kLimit);
  if (!group.made()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  (void)model_135m();  // made outside
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  if (!group.enter()) GTEST_SKIP() << "this process cannot be moved";
  const bool started = server.start({"--workers", "2", "--threads", "1"});
  group.leave();
  ASSERT_TRUE(started) << server.errors();
  MemoryWatch watch(server, kLimit / 100 * 90);
  // Two models would be too much for the group; the machine has memory for many.
  ASSERT_EQ(
      server
          .cli({"models", "add", "a", model_135m(), "--load", "--context", "2048", "--slots", "4"})
          .code,
      0);
  watch.look_until_quiet();
  const json document = ask(watch.daemon(), "models.show", {{"name", "a"}});
  EXPECT_EQ(document["loads"].size(), 1u) << document.dump(1);
  EXPECT_EQ(server.cli({"run", "a", "one two", "--max-tokens", "4"}).code, 0);
  // A model that cannot fit there is refused with the numbers, and no process is killed.
  const Ended large = server.cli({"models", "add", "b", model_135m(), "--load", "--context",
                                  "32768", "--slots", "1", "--timeout", "20"});
  EXPECT_NE(large.code, 0) << large.out;
  watch.look();
  EXPECT_EQ(server.restarts_of("worker-0") + server.restarts_of("worker-1"), 0);
  EXPECT_EQ(server.stop(), 0);
}

/// A copy of the model that may be damaged.
std::string copy_of_model(const TempDir& dir) {
  const std::string path = dir.path() + "/copy.gguf";
  fs::copy_file(model_135m(), path);
  return path;
}

TEST(ModelFile, ModelFile_WhenTruncatedDuringItsLoad_FailsThatLoadAlone) {
  const TempDir dir;
  const std::string path = copy_of_model(dir);
  const auto whole = static_cast<off_t>(fs::file_size(path));
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
      << server.errors();
  ASSERT_EQ(server.cli({"models", "add", "cut", path, "--context", "512", "--slots", "1"}).code, 0);
  const pid_t worker = server.pid_of("worker-0");
  const auto client = server.operator_client();
  int failed = 0;
  for (int round = 0; round < 3; ++round) {
    (void)ask(*client, "models.load", {{"name", "cut"}});
    std::string state;
    for (int i = 0; i < 2000; ++i) {
      state = ask(*client, "models.show", {{"name", "cut"}}).value("state", "");
      if (state == "loading" && i >= round * 3) break;
      if (state == "ready" || state == "failed") break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(truncate(path.c_str(), whole / 100), 0);
    for (int i = 0; i < 2000 && state != "failed" && state != "ready"; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      state = ask(*client, "models.show", {{"name", "cut"}}).value("state", "");
    }
    failed += state == "failed";
    if (state == "failed") {
      const std::string why = ask(*client, "models.show", {{"name", "cut"}}).value("reason", "");
      EXPECT_NE(why.find("file_invalid"), std::string::npos) << why;
    }
    (void)server.cli({"models", "unload", "cut"});
    fs::copy_file(model_135m(), path, fs::copy_options::overwrite_existing);
    ASSERT_EQ(server.cli({"models", "add", "cut", path, "--context", "512", "--slots", "1"}).code,
              0);
  }
  EXPECT_GT(failed, 0) << "each load was over before its file was cut";
  EXPECT_EQ(server.pid_of("worker-0"), worker) << "it lives";
  EXPECT_EQ(server.cli({"run", "demo", "To be", "--max-tokens", "4"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

TEST(ModelFile, ModelFile_WhenWeightsChangeButSizeAndTimeDoNot_IsRefused) {
  const TempDir dir;
  const std::string path = copy_of_model(dir);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--threads", "1"})) << server.errors();
  ASSERT_EQ(server.cli({"models", "add", "m", path, "--context", "256", "--slots", "1"}).code, 0);
  const auto time = fs::last_write_time(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path)) - 4096);
    file << "other weights";
  }
  fs::last_write_time(path, time);
  const Ended loaded = server.cli({"models", "load", "m"});
  EXPECT_NE(loaded.code, 0) << loaded.out;
  const json document = json::parse(server.cli({"--json", "models", "show", "m"}).out);
  EXPECT_EQ(document["state"], "failed");
  EXPECT_NE(document["reason"].get<std::string>().find("other content"), std::string::npos)
      << document;
  EXPECT_NE(server.cli({"models", "verify", "m"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::memory_shared_test
