// Goal: compute_logits gives the rows of the requested positions, whatever runs with it.
// Method: the hashing device double; one row a forward is the truth.

#include "worker/engine/logits.h"

#include <gtest/gtest.h>

#include "tests/engine/hash_executor.h"

namespace holdfast::engine::logits_test {
namespace {

std::vector<TokenId> tokens_of(std::size_t n) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<TokenId>((i * i + 3) % 97));
  return out;
}

TEST(Logits, LogitRows_WhenChunksAndNeighboursDiffer_AreTheSame) {
  const auto tokens = tokens_of(300);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < 300; ++i) positions.push_back(i);
  TestEngine truth;
  const auto expected = compute_logits(*truth.engine, tokens, positions, {1, 0, true});
  ASSERT_TRUE(expected.has_value()) << expected.error().what;
  ASSERT_EQ(expected.value()[0].size(), 97u);
  EXPECT_NE(expected.value()[0], expected.value()[1]);
  for (const std::int32_t rows : {0, 50}) {
    ModelEngineConfig config = test_config();
    config.logit_rows = rows;
    TestEngine t(config);
    for (const LogitsOptions& o : {LogitsOptions{0, 0, false}, LogitsOptions{7, 0, false},
                                   LogitsOptions{64, 5, false}, LogitsOptions{0, 3, true}}) {
      EXPECT_EQ(compute_logits(*t.engine, tokens, positions, o).value(), expected.value());
      EXPECT_TRUE(t.engine->idle());
      EXPECT_EQ(t.engine->usage().pages_used, 0);
    }
  }
}

TEST(Logits, LogitRows_WhenNeighboursHaveDraftTokens_AreEnough) {
  const auto tokens = tokens_of(300);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < 300; ++i) positions.push_back(i);
  TestEngine truth;
  TestEngine t;
  truth.log->period = t.log->period = 5;  // the neighbours' texts repeat themselves
  const auto expected = compute_logits(*truth.engine, tokens, positions, {}).value();
  EXPECT_EQ(compute_logits(*t.engine, tokens, positions, {64, 5, false}).value(), expected);
  EXPECT_GT(t.engine->usage().drafts, 0u);
}

TEST(Logits, LogitRows_WhenPositionsAreUnsortedOrRepeated_FollowTheirOrder) {
  const auto tokens = tokens_of(200);
  TestEngine t;
  const auto all = compute_logits(*t.engine, tokens, {0, 3, 77, 199}, {}).value();
  const auto mixed = compute_logits(*t.engine, tokens, {199, 3, 3, 0, 77}, {}).value();
  EXPECT_EQ(mixed[0], all[3]);
  EXPECT_EQ(mixed[1], all[1]);
  EXPECT_EQ(mixed[2], all[1]);
  EXPECT_EQ(mixed[3], all[0]);
  EXPECT_EQ(mixed[4], all[2]);
  EXPECT_TRUE(compute_logits(*t.engine, tokens, {}, {}).value().empty());
}

TEST(Logits, ComputeLogits_WhenArgumentsAreInvalid_IsRefusedWithTypedError) {
  TestEngine t;
  const auto tokens = tokens_of(20);
  EXPECT_EQ(compute_logits(*t.engine, tokens, {20}, {}).error().code, Errc::kInvalidRequest);
  EXPECT_EQ(compute_logits(*t.engine, tokens, {-1}, {}).error().code, Errc::kInvalidRequest);
  EXPECT_EQ(compute_logits(*t.engine, {97}, {0}, {}).error().code, Errc::kInvalidRequest);
  EXPECT_EQ(compute_logits(*t.engine, tokens, {1}, {0, 6, false}).error().code, Errc::kRateLimited);
  EXPECT_EQ(compute_logits(*t.engine, tokens, {1}, {65, 0, false}).error().code,
            Errc::kInvalidRequest);
  EXPECT_TRUE(t.engine->idle());
  ModelEngineConfig small_config = test_config();
  small_config.pages = 2;
  TestEngine small(small_config);
  const auto refused = compute_logits(*small.engine, tokens_of(129), {1}, {});
  EXPECT_EQ(refused.error().code, Errc::kMemoryExhausted);
  EXPECT_NE(refused.error().what.find("needs 3 KV pages, the pool has 2"), std::string::npos);
  auto fake = open_fake_engine("{}", {}).value();
  EXPECT_EQ(compute_logits(*fake, tokens, {1}, {}).error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace holdfast::engine::logits_test
