// Goal: an operator's key on another machine gets a whole, checked copy of the database, whatever
// happens to the link, to the daemon or to the disk of the caller; nobody else does, and nothing is
// left on either side. Method: a server with its listener on loopback, the command line with
// HOLDFAST_URL through a relay that cuts in the middle; the copy is restored and compared.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/base/base64.h"
#include "tests/process/cluster_node.h"
#include "tests/process/cut_relay.h"
#include "tests/process/running.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::backup_elsewhere_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

constexpr int kObjects = 24;
constexpr int kObjectBytes = 512 << 10;
constexpr std::int64_t kMiddle = std::int64_t{kObjects} * kObjectBytes / 2;
constexpr const char* kMade = "a copy of the database is made for an operator";

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

class BackupElsewhere : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.start(listening({"--engine", "fake"}))) << server.errors();
    key = make_key({"client", "create", "op", "--role", "operator"});
    for (int i = 0; i < kObjects; ++i) put(i);
  }

  std::string make_key(Words args) const {
    std::string file = dir.path() + "/" + args.back() + "-" + args[2] + ".key";
    args.insert(args.begin(), "keys");
    args.insert(args.end(), {"--out", file});
    const Ended made = server.cli(args);
    EXPECT_EQ(made.code, 0) << made.err;
    return file;
  }
  void put(int number) const {
    const std::string content(kObjectBytes, static_cast<char>('a' + number));
    const json args = {{"kind", "file"},
                       {"id", std::to_string(number)},
                       {"body", json::object()},
                       {"append", to_base64(content)}};
    const auto answer =
        server.operator_client()->op(client::AllTenants::local(), "objects.put", args.dump());
    ASSERT_TRUE(std::holds_alternative<std::string>(answer));
  }
  /// The command line of another machine.
  Words command(const std::string& url, const std::string& key_file, const Words& args) const {
    Words all = {"/usr/bin/env", "HOLDFAST_URL=" + url, "HOLDFAST_KEY_FILE=" + key_file,
                 std::string(HOLDFAST_BIN_DIR) + "/holdfast"};
    all.insert(all.end(), args.begin(), args.end());
    return all;
  }
  Ended elsewhere(const Words& args) const {
    return run_program(command(listener_of(server), key, args));
  }
  /// Rows by table, of a state directory.
  static json rows_of(const TestServer& of) {
    return json::parse(of.cli({"--json", "db", "stats"}).out, nullptr, false)["rows"];
  }
  std::string daemon_log() const { return read_file(server.state() + "/logs/daemon.log"); }
  /// Names of what a copy in the making leaves at the server.
  std::string leftovers() const {
    std::string names;
    for (const auto& entry : fs::directory_iterator(server.state())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("outgoing") || name.find("backup-") != std::string::npos) names += name;
    }
    return names;
  }
  void expect_whole(const std::string& file) const {
    const Ended checked =
        run_program({"holdfast", "--state", dir.path(), "--json", "db", "check", file});
    EXPECT_EQ(checked.code, 0) << checked.err;
    EXPECT_GE(json::parse(checked.out, nullptr, false).value("objects_checked", 0), kObjects);
    EXPECT_FALSE(fs::exists(file + ".part"));
    EXPECT_EQ(leftovers(), "");
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::string key;
  const std::string copy{dir.path() + "/copy.db"};
};

TEST_F(BackupElsewhere, Backup_OverTheListener_IsRestoredAsTheSameDatabase) {
  const Ended made = elsewhere({"--json", "db", "backup", copy});
  ASSERT_EQ(made.code, 0) << made.err;
  const json document = json::parse(made.out, nullptr, false);
  EXPECT_EQ(document["path"], copy);
  EXPECT_EQ(document["bytes"], fs::file_size(copy));
  EXPECT_EQ(document["sha256"].get<std::string>().size(), 64u);
  EXPECT_TRUE(document["check"]["ok"]);
  EXPECT_EQ(fs::status(copy).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  expect_whole(copy);

  const json rows = rows_of(server);
  ASSERT_GE(rows["objects"], kObjects);
  TestServer restored(dir.path() + "/restored");
  const Ended put_back = restored.cli({"db", "restore", copy});
  ASSERT_EQ(put_back.code, 0) << put_back.err;
  json same = rows_of(restored);
  // The restore itself begins an epoch.
  same["epochs"] = rows["epochs"];
  EXPECT_EQ(same, rows);
  ASSERT_TRUE(restored.start(listening({"--engine", "fake"}))) << restored.errors();
  EXPECT_EQ(restored.stop(), 0);

  const Ended again = elsewhere({"db", "backup", copy});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("the file exists; choose another name"), std::string::npos) << again.err;
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_ToStandardOutput_IsWhole) {
  const auto through_a_pipe = [&](const std::string& variables, const std::string& to) {
    return run_program(
        {"/bin/sh", "-c",
         variables + " " + HOLDFAST_BIN_DIR + "/holdfast db backup - | cat > " + to});
  };
  const std::string far = dir.path() + "/far.db", near = dir.path() + "/near.db";
  const Ended over_the_network =
      through_a_pipe("HOLDFAST_URL=" + listener_of(server) + " HOLDFAST_KEY_FILE=" + key, far);
  EXPECT_EQ(over_the_network.code, 0) << over_the_network.err;
  expect_whole(far);
  EXPECT_EQ(through_a_pipe("HOLDFAST_STATE=" + server.state(), near).code, 0);
  expect_whole(near);
  EXPECT_EQ(elsewhere({"--json", "db", "backup", "-"}).code, 2);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_WhenTheLinkIsCutInTheMiddle_GoesOnWhereItWas) {
  CutRelay relay(listener_of(server));
  relay.cut_after(kMiddle);
  Running backup(command(relay.url(), key, {"db", "backup", copy}), dir.path() + "/said");
  ASSERT_TRUE(backup.says("waiting for the server", 60)) << backup.output();
  EXPECT_TRUE(relay.is_cut());
  EXPECT_EQ(server.cli({"status"}).code, 0) << "the daemon serves meanwhile";
  // Another one has to wait for this one: a copy takes the space of the database.
  const Ended other = elsewhere({"db", "backup", dir.path() + "/other.db"});
  EXPECT_EQ(other.code, 4);
  EXPECT_NE(other.err.find("another copy is being taken"), std::string::npos) << other.err;
  relay.mend();
  EXPECT_EQ(backup.end(0, 120), 0) << backup.output();
  expect_whole(copy);
  EXPECT_EQ(count_of(daemon_log(), kMade), 1u) << "the same copy was read on";
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_WhenTheDaemonDiesInTheMiddle_BeginsAnew) {
  CutRelay relay(listener_of(server));
  relay.cut_after(kMiddle);
  Running backup(command(relay.url(), key, {"db", "backup", copy}), dir.path() + "/said");
  ASSERT_TRUE(backup.says("waiting for the server", 60)) << backup.output();
  EXPECT_TRUE(fs::exists(copy + ".part"));
  EXPECT_FALSE(fs::exists(copy));
  ASSERT_TRUE(server.kill_child("daemon"));
  put(kObjects);  // by the daemon that was started again
  EXPECT_EQ(leftovers(), "");
  relay.mend();
  EXPECT_EQ(backup.end(0, 120), 0) << backup.output();
  expect_whole(copy);
  EXPECT_EQ(count_of(daemon_log(), kMade), 2u);
  const Ended checked =
      run_program({"holdfast", "--state", dir.path(), "--json", "db", "check", copy});
  EXPECT_GT(json::parse(checked.out, nullptr, false).value("objects_checked", 0), kObjects)
      << "the second copy, with what was written since";
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_WithoutAnOperatorsKey_IsRefusedAndLeavesNothing) {
  for (const Words& role : std::vector<Words>{{"client", "create", "shop"},
                                              {"client", "create", "front", "--role", "gateway"},
                                              {"client", "create", "pair", "--role", "standby"}}) {
    const std::string other = make_key(role);
    const Ended refused = run_program(command(listener_of(server), other, {"db", "backup", copy}));
    EXPECT_EQ(refused.code, 4) << role.back() << refused.err;
    EXPECT_NE(refused.err.find("db.copy"), std::string::npos) << refused.err;
    EXPECT_FALSE(fs::exists(copy));
    EXPECT_FALSE(fs::exists(copy + ".part"));
  }
  EXPECT_EQ(count_of(daemon_log(), kMade), 0u);
  // Not over HTTP, whose keys are others.
  const Ended http = run_program(command("http://127.0.0.1:1", key, {"db", "backup", copy}));
  EXPECT_EQ(http.code, 2);
  EXPECT_NE(http.err.find("tcp://HOST:PORT"), std::string::npos) << http.err;
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_WhenTheCallersDiskIsFull_SaysSoAndLeavesNothing) {
  const Ended printed =
      run_program({"/bin/sh", "-c",
                   "HOLDFAST_URL=" + listener_of(server) + " HOLDFAST_KEY_FILE=" + key + " " +
                       HOLDFAST_BIN_DIR + "/holdfast db backup - > /dev/full"});
  EXPECT_EQ(printed.code, 1) << printed.err;
  EXPECT_NE(printed.err.find("standard output: No space left"), std::string::npos) << printed.err;
  // A bound of the process, which no question about free space finds.
  const Ended bounded = run_program(
      {"/bin/sh", "-c",
       "ulimit -f 4096; trap '' XFSZ; HOLDFAST_URL=" + listener_of(server) +
           " HOLDFAST_KEY_FILE=" + key + " " + HOLDFAST_BIN_DIR + "/holdfast db backup " + copy});
  EXPECT_EQ(bounded.code, 1) << bounded.err;
  EXPECT_NE(bounded.err.find(copy + ".part"), std::string::npos) << bounded.err;
  EXPECT_FALSE(fs::exists(copy + ".part"));
  const SmallDisk disk(dir.path() + "/disk", "4m");
  if (disk.why_not().empty()) {
    const std::string there = disk.path() + "/copy.db";
    const Ended full = elsewhere({"db", "backup", there});
    EXPECT_EQ(full.code, 1) << full.err;
    EXPECT_NE(full.err.find("free some, or choose another folder"), std::string::npos) << full.err;
    EXPECT_FALSE(fs::exists(there));
    EXPECT_FALSE(fs::exists(there + ".part"));
  }
  // The next call finds nothing of those before in its way.
  EXPECT_EQ(elsewhere({"db", "backup", copy}).code, 0);
  expect_whole(copy);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BackupElsewhere, Backup_WhenInterrupted_LeavesNothingOnEitherSide) {
  CutRelay relay(listener_of(server));
  relay.cut_after(kMiddle);
  Running backup(command(relay.url(), key, {"db", "backup", copy}), dir.path() + "/said");
  ASSERT_TRUE(backup.says("waiting for the server", 60)) << backup.output();
  relay.mend();
  EXPECT_NE(backup.end(SIGINT, 60), -SIGINT) << backup.output();
  EXPECT_FALSE(fs::exists(copy + ".part"));
  EXPECT_EQ(leftovers(), "");
  EXPECT_EQ(elsewhere({"db", "backup", dir.path() + "/next.db"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::backup_elsewhere_test
