// Goal: a full store or disk prevents nobody from revoking a key: keys, webhooks and the notes of
// gateways are stored when clients' objects are refused, a tenant leaves others their share, and
// uploads stop before the disk is full, however fast they come. Method: a daemon with small bounds,
// on a small tmpfs (where mounting is allowed), or under a limit of file sizes; objects are put as
// gateways and the command line put them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/base64.h"
#include "tests/process/lone_daemon.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::storage_full_test {
namespace {

using nlohmann::json;

std::string bytes_of(std::int64_t n) {
  return to_base64(std::string(static_cast<std::size_t>(n), 'x'));
}

class StorageFull : public testing::Test {
 protected:
  void start(const std::vector<std::string>& config, const std::string& state = "") {
    daemon = std::make_unique<LoneDaemon>(state.empty() ? dir.path() + "/state" : state);
    ASSERT_TRUE(daemon->start(config)) << daemon->log();
  }
  /// Sends objects.put as a gateway does.
  json put(const std::string& kind, const std::string& id, const std::string& owner,
           const json& more = json::object()) {
    json args = {{"kind", kind}, {"id", id}, {"owner", owner}, {"body", json::object()}};
    args.update(more);
    return daemon->op("objects.put", args);
  }
  /// Puts files of that owner until no byte more is taken; returns the last refusal.
  json fill(const std::string& owner, std::int64_t bytes_each) {
    json last;
    for (std::int64_t bytes = bytes_each; bytes > 0; bytes /= 2) {
      for (int i = 0; i < 1'000; ++i) {
        last = put("file", owner + std::to_string(++files), owner, {{"append", bytes_of(bytes)}});
        if (last.contains("refused")) break;
      }
    }
    return last;
  }
  void make_key(const std::string& id) {
    const json body = {{"name", id}, {"role", "client"}, {"tenant", "ann"}, {"hash", id}};
    EXPECT_EQ(put("key", id, "operator", {{"version", 0}, {"body", body}})["version"], 1);
  }
  /// Does what `keys revoke` and `keys create` do, and expects it to work.
  void expect_key_is_taken_away(const std::string& id) {
    json key = daemon->op("objects.get", {{"kind", "key"}, {"id", id}})["object"];
    key["body"]["revoked_ms"] = 1'700'000'000'000;
    const json revoked = put("key", id, "", {{"version", 1}, {"body", key["body"]}});
    EXPECT_EQ(revoked["version"], 2) << revoked;
    key = daemon->op("objects.get", {{"kind", "key"}, {"id", id}})["object"];
    EXPECT_EQ(key["body"].value("revoked_ms", 0LL), 1'700'000'000'000) << key;
    make_key("another");
    for (const char* kind : {"webhook", "batch.open", "webhook.due", "webhook.watch"}) {
      const json made = put(kind, "w1", "");
      EXPECT_EQ(made["version"], 1) << kind << made;
    }
  }

  const TempDir dir;
  std::unique_ptr<LoneDaemon> daemon;
  std::atomic<int> files{0};
};

TEST_F(StorageFull, KeyRevocation_WhenTheStoreIsFull_Succeeds) {
  start({"objects.max_bytes=20000", "objects.max_tenant_percent=100"});
  ASSERT_FALSE(HasFatalFailure());
  make_key("k");
  fill("ann", 4000);
  const json other = put("file", "b", "ben", {{"append", bytes_of(1)}});
  EXPECT_EQ(other["refused"], "storage_full");
  // Ben must not learn how much ann stores, to the byte.
  const std::string why = other["why"];
  EXPECT_NE(why.find("objects.max_bytes is 20000"), std::string::npos) << why;
  EXPECT_EQ(why.find("19"), std::string::npos) << why;
  expect_key_is_taken_away("k");
  EXPECT_EQ(daemon->end(SIGTERM), 0);
}

TEST_F(StorageFull, KeyRevocation_WhenTheObjectCountIsFull_Succeeds) {
  start({"objects.max_count=0"});
  ASSERT_FALSE(HasFatalFailure());
  make_key("k");
  EXPECT_EQ(put("file", "a", "ann")["refused"], "storage_full");
  expect_key_is_taken_away("k");
}

TEST_F(StorageFull, TenantQuota_WhenOneTenantFillsTheStore_LeavesOthersTheirShare) {
  start({"objects.max_bytes=20000", "objects.max_count=40", "tenant.cid.max_objects=2",
         "tenant.dan.max_object_bytes=100", "tenant.*.max_responses=3",
         "tenant.*.max_open_batches=1"});
  ASSERT_FALSE(HasFatalFailure());
  const json full = fill("ann", 4000);
  EXPECT_EQ(full["refused"], "storage_full");
  EXPECT_NE(full["why"].get<std::string>().find("the tenant keeps"), std::string::npos) << full;
  EXPECT_EQ(put("file", "b", "ben", {{"append", bytes_of(4000)}})["bytes"], 4000);
  const auto until_refused = [&](const std::string& kind, const std::string& owner) {
    for (int i = 0;; ++i) {
      const json answer = put(kind, owner + kind + std::to_string(i), owner);
      if (answer.contains("refused") || i == 100) return i;
    }
  };
  EXPECT_EQ(until_refused("file", "cid"), 2);
  EXPECT_EQ(until_refused("response", "eve"), 3);
  EXPECT_EQ(until_refused("batch.open", "eve"), 1);
  EXPECT_EQ(until_refused("batch.open", "fay"), 1) << "another's open batch is not counted";
  EXPECT_EQ(put("file", "d", "dan", {{"append", bytes_of(98)}})["bytes"], 98);
  EXPECT_EQ(put("file", "e", "dan")["refused"], "storage_full");
  EXPECT_EQ(daemon->op("objects.delete", {{"kind", "file"}, {"id", "d"}})["deleted"], true);
  EXPECT_EQ(put("file", "e", "dan")["version"], 1) << "what is deleted is given back";
  EXPECT_EQ(daemon->end(SIGTERM), 0);
  // A start counts the stored objects.
  ASSERT_TRUE(daemon->start({"tenant.cid.max_objects=2"})) << daemon->log();
  EXPECT_EQ(put("file", "c", "cid")["refused"], "storage_full");
}

TEST_F(StorageFull, KeyRevocation_WhenTheDiskIsFull_Succeeds) {
  const SmallDisk disk(dir.path() + "/disk", "96m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  start({"storage.min_free_bytes=16777216"}, disk.path() + "/state");
  ASSERT_FALSE(HasFatalFailure());
  make_key("k");
  disk.fill(8192);
  json refused;
  for (int i = 0; i < 100 && !refused.contains("refused"); ++i) {
    refused = put("file", std::to_string(++files), "ann");
  }
  EXPECT_EQ(refused["refused"], "storage_full");
  expect_key_is_taken_away("k");
  EXPECT_TRUE(daemon->runs());
  disk.free();
  EXPECT_EQ(daemon->end(SIGTERM), 0);
  daemon.reset();
}

TEST_F(StorageFull, Uploads_WhenFreeSpaceIsLow_AreRefusedBeforeTheDiskIsFull) {
  const SmallDisk disk(dir.path() + "/disk", "64m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  constexpr std::int64_t kBound = 4 << 20;
  start({"storage.min_free_bytes=" + std::to_string(kBound), "storage.reserve_bytes=4194304"},
        disk.path() + "/state");
  ASSERT_FALSE(HasFatalFailure());
  std::atomic<int> refused{0};
  std::vector<std::thread> uploads;
  for (int u = 0; u < 6; ++u) {
    uploads.emplace_back([&, u] {
      const json part = {{"append", bytes_of(1 << 20)}};
      for (int i = 0; i < 100 && refused < 20; ++i) {
        const std::string id = std::to_string(u) + "-" + std::to_string(i);
        if (put("file", id, "t" + std::to_string(u), part).contains("refused")) ++refused;
      }
    });
  }
  for (std::thread& upload : uploads) upload.join();
  EXPECT_GE(refused, 20);
  EXPECT_GE(disk.free_bytes(), kBound / 2) << "the log of the daemon grows a little too";
  EXPECT_TRUE(std::filesystem::exists(daemon->state() + "/control.reserve")) << "not given up";
  EXPECT_TRUE(daemon->op("status").is_object());
  EXPECT_EQ(daemon->log().find("\"disk full\""), std::string::npos) << daemon->log();
  EXPECT_EQ(daemon->end(SIGTERM), 0);
  daemon.reset();
}

TEST_F(StorageFull, ObjectStore_WhenAFileReachesItsSizeLimit_ReportsStorageFull) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{24 << 20, before.rlim_max};
  for (const char* min_free : {"storage.min_free_bytes=0", "storage.min_free_bytes=67108864"}) {
    SCOPED_TRACE(min_free);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    start({min_free, "storage.reserve_bytes=0"}, dir.path() + "/" + min_free);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(HasFatalFailure());
    make_key("k");
    const json full = fill("", 1 << 20);
    EXPECT_EQ(full["refused"], "storage_full") << full;
    EXPECT_TRUE(daemon->op("status").is_object());
    expect_key_is_taken_away("k");
    EXPECT_TRUE(daemon->runs()) << daemon->log();
    EXPECT_EQ(daemon->end(SIGTERM), 0) << daemon->log();
  }
}

}  // namespace
}  // namespace holdfast::process::storage_full_test
