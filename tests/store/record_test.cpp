// Goal: of two machines at most one believes that it may answer alone or take over, whatever the
// record's store does with requests and answers. Method: the three changes of the record against a
// store that loses requests and answers at random, in random order.
#include "control/replication/record.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "control/replication/etcd_record.h"

namespace holdfast::replication::record_test {
namespace {

using Outcome = RecordAnswer::Outcome;

/// A store with compare-and-swap, which loses some of what is said.
class LossyRecord final : public RecordStore {
 public:
  explicit LossyRecord(std::uint32_t seed) : random_(seed) {}
  Result<Versioned> read() override {
    if (loses()) return lost();
    return now_;
  }
  Result<bool> write(const Record& record, std::int64_t version) override {
    if (loses()) return lost();
    const bool good = version == now_.version;
    if (good) now_ = {record, now_.version + 1};
    if (loses()) return lost();
    return good;
  }
  Versioned now() const { return now_; }
  int percent = 0;

 private:
  bool loses() { return static_cast<int>(random_() % 100) < percent; }
  static Error lost() { return {Errc::kUnreachable, "lost"}; }
  std::mt19937 random_;
  Versioned now_;
};

TEST(Record, Text_AfterARoundTrip_IsTheSame) {
  const Record record{7, "tcp://a:1", "tcp://b:1"};
  EXPECT_EQ(parse_record(record_text(record)), record);
  EXPECT_EQ(parse_record("{}"), std::nullopt);
  EXPECT_EQ(parse_record("[1]"), std::nullopt);
  EXPECT_EQ(parse_record(R"({"term":-1,"primary":"a","in_step":""})"), std::nullopt);
}

TEST(Record, Claim_OfTheFirst_IsThePrimary) {
  LossyRecord store(1);
  EXPECT_EQ(claim_record(store, "a", 0).outcome, Outcome::kDone);
  const RecordAnswer other = claim_record(store, "b", 5);
  EXPECT_EQ(other.outcome, Outcome::kOther);
  EXPECT_EQ(other.record.primary, "a");
  EXPECT_EQ(claim_record(store, "a", 9).record.term, 1u) << "it is the primary already";
}

TEST(Record, TakeOver_OfAStandbyThatIsNotInStep_IsRefused) {
  LossyRecord store(1);
  claim_record(store, "a", 1);
  EXPECT_EQ(take_over(store, "b", 1).outcome, Outcome::kOther);
  EXPECT_EQ(set_in_step(store, "a", 1, "b").outcome, Outcome::kDone);
  EXPECT_EQ(take_over(store, "c", 1).outcome, Outcome::kOther);
  EXPECT_EQ(take_over(store, "b", 1).outcome, Outcome::kDone);
  EXPECT_EQ(take_over(store, "b", 1).outcome, Outcome::kDone) << "asked again: its answer was lost";
  EXPECT_EQ(set_in_step(store, "a", 1, "").outcome, Outcome::kOther) << "it is fenced";
  EXPECT_EQ(store.now().record, (Record{2, "b", ""}));
}

TEST(Record, PrimaryAndStandby_WhenBothAct_NeverBothSucceed) {
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    LossyRecord store(seed);
    claim_record(store, "a", 1);
    set_in_step(store, "a", 1, "b");
    store.percent = 30;
    std::mt19937 random(seed + 7);
    bool alone = false;
    bool taken = false;
    for (int i = 0; i < 12; ++i) {
      if (random() % 2 == 0) {
        alone |= set_in_step(store, "a", 1, "").outcome == Outcome::kDone;
      } else {
        taken |= take_over(store, "b", 1).outcome == Outcome::kDone;
      }
    }
    ASSERT_FALSE(alone && taken) << seed;
  }
}

/// A store whose next write arrives only when the test says, after its caller has given up.
class LateRecord final : public RecordStore {
 public:
  Result<Versioned> read() override { return now; }
  Result<bool> write(const Record& record, std::int64_t version) override {
    if (std::exchange(late, false)) {
      held = Versioned{record, version};
      return Error{Errc::kUnreachable, "no answer"};
    }
    if (version != now.version) return false;
    now = {record, version + 1};
    return true;
  }
  /// True if the write that was held is carried out.
  bool arrives() { return write(held->record, held->version).value(); }
  Versioned now;
  bool late = false;
  std::optional<Versioned> held;
};

TEST(Record, WriteOfAnEarlierCall_ThatArrivesLate_FindsAnotherVersion) {
  LateRecord store;
  claim_record(store, "a", 1);
  store.late = true;
  EXPECT_EQ(set_in_step(store, "a", 1, "b").outcome, Outcome::kUnreachable);
  EXPECT_EQ(set_in_step(store, "a", 1, "").outcome, Outcome::kDone) << "it answers alone now";
  EXPECT_FALSE(store.arrives());
  EXPECT_EQ(store.now.record.in_step, "");
}

TEST(Record, WriteOfAnEarlierProcess_ThatArrivesLate_FindsAnotherVersion) {
  LateRecord store;
  claim_record(store, "a", 1);
  store.late = true;
  EXPECT_EQ(set_in_step(store, "a", 1, "b").outcome, Outcome::kUnreachable);
  EXPECT_EQ(claim_record(store, "a", 1).record.in_step, "") << "the next process answers alone";
  EXPECT_FALSE(store.arrives());
  EXPECT_EQ(store.now.record.in_step, "");
}

TEST(EtcdAddress, Text_WithMembersAndKey_IsRead) {
  const auto address = parse_etcd_address("http://a:2379,https://b:2379/holdfast/main");
  ASSERT_TRUE(address.has_value()) << address.error().what;
  EXPECT_EQ(address->urls, (std::vector<std::string>{"http://a:2379", "https://b:2379"}));
  EXPECT_EQ(address->key, "holdfast/main");
  for (const char* wrong : {"", "a:2379/k", "http://a:2379", "http://a:2379/", "ftp://a/k",
                            "http:///k", "http://a:1,/k"}) {
    EXPECT_FALSE(parse_etcd_address(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace holdfast::replication::record_test
