// Goal: what a segment requests is one kind of results, and a result is read only as it was
// requested, and only until the next step. Method: both classes alone, over small arrays.

#include "worker/backend/api/step_result.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::backend::step_result_test {
namespace {

TEST(Wants, Kinds_WhenMade_RequestNothingElse) {
  EXPECT_EQ(Wants().logit_rows(), 0);
  EXPECT_EQ(Wants::logits(3).logit_rows(), 3);
  EXPECT_EQ(Wants::logits(3).top_count(), Wants::kWholeRow);
  EXPECT_EQ(Wants::greatest(2).top_count(), Wants::kGreatest);
  EXPECT_EQ(Wants::top(5, 2).top_count(), 5);
  EXPECT_EQ(Wants::top(5, 2).logit_rows(), 2);
  EXPECT_TRUE(Wants::hidden().is_hidden_of(7));
  EXPECT_TRUE(Wants::hidden_of(7).is_hidden_of(7));
  EXPECT_FALSE(Wants::hidden_of(7).is_hidden_of(6));
  EXPECT_FALSE(Wants::hidden().is_deferred());
  EXPECT_TRUE(Wants::deferred_logits().is_deferred());
  EXPECT_EQ(Wants::deferred_logits().logit_rows(), 0);
  EXPECT_FALSE(Wants::deferred_logits().is_hidden());
}

TEST(Wants, WithRows_WhenRowsAreRequested_RequestsTheSameOfSoMany) {
  EXPECT_EQ(Wants::top(5, 2).with_rows(9).logit_rows(), 9);
  EXPECT_EQ(Wants::top(5, 2).with_rows(9).top_count(), 5);
  EXPECT_EQ(Wants::greatest(1).with_rows(0).logit_rows(), 0);
  EXPECT_DEATH(Wants::hidden().with_rows(1), "");
}

TEST(Wants, Fits_WithASegmentTooShort_IsFalse) {
  EXPECT_TRUE(Wants::logits(4).fits(4));
  EXPECT_FALSE(Wants::logits(5).fits(4));
  EXPECT_TRUE(Wants::hidden_of(3).fits(4));
  EXPECT_FALSE(Wants::hidden_of(4).fits(4));
  EXPECT_TRUE(Wants::hidden().fits(1));
}

/// Three rows of four logits: one whole, one of which the greatest counts, one of which two do.
class StepResultTest : public ::testing::Test {
 protected:
  StepResult result() {
    ResultViews views;
    views.logit_rows = 3;
    views.top_counts = top_counts_;
    views.logits = {logits_, 4};
    views.greatest = greatest_;
    views.top = {top_, 2};
    views.hidden = {hidden_, 2};
    views.hidden_rows = 2;
    views.hidden_tokens = tokens_;
    return {views, step_};
  }

  std::uint64_t step_ = 8;
  const std::int32_t top_counts_[3] = {Wants::kWholeRow, Wants::kGreatest, 2};
  const float logits_[12] = {1, 2, 3, 4};
  const std::int32_t greatest_[3] = {-1, 6, -1};
  const Ranked top_[6] = {{}, {}, {}, {}, {0.5F, 9}, {0.25F, 1}};
  const float hidden_[4] = {10, 11, 12, 13};
  const std::vector<std::int32_t> tokens_ = {3, 7};
};

TEST_F(StepResultTest, Results_AsRequested_AreThoseOfTheirRows) {
  const StepResult r = result();
  EXPECT_EQ(r.logits(0).at, logits_);
  EXPECT_EQ(r.logits(0).maxima, nullptr);
  EXPECT_EQ(r.greatest(1), 6);
  ASSERT_EQ(r.top(2).size(), 2u);
  EXPECT_EQ(r.top(2)[1].id, 1);
  EXPECT_EQ(r.hidden(7)[0], 12);
}

TEST_F(StepResultTest, Results_NotRequested_Stop) {
  const StepResult r = result();
  EXPECT_DEATH(r.logits(1), "");
  EXPECT_DEATH(r.greatest(0), "");
  EXPECT_DEATH(r.top(0), "");
  EXPECT_DEATH(r.logits(3), "");
  EXPECT_DEATH(r.hidden(4), "");
}

TEST_F(StepResultTest, Results_AfterTheNextStep_Stop) {
  const StepResult r = result();
  ++step_;
  EXPECT_DEATH(r.logits(0), "");
  EXPECT_DEATH(r.hidden(7), "");
  EXPECT_EQ(result().logits(0).at, logits_);
}

}  // namespace
}  // namespace holdfast::backend::step_result_test
