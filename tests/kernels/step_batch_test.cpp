// Goal: a batch has its segments' tokens in order, work items that cover each token once, and after
// compaction the tokens that have a result alone. Method: small batches whose rows say their
// number.

#include "worker/backend/cpu/step_batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::cpu::step_batch_test {
namespace {

using backend::Wants;

constexpr std::int32_t kTokens[] = {5, 6, 7, 8, 9, 10, 11, 12};
constexpr std::int32_t kPages[] = {1, 2};

BatchLimits batch_limits() {
  BatchLimits limits;
  limits.limits = {128, 4, 32, 4, 8, "f16"};
  limits.vocab = 100;
  limits.has_prefill_kernels = true;
  limits.drops_rows = true;
  limits.run_tokens[0] = {3, 5};
  return limits;
}

backend::Segment segment(std::int32_t n, std::int64_t start, std::int32_t logit_rows) {
  backend::Segment s;
  s.tokens = kTokens;
  s.n = n;
  s.start = start;
  s.pages = kPages;
  s.wants = Wants::logits(logit_rows);
  return s;
}

std::vector<std::int64_t> positions(const StepBatch& batch) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < batch.rows(); ++i) out.push_back(batch.token(i).position);
  return out;
}

TEST(StepBatch, Plan_WithTwoSegments_HasTheirTokensInOrder) {
  StepBatch batch;
  batch.reserve(batch_limits(), 0);
  const backend::Batch given{{segment(2, 10, 1), segment(4, 0, 2)}};
  batch.plan(given);
  EXPECT_EQ(positions(batch), (std::vector<std::int64_t>{10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(batch.token(2).id, 5);
  EXPECT_EQ(batch.token(2).segment, 1);
  EXPECT_EQ(batch.first_of(1), 2);
  EXPECT_EQ(batch.decode_heavy_rows(), 6);
  EXPECT_EQ(batch.logit_tokens(), (std::vector<std::int32_t>{1, 4, 5}));
  EXPECT_TRUE(batch.compacts_rows());
  EXPECT_FALSE(batch.hidden_requested());
  EXPECT_EQ(batch.bad_token(), -1);
}

TEST(StepBatch, Runs_OfBothKernelClasses_HaveTheirSizesAndCoverEachTokenOnce) {
  StepBatch batch;
  batch.reserve(batch_limits(), 0);
  backend::Batch given{{segment(7, 0, 0), segment(8, 0, 1)}};
  given.segments[1].prefill_heavy = true;
  batch.plan(given);
  EXPECT_EQ(batch.decode_heavy_rows(), 7);
  std::vector<int> covered(static_cast<std::size_t>(batch.rows()));
  for (const AttentionRun& run : batch.runs(0)) {
    EXPECT_LE(run.count, run.segment == 0 ? 3 : 5);
    for (std::int32_t i = run.first; i < run.first + run.count; ++i) {
      ++covered[static_cast<std::size_t>(i)];
      EXPECT_EQ(batch.token(i).segment, run.segment);
    }
  }
  EXPECT_EQ(covered, std::vector<int>(15, 1));
  EXPECT_EQ(batch.runs(0).front().first, 6);  // late tokens first
  EXPECT_TRUE(batch.runs(1).empty());         // there are no such heads
}

TEST(StepBatch, Compact_WithTokensWithoutAResult_LeavesTheOthersAndTheirRows) {
  StepBatch batch;
  batch.reserve(batch_limits(), 0);
  backend::Batch given{{segment(3, 10, 1), segment(4, 0, 0), segment(5, 0, 2)}};
  given.segments[1].wants = Wants::hidden_of(1);
  given.segments[2].prefill_heavy = true;
  batch.plan(given);
  std::vector<float> rows;
  for (std::int64_t i = 0; i < batch.rows(); ++i) {
    rows.insert(rows.end(), {static_cast<float>(i), static_cast<float>(-i)});
  }
  ASSERT_TRUE(batch.compacts_rows());
  const FloatRows live[] = {{rows.data(), 2}, {nullptr, 2}};
  batch.compact(live);
  EXPECT_EQ(positions(batch), (std::vector<std::int64_t>{12, 1, 3, 4}));
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 8),
            (std::vector<float>{2, -2, 4, -4, 10, -10, 11, -11}));
  EXPECT_EQ(batch.decode_heavy_rows(), 2);
  EXPECT_EQ(batch.logit_tokens(), (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(batch.row_of(4), 1);
  EXPECT_TRUE(batch.hidden_requested());
  ASSERT_EQ(batch.runs(0).size(), 3u);
  EXPECT_EQ(batch.runs(0)[2].first, 2);
  EXPECT_EQ(batch.runs(0)[2].count, 2);
}

TEST(StepBatch, RequestLogits_AfterAForward_ReplacesTheRowsOfLogits) {
  StepBatch batch;
  batch.reserve(batch_limits(), 0);
  backend::Batch given{{segment(4, 0, 0)}};
  given.segments[0].wants = Wants::deferred_logits();
  batch.plan(given);
  EXPECT_FALSE(batch.compacts_rows());
  batch.note_bad(2);
  batch.request_logits(1, 2);
  EXPECT_EQ(batch.logit_tokens(), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(batch.bad_token(), -1);
}

TEST(StepBatchDeathTest, Plan_WhenASegmentIsBeyondLimits_Stops) {
  StepBatch batch;
  batch.reserve(batch_limits(), 0);
  const backend::Batch late{{segment(4, 126, 0)}};
  EXPECT_DEATH(batch.plan(late), "");
  backend::Batch mixed{{segment(2, 0, 0), segment(2, 0, 0)}};
  mixed.segments[0].prefill_heavy = true;  // such segments come last
  EXPECT_DEATH(batch.plan(mixed), "");
}

}  // namespace
}  // namespace holdfast::cpu::step_batch_test
