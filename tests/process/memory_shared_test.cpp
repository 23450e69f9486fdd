// Goal: workers of one machine reserve its memory once: whatever is loaded together, and whoever is
// killed meanwhile, what all loads reserve is never more than may be, and what does not fit says
// why. Method: real workers with a real model's shape under a small models.memory_percent; the sum
// of reservations is looked at all the time, in what status says and in the database. Then the same
// in a control group with a limit, and a model file that is cut or changed under its load.
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
#include "tests/process/house.h"
#include "tests/process/memory_watch.h"

namespace holdfast::process::memory_shared_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// 135M, made once for all tests of this program.
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

/// Slots that make one load larger than half of what may be reserved.
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
  House house(dir.path() + "/state");
  ASSERT_TRUE(house.start({"--workers", std::to_string(workers), "--threads", "1"}))
      << house.errors();
  ASSERT_EQ(house.cli({"config", "set", "models.memory_percent=" + std::to_string(percent)}).code,
            0);
  const std::int64_t reservable = host_memory_pools().at(0).total / 100 * percent;
  MemoryWatch watch(house, reservable);
  const Ended added = house.cli(add_large("large", reservable));
  ASSERT_EQ(added.code, 0) << added.err;
  const Ended small = house.cli(
      {"models", "add", "small", model_135m(), "--load", "--context", "256", "--slots", "1"});
  ASSERT_EQ(small.code, 0) << small.err;
  watch.look_until_quiet();
  const json shown = ask(watch.daemon(), "models.show", {{"name", "large"}});
  ASSERT_EQ(shown["loads"].size(), 1u) << shown.dump(1);
  int refused = 0;
  for (const json& device : shown["devices"]) {
    if (device["verdict"] != "no room now") continue;
    ++refused;
    EXPECT_NE(device["why"].get<std::string>().find("more worker"), std::string::npos) << device;
  }
  EXPECT_EQ(refused, workers - 1) << shown.dump(1);
  // Everybody is killed once; the memory of the dead is not given away twice.
  for (int w = 0; w < workers; ++w) {
    ASSERT_TRUE(house.kill_child("worker-" + std::to_string(w)));
    watch.look_for(300);
  }
  watch.look_until_quiet();
  EXPECT_EQ(house.cli({"run", "small", "one two", "--max-tokens", "4"}).code, 0);
  std::printf("%d workers, %lld %%: at most %.1f of %.1f MiB reserved\n", workers,
              static_cast<long long>(percent), static_cast<double>(watch.most()) / (1 << 20),
              static_cast<double>(reservable) / (1 << 20));
  EXPECT_EQ(house.stop(), 0);
}

TEST(SharedMemory, TwoWorkers_WithThreePercent_ReserveItOnce) {
  run_workers(2, 3);
}

TEST(SharedMemory, FourWorkers_WithTwoPercent_ReserveItOnce) {
  run_workers(4, 2);
}

TEST(SharedMemory, AGroupWithALimit_IsWhatLoadsAreReservedFrom) {
  constexpr std::int64_t kLimit = 700 << 20;
  LimitedGroup group(kLimit);
  if (!group.made()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  (void)model_135m();  // made outside
  const TempDir dir;
  House house(dir.path() + "/state");
  if (!group.enter()) GTEST_SKIP() << "this process cannot be moved";
  const bool started = house.start({"--workers", "2", "--threads", "1"});
  group.leave();
  ASSERT_TRUE(started) << house.errors();
  MemoryWatch watch(house, kLimit / 100 * 90);
  // Two of them would be too much; the machine has room for many.
  ASSERT_EQ(
      house.cli({"models", "add", "a", model_135m(), "--load", "--context", "2048", "--slots", "4"})
          .code,
      0);
  watch.look_until_quiet();
  const json shown = ask(watch.daemon(), "models.show", {{"name", "a"}});
  EXPECT_EQ(shown["loads"].size(), 1u) << shown.dump(1);
  EXPECT_EQ(house.cli({"run", "a", "one two", "--max-tokens", "4"}).code, 0);
  // A model that cannot fit there is refused with the numbers, and nobody is killed.
  const Ended large = house.cli({"models", "add", "b", model_135m(), "--load", "--context", "32768",
                                 "--slots", "1", "--timeout", "20"});
  EXPECT_NE(large.code, 0) << large.out;
  watch.look();
  EXPECT_EQ(house.restarts_of("worker-0") + house.restarts_of("worker-1"), 0);
  EXPECT_EQ(house.stop(), 0);
}

/// A copy of the model that may be spoilt.
std::string copy_of_model(const TempDir& dir) {
  const std::string path = dir.path() + "/copy.gguf";
  fs::copy_file(model_135m(), path);
  return path;
}

TEST(ModelFile, CutWhileItIsLoaded_FailsThatLoadAlone) {
  const TempDir dir;
  const std::string path = copy_of_model(dir);
  const auto whole = static_cast<off_t>(fs::file_size(path));
  House house(dir.path() + "/state");
  ASSERT_TRUE(house.start({"--model", "demo=" + demo_model(), "--threads", "1"})) << house.errors();
  ASSERT_EQ(house.cli({"models", "add", "cut", path, "--context", "512", "--slots", "1"}).code, 0);
  const pid_t worker = house.pid_of("worker-0");
  const auto client = house.operator_client();
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
    (void)house.cli({"models", "unload", "cut"});
    fs::copy_file(model_135m(), path, fs::copy_options::overwrite_existing);
    ASSERT_EQ(house.cli({"models", "add", "cut", path, "--context", "512", "--slots", "1"}).code,
              0);
  }
  EXPECT_GT(failed, 0) << "each load was over before its file was cut";
  EXPECT_EQ(house.pid_of("worker-0"), worker) << "it lives";
  EXPECT_EQ(house.cli({"run", "demo", "To be", "--max-tokens", "4"}).code, 0);
  EXPECT_EQ(house.stop(), 0);
}

TEST(ModelFile, OtherWeightsUnderTheSameSizeAndTime_AreRefused) {
  const TempDir dir;
  const std::string path = copy_of_model(dir);
  House house(dir.path() + "/state");
  ASSERT_TRUE(house.start({"--threads", "1"})) << house.errors();
  ASSERT_EQ(house.cli({"models", "add", "m", path, "--context", "256", "--slots", "1"}).code, 0);
  const auto time = fs::last_write_time(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path)) - 4096);
    file << "other weights";
  }
  fs::last_write_time(path, time);
  const Ended loaded = house.cli({"models", "load", "m"});
  EXPECT_NE(loaded.code, 0) << loaded.out;
  const json shown = json::parse(house.cli({"--json", "models", "show", "m"}).out);
  EXPECT_EQ(shown["state"], "failed");
  EXPECT_NE(shown["reason"].get<std::string>().find("other content"), std::string::npos) << shown;
  EXPECT_NE(house.cli({"models", "verify", "m"}).code, 0);
  EXPECT_EQ(house.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::memory_shared_test
