// Goal: an operator's change made while no daemon runs holds after the next start, and means what
// it means online.
// Method: real processes on one state directory, stopped (SIGTERM) or killed (SIGKILL to all, by
// way of their supervisor) between the changes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "tests/process/test_server.h"

namespace holdfast::process::offline_test {
namespace {

const std::vector<std::string> kServe = {"--model", "demo=" + demo_model()};

std::string accept(client::Client& client, std::uint64_t seed) {
  wire::Submit submit = make_submit("Now is the winter", 40, seed);
  submit.priority = wire::PriorityClass::kNormal;
  const auto accepted = client.submit(client::Principal::local(), submit);
  const auto* info = std::get_if<wire::Accepted>(&accepted);
  EXPECT_NE(info, nullptr);
  return info == nullptr ? "" : info->info.request_id;
}

std::string state_of(const TestServer& server, const std::string& id) {
  const Ended show_result = server.cli({"--json", "requests", "show", id});
  const std::string key = "\"state\":\"";
  const std::size_t at = show_result.out.find(key);
  if (at == std::string::npos) return show_result.out + show_result.err;
  const std::size_t from = at + key.size();
  return show_result.out.substr(from, show_result.out.find('"', from) - from);
}

bool reaches(const TestServer& server, const std::string& id, const std::string& state) {
  for (int i = 0; i < 200; ++i) {
    if (state_of(server, id) == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

TEST(Offline, OfflineChange_AfterTheRestart_Holds) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  std::string cancelled, moved, left;
  {
    const auto client = server.client();
    left = accept(*client, 1);
    moved = accept(*client, 2);
    cancelled = accept(*client, 3);
  }
  ASSERT_EQ(server.stop(), 0) << server.errors();

  const Ended listed = server.cli({"--json", "requests", "list"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  for (const std::string& id : {left, moved, cancelled}) {
    EXPECT_NE(listed.out.find(id), std::string::npos) << listed.out;
  }
  const Ended cancel = server.cli({"--json", "requests", "cancel", cancelled});
  EXPECT_EQ(cancel.code, 0) << cancel.err;
  EXPECT_NE(cancel.out.find("\"state\":\"cancelled\""), std::string::npos) << cancel.out;
  const Ended move = server.cli({"--json", "requests", "move", moved, "--priority", "interactive"});
  EXPECT_EQ(move.code, 0) << move.err;
  EXPECT_NE(move.out.find("\"queue_position\":0"), std::string::npos) << move.out;
  EXPECT_EQ(server.cli({"requests", "move", cancelled, "--priority", "batch"}).code, 4);
  EXPECT_EQ(server.cli({"requests", "requeue", "no-such-id"}).code, 3);
  EXPECT_EQ(server.cli({"queue", "resume"}).code, 0);
  EXPECT_EQ(server.cli({"db", "check"}).code, 0);
  EXPECT_EQ(server.cli({"status"}).code, 69);
  EXPECT_EQ(server.cli({"models", "load", "demo"}).code, 69);

  ASSERT_TRUE(server.start(kServe)) << server.errors();
  EXPECT_TRUE(reaches(server, left, "succeeded")) << state_of(server, left);
  EXPECT_TRUE(reaches(server, moved, "succeeded")) << state_of(server, moved);
  EXPECT_EQ(state_of(server, cancelled), "cancelled");
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(Offline, RunningRequest_WhenCancelledOffline_StaysCancelled) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  std::string id;
  {
    const auto client = server.client();
    const auto accepted =
        client->submit(client::Principal::local(), make_submit("Now is the winter", 480, 5));
    id = std::get<wire::Accepted>(accepted).info.request_id;
    ASSERT_TRUE(reaches(server, id, "running") || state_of(server, id) == "succeeded");
  }
  server.kill_supervisor();  // its children die with it
  const Ended cancel = server.cli({"--json", "requests", "cancel", id});
  EXPECT_EQ(cancel.code, 0) << cancel.err;
  const std::string state = state_of(server, id);
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  EXPECT_EQ(state_of(server, id), state);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(Offline, Request_CancelledWhileTheDaemonGoesAway_IsCancelledInTheDatabase) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  const std::string id = accept(*server.client(), 1);
  // A stopped daemon's socket still takes connections, so the call waits for its answer.
  ASSERT_EQ(kill(server.pid_of("daemon"), SIGSTOP), 0);
  auto cancel = std::async(std::launch::async, [&] {
    return server.cli({"--json", "requests", "cancel", id});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  server.kill_supervisor();  // its children die with it
  const Ended ended = cancel.get();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("no daemon runs"), std::string::npos) << ended.err;
  EXPECT_EQ(state_of(server, id), "cancelled");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  EXPECT_EQ(state_of(server, id), "cancelled");
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(Offline, Backup_WhileServing_IsRestoredOffline) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  const std::string copy = dir.path() + "/copy.db";
  const auto client = server.client();
  const StreamResult before = submit_and_stream(*client, make_submit("Now is the winter", 20, 1));
  ASSERT_EQ(before.failure, "");
  const Ended backup = server.cli({"--json", "db", "backup", copy});
  EXPECT_EQ(backup.code, 0) << backup.err;
  EXPECT_NE(backup.out.find("\"ok\":true"), std::string::npos) << backup.out;
  const StreamResult after = submit_and_stream(*client, make_submit("Now is the winter", 20, 2));
  ASSERT_EQ(after.failure, "");
  const Ended refused = server.cli({"db", "restore", copy});
  EXPECT_EQ(refused.code, 4) << refused.out << refused.err;
  EXPECT_NE(refused.err.find(std::to_string(server.pid_of("daemon"))), std::string::npos)
      << refused.err;
  ASSERT_EQ(server.stop(), 0) << server.errors();
  EXPECT_EQ(server.cli({"db", "restore", copy}).code, 0);
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  EXPECT_EQ(state_of(server, before.info.request_id), "succeeded");
  EXPECT_EQ(server.cli({"requests", "show", after.info.request_id}).code, 3);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(Offline, Restore_ByRootForAServiceUser_LeavesFilesOfThatUser) {
  if (geteuid() != 0) GTEST_SKIP() << "wants root, which gives files to another user";
  constexpr uid_t kNobody = 65534;
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start(kServe)) << server.errors();
  const std::string copy = dir.path() + "/copy.db";
  ASSERT_EQ(server.cli({"db", "backup", copy}).code, 0);
  ASSERT_EQ(server.stop(), 0) << server.errors();
  ASSERT_EQ(chown(server.state().c_str(), kNobody, kNobody), 0);
  const Ended restored = server.cli({"db", "restore", copy});
  EXPECT_EQ(restored.code, 0) << restored.err;
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(server.state())) {
    const std::string name = entry.path().filename().string();
    if (name != "control.db" && !name.starts_with("before-restore-")) continue;
    struct stat info {};
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, kNobody) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 3);  // the database, the folder of the one before, and that
}

}  // namespace
}  // namespace holdfast::process::offline_test
