// Goal: at a start a machine finds its part of a pair, and no start loses a database: not that of a
// machine that never was of the pair, not by a copy that is taken for the original, not by a kill
// in the middle of a takeover. Method: state directories with databases and notes, a record in
// memory.
#include "control/replication/role.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>

#include "control/replication/standby_note.h"
#include "control/store/disk.h"
#include "tests/store/memory_record.h"
#include "tests/store/temp_state.h"

namespace holdfast::replication::role_test {
namespace {

class RoleTest : public testing::Test {
 protected:
  Result<PairRole> find(RecordStore* record, const std::string& primary = {}) {
    PairPlan plan;
    plan.state_dir = state_.dir();
    plan.url = "tcp://me:1";
    plan.primary = primary;
    return find_role(plan, record, system_clock(), stop_, probe_);
  }
  void make_database() const { (void)store::open_store(state_.dir()); }
  void make_note(bool is_standby, bool complete, const std::string& boot) const {
    StandbyNote note;
    note.is_standby = is_standby;
    note.complete = complete;
    note.primary = "tcp://other:1";
    note.term = 4;
    note.boot = boot;
    ASSERT_TRUE(write_standby_note(state_.dir(), note).has_value());
  }
  static std::string this_boot() { return store::real_disk().boot_id(); }

  const store::TempState state_;
  std::atomic<bool> stop_{false};
  ProbeAnswer probe_;
};

TEST_F(RoleTest, Machine_WithoutAPair_IsThePrimaryOfTermZero) {
  const auto role = find(nullptr);
  ASSERT_TRUE(role.has_value());
  EXPECT_TRUE(role->is_primary);
  EXPECT_EQ(role->term, 0u);
}

TEST_F(RoleTest, FirstMachine_OfARecord_IsThePrimaryAndNotesIt) {
  MemoryRecord record;
  make_database();
  const auto role = find(&record);
  ASSERT_TRUE(role.has_value()) << role.error().what;
  EXPECT_TRUE(role->is_primary);
  EXPECT_EQ(record.now.record, (Record{1, "tcp://me:1", ""}));
  EXPECT_FALSE(read_standby_note(state_.dir())->is_standby);
}

TEST_F(RoleTest, MachineWithADatabaseOfItsOwn_WhereAnotherIsPrimary_IsRefused) {
  MemoryRecord record(Record{1, "tcp://other:1", ""});
  make_database();
  const auto role = find(&record);
  ASSERT_FALSE(role.has_value());
  EXPECT_EQ(role.error().code, Errc::kConflict);
  EXPECT_NE(role.error().what.find("never was of this pair"), std::string::npos);
}

TEST_F(RoleTest, FormerPrimary_WhereAnotherIsPrimary_NeedsItsKeyToBeTheStandby) {
  MemoryRecord record(Record{5, "tcp://other:1", ""});
  make_database();
  make_note(/*is_standby=*/false, false, this_boot());
  const auto role = find(&record);
  ASSERT_FALSE(role.has_value());
  EXPECT_EQ(role.error().code, Errc::kUsage);
  EXPECT_NE(role.error().what.find("--standby-key"), std::string::npos) << role.error().what;
}

TEST_F(RoleTest, Copy_WhereNoRecordIs_MakesNone) {
  MemoryRecord record;
  make_database();
  make_note(/*is_standby=*/true, true, this_boot());
  stop_ = true;
  const auto role = find(&record);
  ASSERT_TRUE(role.has_value());
  EXPECT_FALSE(role->is_primary);
  EXPECT_EQ(record.now.version, 0);
}

TEST_F(RoleTest, Takeover_ThatWasKilledAfterTheRecord_IsEnded) {
  MemoryRecord record(Record{5, "tcp://me:1", ""});
  make_database();
  make_note(/*is_standby=*/true, true, this_boot());
  const auto role = find(&record);
  ASSERT_TRUE(role.has_value()) << role.error().what;
  EXPECT_TRUE(role->is_primary);
  EXPECT_EQ(role->term, 5u);
  EXPECT_FALSE(read_standby_note(state_.dir())->is_standby);
}

TEST_F(RoleTest, Copy_ThatIsNotWholeOrNotSynced_IsNotThePrimary) {
  for (const auto& [complete, boot] :
       {std::pair(false, this_boot()), std::pair(true, std::string("another boot"))}) {
    MemoryRecord record(Record{5, "tcp://me:1", ""});
    make_database();
    make_note(/*is_standby=*/true, complete, boot);
    const auto role = find(&record);
    ASSERT_FALSE(role.has_value());
    EXPECT_EQ(role.error().code, Errc::kCorrupt);
    EXPECT_TRUE(read_standby_note(state_.dir())->is_standby);
  }
}

TEST_F(RoleTest, RecordsMachine_WithoutItsDatabase_IsRefused) {
  MemoryRecord record(Record{2, "tcp://me:1", ""});
  EXPECT_EQ(find(&record).error().code, Errc::kCorrupt);
}

TEST_F(RoleTest, Plan_WithWhatDoesNotGoTogether_IsRefused) {
  PairPlan plan;
  EXPECT_TRUE(check_plan(plan).has_value());
  plan.primary = "tcp://other:1";
  EXPECT_FALSE(check_plan(plan).has_value()) << "without a listener";
  plan.url = "tcp://me:1";
  EXPECT_TRUE(check_plan(plan).has_value());
  plan.record = "http://etcd:2379/k";
  EXPECT_FALSE(check_plan(plan).has_value()) << "two that say who is the primary";
  plan.primary = plan.url;
  plan.record.clear();
  EXPECT_FALSE(check_plan(plan).has_value()) << "itself";
}

}  // namespace
}  // namespace holdfast::replication::role_test
