// Goal: a standby confirms only what it has, takes over only by the record and only with a whole
// copy, and writes nothing of its former primary after that.
// Method: messages and times by hand; a record in memory whose calls are answered at once, or not.
#include "control/replication/follower.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/store/memory_record.h"
#include "tests/store/temp_state.h"

namespace holdfast::replication::follower_test {
namespace {

constexpr std::int64_t kMs = 1'000;

/// Calls that are carried out at once; their answers come when the test says.
class HeldCalls final : public RecordCalls {
 public:
  explicit HeldCalls(RecordStore& store) : store_(store) {}
  void start(Call call) override { answer_ = call(store_); }
  bool under_way() const override { return answer_.has_value(); }
  std::optional<RecordAnswer> take() override {
    if (!arrives) return std::nullopt;
    return std::exchange(answer_, std::nullopt);
  }
  bool arrives = true;

 private:
  RecordStore& store_;
  std::optional<RecordAnswer> answer_;
};

class FollowerTest : public testing::Test {
 protected:
  void start() {
    FollowerOptions options;
    options.state_dir = state_.dir();
    options.url = "tcp://two:1";
    options.primary = "tcp://one:1";
    options.term = 3;
    options.record = &calls_;
    follower_.emplace(
        std::move(options), [this](const wire::Message& message) { sent_.push_back(message); },
        now_us_);
  }
  void take(wire::ShipKind kind, std::uint64_t number, std::uint64_t term = 3) {
    wire::Ship ship;
    ship.term = term;
    ship.number = number;
    ship.kind = kind;
    ASSERT_TRUE(follower_->take(ship, now_us_).has_value());
  }
  void copy() {
    take(wire::ShipKind::kBegin, 1);
    take(wire::ShipKind::kComplete, 2);
  }
  void tick(std::int64_t after_us) {
    now_us_ += after_us;
    ASSERT_TRUE(follower_->tick(now_us_).has_value());
  }
  /// The numbers that were confirmed.
  std::vector<std::uint64_t> confirmed() const {
    std::vector<std::uint64_t> numbers;
    for (const wire::Message& message : sent_) {
      if (const auto* shipped = std::get_if<wire::Shipped>(&message)) {
        numbers.push_back(shipped->number);
      }
    }
    return numbers;
  }

  const store::TempState state_;
  MemoryRecord record_{Record{3, "tcp://one:1", "tcp://two:1"}};
  HeldCalls calls_{record_};
  std::optional<Follower> follower_;
  std::vector<wire::Message> sent_;
  std::int64_t now_us_ = 1'000'000;
};

TEST_F(FollowerTest, Message_AfterAGap_IsNotConfirmedAndTheCopyBeginsAnew) {
  start();
  copy();
  take(wire::ShipKind::kChanges, 4);
  EXPECT_EQ(confirmed(), (std::vector<std::uint64_t>{1, 2}));
  sent_.clear();
  tick(600 * kMs);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<wire::StandbyHello>(sent_[0]));
}

TEST_F(FollowerTest, SilentPrimary_WithAWholeCopy_IsFollowedByTheRecord) {
  start();
  copy();
  tick(700 * kMs);
  EXPECT_EQ(record_.now.record.term, 3u) << "it has not been silent for long enough";
  tick(200 * kMs);
  tick(kMs);
  EXPECT_TRUE(follower_->end().promoted);
  EXPECT_EQ(follower_->end().term, 4u);
  EXPECT_EQ(record_.now.record, (Record{4, "tcp://two:1", ""}));
  EXPECT_FALSE(read_standby_note(state_.dir())->is_standby);
}

TEST_F(FollowerTest, SilentPrimary_WithoutAWholeCopy_StaysInTheRecord) {
  start();
  take(wire::ShipKind::kBegin, 1);
  for (int i = 0; i < 5; ++i) tick(900 * kMs);
  EXPECT_FALSE(follower_->end().promoted);
  EXPECT_EQ(record_.now.record.term, 3u);
}

TEST_F(FollowerTest, StandbyThatIsOutOfTheRecord_WhenThePrimaryIsSilent_DoesNotTakeOver) {
  record_.now.record.in_step.clear();
  start();
  copy();
  for (int i = 0; i < 5; ++i) tick(900 * kMs);
  EXPECT_FALSE(follower_->end().promoted);
  EXPECT_EQ(record_.now.record.term, 3u);
}

TEST_F(FollowerTest, RequestToTakeOver_WhileTheRecordHasNotAnswered_IsNotConfirmed) {
  start();
  copy();
  calls_.arrives = false;
  take(wire::ShipKind::kTakeOver, 3);
  tick(kMs);
  EXPECT_EQ(confirmed(), (std::vector<std::uint64_t>{1, 2}));
  calls_.arrives = true;
  tick(kMs);
  EXPECT_TRUE(follower_->end().promoted);
  EXPECT_EQ(confirmed(), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(FollowerTest, FormerPrimary_AfterATakeover_IsNotConfirmed) {
  start();
  copy();
  tick(900 * kMs);
  tick(kMs);
  ASSERT_TRUE(follower_->end().promoted);
  sent_.clear();
  take(wire::ShipKind::kChanges, 3);
  tick(2'000 * kMs);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(FollowerTest, OlderTerm_ThanTheRecordsPrimary_IsNotConfirmed) {
  start();
  copy();
  take(wire::ShipKind::kChanges, 3, /*term=*/2);
  EXPECT_EQ(confirmed(), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(FollowerTest, RecordOfAnotherPrimary_WhenTheOwnOneIsSilent_IsFollowed) {
  record_.now.record = Record{5, "tcp://three:1", ""};
  start();
  copy();
  tick(900 * kMs);
  tick(kMs);
  EXPECT_EQ(follower_->primary(), "tcp://three:1");
  EXPECT_EQ(follower_->term(), 5u);
  EXPECT_FALSE(follower_->note().complete) << "its copy is of the former one";
}

}  // namespace
}  // namespace holdfast::replication::follower_test
