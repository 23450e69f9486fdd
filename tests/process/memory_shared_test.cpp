// Goal: workers of one machine reserve its memory once: whatever is loaded together, and whoever is
// killed meanwhile, what all loads reserve is never more than may be, and what does not fit says
// why. Method: real workers with a real model's shape under a small models.memory_percent; the sum
// of reservations is looked at all the time, in what status says and in the database. Then the same
// in a control group with a limit, and a model file that is cut or changed under its load.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/host_memory.h"
#include "tests/process/house.h"

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

json op(client::Client& client, const char* verb, const json& args = json::object()) {
  const auto answer = client.op(client::AllTenants::local(), verb, args.dump());
  const auto* text = std::get_if<std::string>(&answer);
  return text == nullptr ? json() : json::parse(*text);
}

/// Sum of the rows of `reservations`.
std::int64_t reserved_in_database(const std::string& state) {
  sqlite3* db = nullptr;
  std::int64_t sum = -1;
  const std::string path = "file:" + state + "/control.db?mode=ro";
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr) ==
      SQLITE_OK) {
    sqlite3_busy_timeout(db, 2000);
    sqlite3_exec(
        db, "SELECT coalesce(sum(bytes), 0) FROM reservations",
        [](void* out, int, char** values, char**) {
          *static_cast<std::int64_t*>(out) = std::atoll(values[0]);
          return 0;
        },
        &sum, nullptr);
  }
  sqlite3_close(db);
  return sum;
}

/// The greatest sum of reservations that was ever seen, over what may be reserved.
class Watch {
 public:
  Watch(const House& house, std::int64_t reservable)
      : house_(house), client_(house.operator_client()), reservable_(reservable) {}
  void look() {
    const json status = op(*client_, "status");
    std::int64_t sum = 0;
    loads_ = 0;
    for (const json& model : status.value("models", json::array())) {
      for (const json& load : model["loads"]) {
        sum += load["reserved_bytes"].get<std::int64_t>();
        ++loads_;
      }
    }
    for (const json& device : status.value("devices", json::array())) {
      EXPECT_LE(device["reserved_bytes"].get<std::int64_t>(), reservable_) << device;
    }
    most_ = std::max({most_, sum, reserved_in_database(house_.state())});
    EXPECT_LE(most_, reservable_) << status.dump(1);
  }
  void look_for(int ms) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (std::chrono::steady_clock::now() < until) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  /// Until no load is in progress.
  void look_until_quiet() {
    for (int i = 0; i < 3000; ++i) {
      look();
      bool busy = false;
      for (const json& model : op(*client_, "models.list").value("models", json::array())) {
        for (const json& load : model["loads"]) busy = busy || load["state"] != "ready";
      }
      if (!busy && loads_ > 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "loads go on and on " << house_.errors();
  }
  client::Client& daemon() { return *client_; }
  std::int64_t loads() const { return loads_; }
  std::int64_t most() const { return most_; }

 private:
  const House& house_;
  std::unique_ptr<client::Client> client_;
  const std::int64_t reservable_;
  std::int64_t most_ = 0, loads_ = 0;
};

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
  Watch watch(house, reservable);
  const Ended added = house.cli(add_large("large", reservable));
  ASSERT_EQ(added.code, 0) << added.err;
  const Ended small = house.cli(
      {"models", "add", "small", model_135m(), "--load", "--context", "256", "--slots", "1"});
  ASSERT_EQ(small.code, 0) << small.err;
  watch.look_until_quiet();
  const json shown = op(watch.daemon(), "models.show", {{"name", "large"}});
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

/// A control group with a memory limit, of whichever version this machine has and lets us make.
class LimitedGroup {
 public:
  explicit LimitedGroup(std::int64_t limit) {
    const std::string name = "holdfast-test-" + std::to_string(getpid());
    const auto fits = [&](const std::string& mount, const char* file) {
      const std::string folder = mount + "/" + name;
      if (mkdir(folder.c_str(), 0700) != 0) return false;
      std::ofstream(folder + file) << limit;
      std::int64_t is = 0;
      std::ifstream(folder + file) >> is;
      if (is == limit) return folder_ = folder, true;
      rmdir(folder.c_str());
      return false;
    };
    (void)(fits("/sys/fs/cgroup/memory", "/memory.limit_in_bytes") ||
           fits("/sys/fs/cgroup", "/memory.max"));
  }
  ~LimitedGroup() {
    leave();
    for (int i = 0; i < 100 && !folder_.empty() && rmdir(folder_.c_str()) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  bool made() const { return !folder_.empty(); }
  /// Puts this process in it, and whoever it starts from now on.
  bool enter() {
    std::ifstream own("/proc/self/cgroup");
    const bool v1 = folder_.find("/memory/") != std::string::npos;
    for (std::string line; std::getline(own, line);) {
      if (v1 && line.find(":memory:") != std::string::npos) {
        home_ = "/sys/fs/cgroup/memory" + line.substr(line.rfind(':') + 1);
      } else if (!v1 && line.starts_with("0::")) {
        home_ = "/sys/fs/cgroup" + line.substr(3);
      }
    }
    return move_to(folder_);
  }
  void leave() {
    if (!home_.empty()) move_to(home_);
    home_.clear();
  }

 private:
  static bool move_to(const std::string& folder) {
    std::ofstream procs(folder + "/cgroup.procs");
    procs << getpid() << std::endl;
    return procs.good();
  }
  std::string folder_, home_;
};

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
  Watch watch(house, kLimit / 100 * 90);
  // Two of them would be too much; the machine has room for many.
  ASSERT_EQ(
      house.cli({"models", "add", "a", model_135m(), "--load", "--context", "2048", "--slots", "4"})
          .code,
      0);
  watch.look_until_quiet();
  const json shown = op(watch.daemon(), "models.show", {{"name", "a"}});
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
    (void)op(*client, "models.load", {{"name", "cut"}});
    std::string state;
    for (int i = 0; i < 2000; ++i) {
      state = op(*client, "models.show", {{"name", "cut"}}).value("state", "");
      if (state == "loading" && i >= round * 3) break;
      if (state == "ready" || state == "failed") break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(truncate(path.c_str(), whole / 100), 0);
    for (int i = 0; i < 2000 && state != "failed" && state != "ready"; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      state = op(*client, "models.show", {{"name", "cut"}}).value("state", "");
    }
    failed += state == "failed";
    if (state == "failed") {
      const std::string why = op(*client, "models.show", {{"name", "cut"}}).value("reason", "");
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
