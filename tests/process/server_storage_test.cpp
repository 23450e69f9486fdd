// Goal: the supervisor gives up a daemon that refuses its database, and shows a child that is down
// without a pid, on a full disk too. Method: a whole server, or the supervisor's file alone.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/serve/state_dir.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::server_storage_test {
namespace {

using nlohmann::json;

TEST(ServerStorage, Supervisor_WhenTheDaemonRefusesItsDatabase_GivesUp) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--engine", "fake"})) << server.errors();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((server.state() + "/control.db").c_str(), &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 5000);
  EXPECT_EQ(sqlite3_exec(db, "PRAGMA user_version = -1", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  ASSERT_TRUE(server.kill_child("daemon"));
  const std::string stat = "/proc/" + std::to_string(server.supervisor_pid()) + "/stat";
  bool ended = false;
  for (int i = 0; i < 600 && !ended; ++i) {
    ended = read_file(stat).find(") Z") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(ended) << server.errors();
  EXPECT_EQ(server.stop(), 1);
  EXPECT_NE(server.errors().find("its schema version is -1"), std::string::npos) << server.errors();
}

TEST(ServerStorage, SupervisorFile_WhenAChildIsDown_HasNoPidForIt) {
  const json document =
      json::parse(cli::supervisor_json("", {{"daemon", "daemon", 0, 3}, {"worker", "w", 42, 0}}));
  EXPECT_TRUE(document["children"][0]["pid"].is_null()) << document;
  EXPECT_EQ(document["children"][1]["pid"], 42);
  // The old file is overwritten where there is no space for a new one.
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
}  // namespace holdfast::process::server_storage_test
