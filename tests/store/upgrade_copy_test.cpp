// Goal: an upgrade of the schema leaves a copy of the database as it was, three of them at most; it
// begins nothing without room for that; and an older program that meets the newer schema names the
// copy.
// Method: real files of an older schema, on a disk whose free space and clock the test sets.
#include "control/store/upgrade_copy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "control/store/check.h"
#include "control/store/migrations.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::upgrade_copy_test {
namespace {

constexpr int kOlder = 6;

/// The machine's own disk, with free space and time of the test.
class TestDisk final : public Disk {
 public:
  std::int64_t free = std::int64_t{1} << 40;
  std::int64_t growth = INT64_MAX;
  std::int64_t now_ms = 1'795'840'000'000;  // 2026-11-28
  const char* vfs() const override { return nullptr; }
  bool is_machines() const override { return true; }
  Result<void> rewrite(const std::string& path) override { return real_disk().rewrite(path); }
  Result<void> sync_directory(const std::string& dir) override {
    return real_disk().sync_directory(dir);
  }
  std::int64_t free_bytes(const std::string&) override { return free; }
  std::int64_t growth_allowed(const std::string&) override { return growth; }
  bool remove(const std::string& path) override { return real_disk().remove(path); }
  void allocate(const std::string&, std::int64_t) override {}
  void pause_ms(int ms) override { real_disk().pause_ms(ms); }
  std::int64_t wall_ms() override { return now_ms; }
  std::string boot_id() override { return "boot"; }
};

/// Makes a database of the older schema, with one flag.
void make_older(const TempState& state) {
  std::string sql = "BEGIN;";
  for (int v = 0; v < kOlder; ++v) sql += migrations()[v];
  sql += "INSERT INTO flags(name, value) VALUES ('mine', 'kept');PRAGMA application_id=" +
         std::to_string(kApplicationId) + ";PRAGMA user_version=" + std::to_string(kOlder) +
         ";COMMIT";
  run_sql(state.db(), sql);
}

Result<std::unique_ptr<Store>> open_on(const TempState& state, TestDisk& disk) {
  OpenOptions options;
  options.state_dir = state.dir();
  options.disk = &disk;
  return Store::open(options);
}

TEST(UpgradeCopy, Upgrade_FromAnOlderSchema_LeavesTheDatabaseAsItWas) {
  const TempState state;
  make_older(state);
  TestDisk disk;
  ASSERT_TRUE(open_on(state, disk));
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), std::to_string(schema_version()));
  const std::vector<UpgradeCopy> copies = upgrade_copies(state.dir());
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].schema, kOlder);
  EXPECT_EQ(copies[0].path, state.dir() + "/control.schema-6.20261128T042640Z.db");
  EXPECT_EQ(read_sql(copies[0].path, "PRAGMA user_version"), "6");
  EXPECT_EQ(read_sql(copies[0].path, "SELECT value FROM flags"), "kept");
  EXPECT_TRUE(check_file(copies[0].path));
  struct stat info {};
  ASSERT_EQ(stat(copies[0].path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST(UpgradeCopy, Start_WithoutAnUpgrade_LeavesNone) {
  const TempState state;
  TestDisk disk;
  ASSERT_TRUE(open_on(state, disk)) << "a new database";
  ASSERT_TRUE(open_on(state, disk)) << "a current one";
  EXPECT_TRUE(upgrade_copies(state.dir()).empty());
}

TEST(UpgradeCopy, Upgrade_WithoutSpaceForTheCopy_ChangesNothing) {
  const TempState state;
  make_older(state);
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(state.db()));
  const std::int64_t needed = 2 * bytes + (std::int64_t{16} << 20);
  TestDisk disk;
  disk.free = needed - 1;
  const auto full = open_on(state, disk);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kDiskFull);
  EXPECT_NE(full.error().what.find(std::to_string(needed) + " bytes"), std::string::npos)
      << full.error().what;
  disk.free = needed;
  disk.growth = bytes - 1;
  const auto limited = open_on(state, disk);
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, Errc::kDiskFull);
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), "6");
  EXPECT_TRUE(upgrade_copies(state.dir()).empty());
  disk.growth = bytes;
  EXPECT_TRUE(open_on(state, disk));
}

TEST(UpgradeCopy, Migration_WhenAStepFails_LeavesTheOldSchemaAndNoCopy) {
  const TempState state;
  make_older(state);
  // The last step's first change meets a column of its name; the steps before it would work.
  run_sql(state.db(), "ALTER TABLE epochs ADD COLUMN checksum INTEGER");
  TestDisk disk;
  ASSERT_FALSE(open_on(state, disk));
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), "6");
  EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM sqlite_schema WHERE name='secrets'"), "0")
      << "all steps are one transaction";
  EXPECT_TRUE(upgrade_copies(state.dir()).empty());
}

TEST(UpgradeCopy, Copies_BeyondTheBound_AreTheOldestThatGo) {
  const TempState state;
  TestDisk disk;
  std::vector<std::string> made;
  for (int i = 0; i < 5; ++i) {
    std::filesystem::remove(state.db());
    make_older(state);
    // Two of one second have names of their own.
    if (i != 3) disk.now_ms += 1'000;
    ASSERT_TRUE(open_on(state, disk));
    made.push_back(upgrade_copies(state.dir()).front().path);
  }
  const std::vector<UpgradeCopy> left = upgrade_copies(state.dir());
  ASSERT_EQ(left.size(), kUpgradeCopies);
  EXPECT_EQ(left.front().path, made.back());
  EXPECT_FALSE(std::filesystem::exists(made[0]));
  EXPECT_FALSE(std::filesystem::exists(made[1]));
}

TEST(UpgradeCopy, NewerSchema_WithACopyThatFits_NamesItAndTheCommand) {
  const TempState state;
  make_older(state);
  TestDisk disk;
  ASSERT_TRUE(open_on(state, disk));
  run_sql(state.db(), "PRAGMA user_version=999");
  // A newer copy is of a schema that this program does not know either.
  const std::string newest = state.dir() + "/control.schema-998.20991231T000000Z.db";
  run_sql(newest, "PRAGMA user_version=998");
  const auto refused = open_on(state, disk);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kVersionNewer);
  EXPECT_NE(refused.error().what.find("`holdfast --state " + state.dir() + " db restore " +
                                      state.dir() + "/control.schema-6."),
            std::string::npos)
      << refused.error().what;
  for (const UpgradeCopy& copy : upgrade_copies(state.dir())) std::filesystem::remove(copy.path);
  EXPECT_NE(open_on(state, disk).error().what.find("no copy of schema"), std::string::npos);
}

TEST(UpgradeCopy, FilesOfSuchNames_ThatAreNoDatabase_AreNoCopies) {
  const TempState state;
  for (const char* name : {"control.schema-6.db", "control.schema-6.T.db", "control.schema-.db",
                           "control.schema-6.20261128T044640Z.db.part"}) {
    run_sql(state.dir() + "/other.db", "PRAGMA user_version=6");
    std::filesystem::copy_file("/proc/self/status", state.dir() + "/" + name);
  }
  EXPECT_TRUE(upgrade_copies(state.dir()).empty());
}

}  // namespace
}  // namespace holdfast::store::upgrade_copy_test
