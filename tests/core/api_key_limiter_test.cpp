// Goal: a key never has more requests that have not ended, nor more that came in any minute, than
// it may, and no work is done for others; refusals carry the time to come again, at which one more
// is let in; a repeat counts once and is never refused; a restart forgets nothing.
// Method: events by hand on a machine's bench; random arrivals against a list of all that were
// accepted; a second machine booted from the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "tests/core/bench_machine.h"

namespace holdfast::core::api_key_limiter_test {
namespace {

constexpr PeerId kWorker = 101;

struct KeyLimits : testing::Test {
  Bench bench;

  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  static wire::Submit with_key(wire::Submit submit, std::optional<std::int64_t> at_once,
                               std::optional<std::int64_t> a_minute, const char* key = "key_a") {
    submit.api_key = key;
    submit.key_max_requests = at_once;
    submit.key_requests_per_minute = a_minute;
    return submit;
  }
  wire::Submit limited(const std::string& id, std::optional<std::int64_t> at_once,
                       std::optional<std::int64_t> a_minute, const char* key = "key_a") {
    return with_key(bench.submission(id), at_once, a_minute, key);
  }
  bool accepted() const { return bench.messages<wire::Accepted>().size() == 1; }
  wire::Refusal refusal() const {
    const auto refused = bench.messages<wire::Refused>();
    EXPECT_EQ(refused.size(), 1u);
    return refused.empty() ? wire::Refusal() : refused[0].refusal;
  }
};

TEST_F(KeyLimits, ApiKey_WhenItsConcurrencyLimitIsReached_IsRateLimited) {
  bench.connect_worker(kWorker, "w0");
  bench.make_ready(kWorker);
  for (const char* id : {"r1", "r2"}) {
    bench.submit(limited(id, 2, {}));
    ASSERT_TRUE(accepted());
    EXPECT_FALSE(bench.messages<wire::Accepted>()[0].key.has_value()) << "no such limit";
  }
  bench.submit(limited("r3", 2, {}));
  EXPECT_EQ(refusal().code, Errc::kRateLimited);
  EXPECT_EQ(refusal().needed, 3);
  EXPECT_EQ(refusal().largest, 2);
  EXPECT_EQ(refusal().free, 0);
  EXPECT_GT(refusal().retry_after_ms, 0);
  bench.submit(limited("other", 2, {}, "key_b"));
  EXPECT_TRUE(accepted()) << "another key";
  bench.submit(bench.submission("none"));
  EXPECT_TRUE(accepted()) << "no key";
  bench.submit(limited("r4", 3, {}));
  EXPECT_TRUE(accepted()) << "the limit that comes with the request counts";
  for (const char* id : {"r1", "r2", "r4"}) {
    bench.step(FromClient{Bench::kClient, wire::Cancel{1, id, {}}});
    EXPECT_EQ(bench.state(id), RequestState::kCancelled);
  }
  bench.submit(limited("r5", 1, {}));
  EXPECT_TRUE(accepted()) << "what has ended counts no more";
  bench.submit(limited("r6", 1, {}));
  EXPECT_EQ(refusal().code, Errc::kRateLimited);
}

TEST_F(KeyLimits, ApiKey_WhenItsMinuteLimitIsReached_IsRateLimited) {
  bench.submit(limited("r1", {}, 2));
  ASSERT_TRUE(accepted());
  const auto first = bench.messages<wire::Accepted>()[0].key;
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->limit, 2);
  EXPECT_EQ(first->left, 1);
  EXPECT_GE(first->reset_ms, 60'000);
  EXPECT_LE(first->reset_ms, 60'100);
  bench.advance_ms(30'000);
  bench.submit(limited("r2", {}, 2));
  ASSERT_TRUE(accepted());
  bench.advance_ms(1'000);
  bench.submit(limited("r3", {}, 2));
  const wire::Refusal over = refusal();
  EXPECT_EQ(over.code, Errc::kRateLimited);
  EXPECT_EQ(over.needed, 3);
  EXPECT_EQ(over.largest, 2);
  EXPECT_EQ(over.free, 0);
  ASSERT_TRUE(over.key.has_value());
  EXPECT_EQ(over.key->left, 0);
  EXPECT_GE(over.retry_after_ms, 29'000);
  EXPECT_LE(over.retry_after_ms, 29'100);
  EXPECT_GE(over.key->reset_ms, 59'000);
  // Refused requests do not count; the time that was said is enough.
  bench.advance_ms(over.retry_after_ms);
  bench.submit(limited("r3", {}, 2));
  EXPECT_TRUE(accepted());
  bench.submit(limited("r4", {}, 2));
  EXPECT_EQ(refusal().code, Errc::kRateLimited);
}

TEST_F(KeyLimits, IdempotentRepeat_WhenTheApiKeyIsAtItsLimit_CountsOnce) {
  wire::Submit submit = limited("r1", 1, 1);
  submit.idem_key = "again";
  bench.submit(submit);
  ASSERT_TRUE(accepted());
  submit.request_id = "r2";  // as a gateway that knows nothing of the first would
  for (int i = 0; i < 3; ++i) {
    bench.submit(submit);
    ASSERT_TRUE(accepted());
    EXPECT_TRUE(bench.messages<wire::Accepted>()[0].duplicate);
    EXPECT_EQ(bench.messages<wire::Accepted>()[0].key->left, 0);
  }
  bench.submit(limited("r3", 1, 1));
  EXPECT_EQ(refusal().code, Errc::kRateLimited);
}

TEST_F(KeyLimits, ApiKeyLimit_BeforeTokenization_IsCharged) {
  for (const auto& [at_once, a_minute] :
       {std::pair<std::optional<int>, std::optional<int>>{{}, 2}, {2, {}}}) {
    const std::string key = a_minute ? "key_minute" : "key_once";
    std::vector<std::uint64_t> jobs;
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
      const std::string id = key + std::to_string(i);
      bench.submit(with_key(bench.text_submission(id), at_once, a_minute, key.c_str()));
      for (const auto& m : bench.messages<wire::Prepare>(Bench::kHelper)) jobs.push_back(m.job);
      refused += static_cast<int>(bench.messages<wire::Refused>().size());
    }
    ASSERT_EQ(jobs.size(), 2u) << "no more is tokenized than may come";
    EXPECT_EQ(refused, 18);
    wire::Prepared prepared;
    prepared.job = jobs[0];
    prepared.ok = true;
    prepared.ids = {{1, 2, 3}};
    bench.step(PreparedEvent{Bench::kHelper, prepared});
    EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u) << "it is not refused for itself";
    prepared.job = jobs[1];
    prepared.ok = false;
    prepared.refusal.code = Errc::kInvalidRequest;
    bench.step(PreparedEvent{Bench::kHelper, prepared});
    EXPECT_EQ(refusal().code, Errc::kInvalidRequest);
    bench.submit(with_key(bench.text_submission(key), at_once, a_minute, key.c_str()));
    const bool again = bench.messages<wire::Prepare>(Bench::kHelper).size() == 1;
    EXPECT_EQ(again, at_once.has_value()) << "what was refused was paid for, but is not there";
  }
}

TEST_F(KeyLimits, ApiKeyLimit_WhenTwoAreTokenizedAtOnce_AdmitsOne) {
  std::vector<std::uint64_t> jobs;
  for (const char* id : {"t1", "t2"}) {
    bench.submit(with_key(bench.text_submission(id), 1, 5));
    EXPECT_EQ(bench.messages<wire::Refused>().size(), id == std::string("t1") ? 0u : 1u);
    for (const auto& m : bench.messages<wire::Prepare>(Bench::kHelper)) jobs.push_back(m.job);
  }
  ASSERT_EQ(jobs.size(), 1u);
  wire::Prepared prepared;
  prepared.job = jobs[0];
  prepared.ok = true;
  prepared.ids = {{1, 2, 3}};
  bench.step(PreparedEvent{Bench::kHelper, prepared});
  EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u);
}

TEST_F(KeyLimits, ApiKeyLimits_AfterARestart_StillCount) {
  bench.submit(limited("r1", 3, 3));
  bench.advance_ms(50'000);
  bench.submit(limited("r2", 3, 3));
  bench.step(FromClient{Bench::kClient, wire::Cancel{1, "r2", {}}});
  Bench next;
  next.now = {5'000'000, bench.now.wall_ms + 2'000};  // another monotonic clock
  next.boot(bench.database(), 2);
  next.submit(limited("r3", 2, 3));
  ASSERT_EQ(next.messages<wire::Accepted>().size(), 1u) << "r1 and r2 in the minute, r1 lives";
  EXPECT_EQ(next.messages<wire::Accepted>()[0].key->left, 0);
  next.submit(limited("r4", 2, 3));
  ASSERT_EQ(next.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(next.messages<wire::Refused>()[0].refusal.needed, 3);
  next.submit(limited("r4", {}, 3));
  ASSERT_EQ(next.messages<wire::Refused>().size(), 1u);
  const std::int64_t wait_ms = next.messages<wire::Refused>()[0].refusal.retry_after_ms;
  EXPECT_GE(wait_ms, 8'000);
  EXPECT_LE(wait_ms, 8'100);
  next.step(FromClient{Bench::kClient, wire::Cancel{1, "r1", {}}});
  next.advance_ms(wait_ms);
  next.submit(limited("r4", 2, 3));
  EXPECT_EQ(next.messages<wire::Accepted>().size(), 1u);
}

TEST(ApiKeyLimiter, ApiKeyLimit_WhenTheClockStepsBack_ForgivesNothing) {
  ApiKeyLimiter limiter;
  limiter.restore({{"key_a", 0, {2'000'000, 1'900'000}}}, {70'000'000, 1'950'000});
  wire::Submit submit;
  submit.api_key = "key_a";
  submit.key_requests_per_minute = 2;
  EXPECT_TRUE(limiter.refuse(submit, 70'000'000).has_value());
  EXPECT_FALSE(limiter.refuse(submit, 80'100'000).has_value());
}

TEST(ApiKeyLimiter, ApiKeyLimit_WhenLowered_CountsWhatWasAdmittedBefore) {
  ApiKeyLimiter limiter;
  wire::Submit submit;
  submit.api_key = "key_a";
  for (const std::int64_t at_us : {10'000'000, 20'000'000, 30'000'000}) {
    limiter.accepted("key_a", at_us);
  }
  submit.key_requests_per_minute = 2;
  EXPECT_EQ(limiter.refuse(submit, 30'000'000)->retry_after_ms, 50'100)
      << "two of three must leave";
  submit.key_requests_per_minute = 1;
  EXPECT_EQ(limiter.refuse(submit, 30'000'000)->retry_after_ms, 60'100) << "all must";
}

TEST(ApiKeyLimiter, ApiKeyLimit_WhenZero_RefusesWithAMinuteToWait) {
  ApiKeyLimiter limiter;
  wire::Submit submit;
  submit.api_key = "key_a";
  submit.key_requests_per_minute = 0;
  const auto never = limiter.refuse(submit, 10'000'000);
  ASSERT_TRUE(never.has_value());
  EXPECT_EQ(never->code, Errc::kRateLimited);
  EXPECT_EQ(never->needed, 1);
  EXPECT_EQ(never->largest, 0);
  EXPECT_EQ(never->retry_after_ms, 60'000);
  limiter.accepted("key_a", 10'000'000);  // under an earlier limit
  EXPECT_EQ(limiter.refuse(submit, 20'000'000)->retry_after_ms, 50'100)
      << "when the last one leaves";
}

TEST(ApiKeyLimiter, MinuteLimit_WhenARequestOutlivesItsMinute_IsFreeAgain) {
  ApiKeyLimiter limiter;
  wire::Submit submit;
  submit.api_key = "key_a";
  submit.key_requests_per_minute = 2;
  limiter.accepted("key_a", 10'000'000);
  EXPECT_EQ(limiter.standing(submit, 20'000'000)->left, 1);
  EXPECT_EQ(limiter.standing(submit, 20'000'000)->reset_ms, 50'100);
  EXPECT_EQ(limiter.standing(submit, 80'000'000)->left, 2);
  EXPECT_EQ(limiter.standing(submit, 80'000'000)->reset_ms, wire::KeyStanding().reset_ms);
}

// No minute has more than the limit; a client that comes when it was told to is let in.
TEST(ApiKeyLimiter, MinuteLimit_WithRandomArrivals_IsNeverExceeded) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    ApiKeyLimiter limiter;
    wire::Submit submit;
    submit.api_key = "key_a";
    submit.key_requests_per_minute = 1 + static_cast<std::int64_t>(random() % 40);
    std::deque<std::int64_t> in;
    std::int64_t now_us = static_cast<std::int64_t>(random() % 1'000'000);
    for (int i = 0; i < 2'000; ++i) {
      now_us += static_cast<std::int64_t>(random() % 3'000'000);
      const auto refusal = limiter.refuse(submit, now_us);
      const auto younger =
          std::count_if(in.begin(), in.end(), [&](auto at) { return at > now_us - 60'000'000; });
      if (refusal) {
        const auto nearly =
            std::count_if(in.begin(), in.end(), [&](auto at) { return at > now_us - 60'100'000; });
        ASSERT_GE(nearly, *submit.key_requests_per_minute) << "refused for nothing";
        if (random() % 2 == 0) continue;
        now_us += refusal->retry_after_ms * 1000;
        ASSERT_FALSE(limiter.refuse(submit, now_us).has_value());
      } else {
        ASSERT_LT(younger, *submit.key_requests_per_minute);
      }
      limiter.accepted("key_a", now_us);
      limiter.ended("key_a");
      in.push_back(now_us);
      ASSERT_LE(limiter.standing(submit, now_us)->reset_ms, 60'100);
    }
    now_us += 61'000'000;
    ASSERT_EQ(limiter.standing(submit, now_us)->left, *submit.key_requests_per_minute);
    ASSERT_EQ(limiter.size(), 0u) << "a key that asks for nothing takes no memory";
  }
}

}  // namespace
}  // namespace holdfast::core::api_key_limiter_test
