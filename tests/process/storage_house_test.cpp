// Goal: the supervisor gives up a daemon that refuses its database, and says of a child that is
// down that it has no pid, on a full disk too.
// Method: a whole house, or the supervisor's file alone.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/state_dir.h"
#include "tests/process/house.h"
#include "tests/process/small_disk.h"

namespace holdfast::process::storage_house_test {
namespace {

using nlohmann::json;

TEST(StorageHouse, ADaemonThatRefusesItsDatabaseIsGivenUp) {
  const TempDir dir;
  House house(dir.path() + "/state");
  ASSERT_TRUE(house.start({"--engine", "fake"})) << house.errors();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((house.state() + "/control.db").c_str(), &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 5000);
  EXPECT_EQ(sqlite3_exec(db, "PRAGMA user_version = -1", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  ASSERT_TRUE(house.kill_child("daemon"));
  const std::string stat = "/proc/" + std::to_string(house.supervisor_pid()) + "/stat";
  bool ended = false;
  for (int i = 0; i < 600 && !ended; ++i) {
    ended = read_file(stat).find(") Z") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(ended) << house.errors();
  EXPECT_EQ(house.stop(), 1);
  EXPECT_NE(house.errors().find("its schema version is -1"), std::string::npos) << house.errors();
}

TEST(StorageHouse, AChildThatIsDownHasNoPid) {
  const json document =
      json::parse(cli::supervisor_json("", {{"daemon", "daemon", 0, 3}, {"worker", "w", 42, 0}}));
  EXPECT_TRUE(document["children"][0]["pid"].is_null()) << document;
  EXPECT_EQ(document["children"][1]["pid"], 42);
  // It is written over the old one where there is no room for a new one.
  const TempDir dir;
  const SmallDisk disk(dir.path() + "/disk", "1m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  const std::string path = disk.path() + "/supervisor.json";
  ASSERT_TRUE(cli::write_json_file(path, R"({"long":")" + std::string(3000, 'x') + "\"}"));
  disk.fill(0);
  ASSERT_TRUE(cli::write_json_file(path, document.dump()));
  EXPECT_EQ(json::parse(read_file(path)), document);
}

}  // namespace
}  // namespace holdfast::process::storage_house_test
