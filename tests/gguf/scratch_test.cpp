// Goal: the plan of scratch memory has the buffers that a model needs and no other, and its sum is
// theirs; an absurd load looks too large, never small. Method: shapes written down here. That the
// loader takes as much is tests/engine/envelope_test.cpp's.

#include "shared/plan/scratch.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

namespace holdfast::plan::scratch_test {
namespace {

ModelShape dense() {
  ModelShape s;
  s.architecture = "llama";
  s.layers = 2;
  s.width = 64;
  s.ff = 96;
  s.heads = 4;
  s.kv_heads = 2;
  s.head_dim = 20;
  s.vocab = 1000;
  s.rope_dims = 20;
  return s;
}

constexpr ScratchLimits kLimits{128, 40, 9, 3};

std::set<std::string> names(const ScratchPlan& plan) {
  std::set<std::string> out;
  for (int i = 0; i < static_cast<int>(ScratchBuffer::kCount); ++i) {
    const ScratchRegion& region = plan[static_cast<ScratchBuffer>(i)];
    if (region.bytes() > 0) out.insert(region.name);
  }
  return out;
}

/// The names that `shape` adds to those of dense().
std::set<std::string> added(const ModelShape& shape) {
  std::set<std::string> out = names(ScratchPlan(shape, kLimits));
  for (const std::string& name : names(ScratchPlan(dense(), kLimits))) {
    EXPECT_EQ(out.erase(name), 1u) << name;
  }
  return out;
}

TEST(ScratchPlan, Regions_OfADenseModel_HaveItsRowsAndStrides) {
  const ScratchPlan plan(dense(), kLimits);
  EXPECT_EQ(plan.head_pad(), 32);
  const ScratchRegion& residual = plan[ScratchBuffer::kResidual];
  EXPECT_EQ(residual.count, 40u);
  EXPECT_EQ(residual.stride, 64 + 16);
  EXPECT_EQ(residual.bytes(), 40u * 80 * 4);
  EXPECT_EQ(plan[ScratchBuffer::kQuery].stride, 4 * 32 + 16);
  EXPECT_EQ(plan[ScratchBuffer::kAttentionOut].stride, 96 + 16);
  EXPECT_EQ(plan[ScratchBuffer::kEncoded].bytes(), 40u * (96 / 32 + 1) * 96);
  EXPECT_EQ(plan[ScratchBuffer::kLogits].count, 9u);
  EXPECT_EQ(plan[ScratchBuffer::kLogitMaxima].stride, 16);
  EXPECT_EQ(plan[ScratchBuffer::kTile].copies, 3u);
  EXPECT_EQ(plan[ScratchBuffer::kSines].bytes(), (128u * 10 + 16) * 4);
  EXPECT_EQ(plan[ScratchBuffer::kSecondSines].bytes(), 0u);
}

TEST(ScratchPlan, Regions_OfEachArchitecture_AreAddedToThoseOfADenseModel) {
  EXPECT_TRUE(added(dense()).empty());
  ModelShape experts = dense();
  experts.experts = 8;
  experts.experts_used = 2;
  experts.expert_ff = 32;
  EXPECT_EQ(added(experts).size(), 10u);
  EXPECT_EQ(ScratchPlan(experts, kLimits)[ScratchBuffer::kExpertInput].count, 80u);
  ModelShape latent = dense();
  latent.latent = 32;
  latent.head_key = 24;
  latent.head_value = 16;
  EXPECT_EQ(added(latent), (std::set<std::string>{"mixer input", "gate", "head input",
                                                  "encoded head input", "row of latent numbers"}));
  ModelShape recurrent = dense();
  recurrent.attention_step = 2;
  recurrent.state_heads = recurrent.state_groups = 2;
  recurrent.state_key = recurrent.state_value = 16;
  recurrent.conv_taps = 4;
  EXPECT_EQ(added(recurrent),
            (std::set<std::string>{"mixer input", "gate", "delta gates", "delta net's work"}));
  EXPECT_EQ(state_bytes(recurrent, 5),
            5u * static_cast<std::uint64_t>(state_floats(recurrent)) * 4);
  EXPECT_EQ(state_bytes(dense(), 5), 0u);
  ModelShape inputs = dense();
  inputs.layer_input = 8;
  EXPECT_EQ(added(inputs), (std::set<std::string>{"layer input", "layer inputs of a token"}));
  ModelShape normed_rows = dense();
  normed_rows.qk_norm_row = true;
  EXPECT_EQ(added(normed_rows), (std::set<std::string>{"key"}));
  ModelShape two_tables = dense();
  two_tables.rope_tables = 2;
  EXPECT_EQ(ScratchPlan(two_tables, kLimits)[ScratchBuffer::kSecondSines].bytes(),
            (128u * 10 + 16) * 4);
}

TEST(ScratchPlan, Bytes_OfAPlan_AreTheSumOfWholeCacheLines) {
  const ScratchPlan plan(dense(), kLimits);
  std::uint64_t sum = 0;
  for (int i = 0; i < static_cast<int>(ScratchBuffer::kCount); ++i) {
    const ScratchRegion& region = plan[static_cast<ScratchBuffer>(i)];
    EXPECT_EQ(region.bytes() % 64, 0u) << region.name;
    sum += region.bytes() * region.copies;
  }
  EXPECT_EQ(plan.bytes(), sum);
}

TEST(ScratchPlan, Bytes_WhenTheLoadIsAbsurd_Saturate) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(ScratchPlan(dense(), {1, kMost, 1, 1}).bytes(), kMost);
  EXPECT_EQ(ScratchPlan(dense(), {1, 1, kMost / 2, 1}).bytes(), kMost);
  EXPECT_EQ(ScratchPlan(dense(), {std::numeric_limits<std::int64_t>::max(), 1, 1, 1}).bytes(),
            kMost);
}

}  // namespace
}  // namespace holdfast::plan::scratch_test
