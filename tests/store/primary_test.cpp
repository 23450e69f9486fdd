// Goal: a primary sends a standby all of its database and then each change, waits for it only once
// it is a full copy, and lets no promise go while the record may have a standby that is not there.
// Method: a store of its own with the primary at its disk; the standby's messages are made here.
#include "control/replication/primary.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "control/replication/record_thread.h"
#include "control/store/store.h"
#include "shared/base/clock.h"
#include "tests/store/memory_record.h"
#include "tests/store/temp_state.h"

namespace holdfast::replication::primary_test {
namespace {

constexpr core::PeerId kPeer = 7;
constexpr std::int64_t kSilenceUs = 500'000;

class PrimaryTest : public testing::Test {
 protected:
  /// `record`: the pair has one; its answers are in `calls_`.
  void open(bool record = false, const std::string& in_step = {}) {
    store::OpenOptions options;
    options.state_dir = state_.dir();
    options.disk = &disk_;
    store_ = store::Store::open(options).value();
    now_us_ = system_clock().monotonic_us();  // changes are sent by that clock
    PrimaryOptions pair;
    pair.url = "tcp://one:1";
    pair.term = 3;
    pair.in_step = in_step;
    if (record) pair.record = &calls_;
    primary_.emplace(std::move(pair), disk_, [this](core::PeerId, const wire::Message& message) {
      sent_.push_back(std::get<wire::Ship>(message));
      return gone_ ? wire::SendStatus::kGone : wire::SendStatus::kSent;
    });
  }
  void hello(std::uint64_t term = 0) {
    hello_ = primary_->hello(kPeer, {"tcp://two:1", term}, now_us_).has_value();
  }
  void confirm_all() {
    if (!sent_.empty()) primary_->shipped(kPeer, {3, sent_.back().number}, now_us_);
  }
  /// Ticks and confirms until the standby has the database.
  void copy() {
    hello();
    for (int i = 0; i < 200 && !primary_->must_wait(); ++i) tick_and_confirm();
    ASSERT_TRUE(primary_->must_wait());
  }
  void tick() {
    now_us_ += 1'000;
    ASSERT_TRUE(primary_->tick(now_us_).has_value());
  }
  void tick_and_confirm() {
    tick();
    confirm_all();
  }
  /// Ticks until the record's store has been asked and the answer was taken.
  void await_record() {
    for (int i = 0; i < 400 && calls_.under_way(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      now_us_ = system_clock().monotonic_us();
      ASSERT_TRUE(primary_->tick(now_us_).has_value());
    }
    ASSERT_FALSE(calls_.under_way());
  }
  void commit_one(core::Seq seq) {
    store::commit(*store_, {store::request_row(seq)});
    primary_->flush(now_us_);
  }

  MemoryRecord record_{Record{3, "tcp://one:1", ""}};
  RecordThread calls_{record_, [] {}};
  const store::TempState state_;
  ShippingDisk disk_{state_.dir()};
  std::unique_ptr<store::Store> store_;
  std::optional<Primary> primary_;
  std::vector<wire::Ship> sent_;
  std::int64_t now_us_ = 0;
  bool gone_ = false;
  bool hello_ = false;
};

TEST_F(PrimaryTest, Commits_WithoutAStandby_AreNotWaitedFor) {
  open();
  commit_one(1);
  EXPECT_TRUE(sent_.empty());
  EXPECT_FALSE(primary_->must_wait());
  EXPECT_TRUE(primary_->may_answer());
  EXPECT_EQ(primary_->status().state, "alone");
}

TEST_F(PrimaryTest, Messages_OfACopy_AreCountedAndEndComplete) {
  open();
  commit_one(1);
  copy();
  ASSERT_GE(sent_.size(), 3u);
  EXPECT_EQ(sent_.front().kind, wire::ShipKind::kBegin);
  EXPECT_EQ(sent_.back().kind, wire::ShipKind::kComplete);
  for (std::size_t i = 1; i < sent_.size(); ++i)
    EXPECT_EQ(sent_[i].number, sent_[i - 1].number + 1);
  EXPECT_EQ(primary_->status().state, "in_step");
}

TEST_F(PrimaryTest, Commit_InStep_WaitsForTheStandby) {
  open();
  copy();
  commit_one(1);
  EXPECT_FALSE(primary_->confirmed());
  EXPECT_TRUE(sent_.back().in_step);
  EXPECT_FALSE(sent_.back().sync);
  confirm_all();
  EXPECT_TRUE(primary_->confirmed());
}

TEST_F(PrimaryTest, SyncedKnob_WhenSet_HasTheStandbySync) {
  open();
  copy();
  primary_->set_rules(/*strict=*/false, /*synced=*/true, kSilenceUs);
  commit_one(1);
  EXPECT_TRUE(sent_.back().sync);
}

TEST_F(PrimaryTest, Standby_ThatConfirmsNothing_IsLeftOut) {
  open();
  copy();
  commit_one(1);
  now_us_ += 20 * kSilenceUs;
  ASSERT_TRUE(primary_->tick(now_us_).has_value());
  EXPECT_FALSE(primary_->must_wait());
  EXPECT_TRUE(primary_->may_answer()) << "without a record it goes on alone";
}

TEST_F(PrimaryTest, StrictKnob_WithoutAStandby_LetsNoPromiseGo) {
  open();
  primary_->set_rules(/*strict=*/true, /*synced=*/false, kSilenceUs);
  EXPECT_FALSE(primary_->may_answer());
  copy();
  EXPECT_TRUE(primary_->may_answer());
  primary_->give_up("it is lost");
  EXPECT_FALSE(primary_->may_answer());
}

TEST_F(PrimaryTest, Standby_OfALaterTerm_EndsThePrimary) {
  open();
  hello(4);
  EXPECT_FALSE(hello_);
  hello(3);
  EXPECT_TRUE(hello_);
}

TEST_F(PrimaryTest, Record_WhileGroupsBeforeAreUnconfirmed_DoesNotHaveTheStandby) {
  open(/*record=*/true);
  hello();
  for (tick(); sent_.back().kind != wire::ShipKind::kComplete; tick()) confirm_all();
  const std::uint64_t complete = sent_.back().number;
  commit_one(1);
  EXPECT_FALSE(primary_->must_wait()) << "it is answered without the standby";
  primary_->shipped(kPeer, {3, complete}, now_us_);
  EXPECT_TRUE(primary_->must_wait()) << "from here on answers wait";
  tick();
  EXPECT_FALSE(calls_.under_way()) << "the standby does not have the group before";
  confirm_all();
  tick();
  EXPECT_TRUE(calls_.under_way());
  await_record();
  EXPECT_EQ(record_.now.record.in_step, "tcp://two:1");
}

TEST_F(PrimaryTest, Standby_ThatTheRecordHas_HoldsPromisesUntilItIsRemoved) {
  record_.now.record.in_step = "tcp://two:1";
  record_.away = true;
  open(/*record=*/true, "tcp://two:1");
  EXPECT_FALSE(primary_->may_answer()) << "the record has a standby that is not there";
  tick();
  await_record();
  EXPECT_FALSE(primary_->may_answer()) << "nobody knows what the record says";
  record_.away = false;
  now_us_ += 1'000'000;
  tick();
  await_record();
  EXPECT_TRUE(primary_->may_answer());
  EXPECT_EQ(record_.now.record.in_step, "");
}

TEST_F(PrimaryTest, AnotherStandby_WhileTheRecordHasOne_LetsNoPromiseGo) {
  record_.now.record.in_step = "tcp://three:1";
  record_.away = true;
  open(/*record=*/true, "tcp://three:1");
  hello();
  for (int i = 0; i < 50; ++i) tick_and_confirm();
  await_record();
  EXPECT_FALSE(primary_->may_answer()) << "the other one could take over without what is told";
}

TEST_F(PrimaryTest, HandOver_InStep_IsTheLastMessage) {
  open();
  EXPECT_FALSE(primary_->hand_over(now_us_));
  copy();
  EXPECT_TRUE(primary_->hand_over(now_us_));
  EXPECT_EQ(sent_.back().kind, wire::ShipKind::kTakeOver);
  EXPECT_FALSE(primary_->is_followed());
  confirm_all();
  EXPECT_TRUE(primary_->is_followed());
}

TEST_F(PrimaryTest, Answers_OfAnotherPeerOrTerm_CountForNothing) {
  open();
  copy();
  commit_one(1);
  primary_->shipped(kPeer + 1, {3, sent_.back().number}, now_us_);
  primary_->shipped(kPeer, {2, sent_.back().number}, now_us_);
  primary_->shipped(kPeer, {3, sent_.back().number + 5}, now_us_);
  EXPECT_FALSE(primary_->confirmed());
}

}  // namespace
}  // namespace holdfast::replication::primary_test
