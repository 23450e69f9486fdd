// Goal: while sequences decode, a prompt is prefilled in chunks so small that the others' next
// tokens come in time, every prompt goes on all the same, and no token changes by it.
// Method: the model alone with made-up times; then the engine on a device double whose forwards
// move a clock, as fast or slow as the case says.
#include "worker/engine/step_time_model.h"

#include <gtest/gtest.h>

#include "tests/engine/hash_executor.h"

namespace holdfast::engine::step_time_model_test {
namespace {

StepTimeModel::Work decoding(std::int32_t n) {
  return {{n, 0}, {0, 0}};
}

TEST(StepTimeModel, PrefillBudget_WithoutAGapOrDecodingSequences_IsUnlimited) {
  StepTimeModel none(0);
  EXPECT_EQ(none.allow(decoding(5), false, 10'000), 10'000);
  StepTimeModel bound(200'000);
  EXPECT_EQ(bound.allow(decoding(0), false, 10'000), 10'000);
}

TEST(StepTimeModel, PrefillBudget_WhenStepTimesAreMeasured_FitsTheRemainingGap) {
  StepTimeModel model(200'000);
  EXPECT_EQ(model.allow(decoding(4), false, 500), StepTimeModel::kUnknown);
  model.learn({{0, 0}, {512, 0}}, 512 * 1'000);
  EXPECT_EQ(model.allow(decoding(4), false, 500), 192);  // 200 in whole sixteens
  EXPECT_EQ(model.allow(decoding(4), false, 199), 199);
  model.learn(decoding(4), 80'000);
  EXPECT_EQ(model.allow(decoding(4), false, 500), 112);
  EXPECT_EQ(model.allow(decoding(9), false, 500), 112) << "nine have not been seen";
  EXPECT_EQ(model.allow(decoding(3), false, 500), 192) << "nor have fewer";
  EXPECT_EQ(model.allow({{4, 0}, {64, 0}}, false, 500), 48) << "others of the step count";
  EXPECT_EQ(model.allow({{4, 0}, {64, 0}}, false, 40), 40);
}

TEST(StepTimeModel, PrefillCost_WhenKernelClassesDiffer_IsLearnedForEach) {
  StepTimeModel model(100'000);
  model.learn({{0, 0}, {100, 0}}, 100 * 1'000);
  EXPECT_EQ(model.allow(decoding(1), true, 5'000), 96)
      << "as the other kind, while nothing is known";
  model.learn({{0, 0}, {0, 100}}, 100 * 100);
  EXPECT_EQ(model.allow(decoding(1), false, 5'000), 96);
  EXPECT_EQ(model.allow(decoding(1), true, 5'000), 992);
  EXPECT_EQ(model.allow({{1, 0}, {50, 0}}, true, 5'000), 496);
}

TEST(StepTimeModel, APromptMixture_WhenCostsAreMeasured_SharesTheStepByCost) {
  StepTimeModel model(100'000);
  model.learn({{0, 0}, {100, 0}}, 100 * 1'000);
  model.learn({{0, 0}, {0, 100}}, 100 * 100);
  model.learn({{0, 0}, {100, 100}}, 110'000);  // as expected
  EXPECT_EQ(model.allow(decoding(1), false, 5'000), 96);
  EXPECT_EQ(model.allow(decoding(1), true, 5'000), 992);
  for (int i = 0; i < 30; ++i) model.learn({{0, 0}, {100, 100}}, 220'000);
  EXPECT_EQ(model.allow(decoding(1), false, 5'000), 48);
  EXPECT_EQ(model.allow(decoding(1), true, 5'000), 496);

  // The first step of all has both kinds: prefill-heavy prompts are taken to be twice as fast.
  StepTimeModel first(100'000);
  first.learn({{0, 0}, {100, 100}}, 300'000);
  EXPECT_EQ(first.allow(decoding(1), false, 5'000), 48);
  EXPECT_EQ(first.allow(decoding(1), true, 5'000), 96);
  EXPECT_EQ(first.allow({{1, 0}, {10, 0}}, true, 5'000), 80) << "others of the step count";
}

TEST(StepTimeModel, PrefillCost_WhenMeasuredAsZero_IsLearnedAnew) {
  StepTimeModel model(100'000);
  model.learn(decoding(1), 20'000);
  model.learn({{1, 0}, {100, 0}}, 10'000);  // less than without
  EXPECT_EQ(model.allow(decoding(1), false, 5'000), 5'000);
  for (int i = 0; i < 30; ++i) model.learn({{1, 0}, {100, 0}}, 20'000 + 100 * 1'000);
  EXPECT_EQ(model.allow(decoding(1), false, 5'000), 80);
}

TEST(StepTimeModel, DecodeCost_WhenKernelClassesDiffer_IsLearnedForEach) {
  StepTimeModel model(100'000);
  model.learn({{0, 0}, {100, 0}}, 100 * 1'000);
  model.learn({{4, 2}, {0, 0}}, 40'000);  // half of it each
  EXPECT_EQ(model.allow({{4, 0}, {0, 0}}, false, 500), 80);
  EXPECT_EQ(model.allow({{0, 2}, {0, 0}}, false, 500), 80);
  EXPECT_EQ(model.allow({{4, 2}, {0, 0}}, false, 500), 48);  // 60 in whole sixteens
  for (int i = 0; i < 30; ++i) model.learn({{4, 0}, {0, 0}}, 10'000);
  EXPECT_EQ(model.allow({{4, 2}, {0, 0}}, false, 500), 64);            // 10 and 20 ms
  for (int i = 0; i < 30; ++i) model.learn({{4, 2}, {0, 0}}, 58'000);  // 19 and 39
  EXPECT_EQ(model.allow({{4, 0}, {0, 0}}, false, 500), 80);
  EXPECT_EQ(model.allow({{0, 2}, {0, 0}}, false, 500), 48);
  model.learn({{9, 0}, {0, 0}}, 15'000);
  model.learn({{9, 1}, {0, 0}}, 25'000);  // one of the kinds is measured
  EXPECT_EQ(model.allow({{0, 1}, {0, 0}}, false, 500), 80);
}

StepTimeModel::Work decoding_with(std::int32_t n, std::int32_t extra_rows) {
  return {{n, 0}, {0, 0}, 0, {extra_rows, 0}};
}

TEST(StepTimeModel, ExtraRow_WhenTimed_CostsWhatItDid) {
  StepTimeModel model(100'000);
  EXPECT_DOUBLE_EQ(model.row_share(false), StepTimeModel::kRowAtFirst);
  model.learn(decoding(2), 20'000);
  for (int i = 0; i < 60; ++i) model.learn(decoding_with(2, 3), 23'000);
  EXPECT_NEAR(model.row_share(false), 0.05, 0.01);
  EXPECT_DOUBLE_EQ(model.row_share(true), StepTimeModel::kRowAtFirst)
      << "the other kind has its own";
  model.learn({{2, 1}, {0, 0}, 0, {3, 0}}, 90'000);  // both kinds: says nothing
  EXPECT_NEAR(model.row_share(false), 0.05, 0.01);
  model.learn(decoding_with(2, 1), 9'000'000);  // something else held it up
  EXPECT_LT(model.row_share(false), 0.08);
  for (int i = 0; i < 60; ++i) model.learn(decoding_with(2, 3), 200'000);
  EXPECT_NEAR(model.row_share(false), StepTimeModel::kRowMost, 0.15);
  for (int i = 0; i < 2'000; ++i) model.learn(decoding(2), 20'000);
  EXPECT_LT(model.row_share(false), 0.3) << "too dear for any guess is not for ever";
  for (int i = 0; i < 200; ++i) model.learn(decoding_with(2, 7), 19'000);
  EXPECT_DOUBLE_EQ(model.row_share(false), StepTimeModel::kRowLeast);
}

TEST(StepTimeModel, ExtraRows_WhenTimed_DoNotCountAsTheStepItself) {
  StepTimeModel model(100'000);
  model.learn({{0, 0}, {100, 0}}, 100 * 1'000);
  model.learn(decoding(2), 20'000);
  for (int i = 0; i < 60; ++i) model.learn(decoding_with(2, 4), 40'000);
  EXPECT_EQ(model.allow(decoding(2), false, 500), 80);
  EXPECT_EQ(model.allow(decoding_with(2, 4), false, 500), 48) << "60 in whole sixteens";
  // With a prompt in the step they do not count as its cost either.
  for (int i = 0; i < 60; ++i) model.learn({{2, 0}, {100, 0}, 0, {4, 0}}, 138'000);
  EXPECT_EQ(model.allow(decoding(2), false, 500), 80);
  StepTimeModel always(100'000);  // no step without them
  always.learn({{0, 0}, {100, 0}}, 100 * 1'000);
  for (int i = 0; i < 60; ++i) always.learn(decoding_with(1, 5), 30'000);
  EXPECT_EQ(always.allow(decoding(1), false, 500), 80) << "as a row is taken to cost at first";
}

TEST(StepTimeModel, Step_WhenTheGapIsShort_PrefillsALittle) {
  StepTimeModel model(1'000);
  model.learn({{2, 0}, {64, 0}}, 64 * 900);
  EXPECT_EQ(model.allow(decoding(2), false, 500), StepTimeModel::kLeast);
  EXPECT_EQ(model.allow({{2, 0}, {32, 0}}, false, 500), 0);
  EXPECT_EQ(model.allow(decoding(2), false, 5), 5);
}

TEST(StepTimeModel, EvenSteps_WhileOthersDecode_TakeTwiceTheirDecodeTime) {
  StepTimeModel model(StepTimeModel::kEven);
  EXPECT_EQ(model.allow(decoding(0), false, 10'000), 10'000) << "nobody waits";
  model.learn({{0, 0}, {512, 0}}, 512 * 500);
  EXPECT_EQ(model.allow(decoding(4), false, 500), 400) << "200 ms, while nothing is known";
  model.learn(decoding(4), 100'000);
  EXPECT_EQ(model.allow(decoding(4), false, 900), 192);  // 100 ms more, in whole sixteens
  EXPECT_EQ(model.allow({{4, 0}, {0, 0}, 1}, false, 900), 192);
  EXPECT_EQ(model.allow({{4, 0}, {0, 0}, 2}, false, 900), 400) << "a queue";
  EXPECT_EQ(model.allow({{4, 0}, {0, 0}, 9}, false, 900), 400) << "however long";
  model.learn(decoding(1), 2'000);
  EXPECT_EQ(model.allow(decoding(1), false, 500), 96) << "gaps below 50 ms are nobody's trouble";
}

TEST(StepTimeModel, PrefillCost_WhenTheMachineChangesSpeed_IsLearnedAgain) {
  StepTimeModel model(200'000);
  model.learn({{0, 0}, {512, 0}}, 512 * 1'000);
  for (int i = 0; i < 30; ++i) model.learn({{2, 0}, {64, 0}}, 64 * 4'000);
  EXPECT_EQ(model.allow(decoding(2), false, 500), 48);
  for (int i = 0; i < 30; ++i) model.learn({{2, 0}, {64, 0}}, 64 * 500);
  EXPECT_EQ(model.allow(decoding(2), false, 500), 384);
}

SequenceSpec spec_of(SequenceKey key, std::int32_t prompt, std::int32_t most) {
  SequenceSpec spec;
  spec.key = key;
  for (std::int32_t i = 0; i < prompt; ++i) {
    spec.prompt.push_back(static_cast<TokenId>(2 + (i * 7 + static_cast<std::int32_t>(key)) % 90));
  }
  spec.max_tokens = most;
  spec.sampling.ignore_eos = true;
  return spec;
}

/// A long prompt comes while another sequence decodes; the largest number of its tokens in a step.
std::int32_t widest_step(std::int64_t gap_us, std::int64_t prompt_us, std::vector<Outcome>& out) {
  ModelEngineConfig config = test_config();
  config.prefill_chunk = config.prefill_chunk_busy = 256;
  config.gap_us = gap_us;
  TestEngine t(config);
  t.log->decode_us = 10'000;
  t.log->prompt_us = prompt_us;
  EXPECT_TRUE(t.engine->add(spec_of(1, 40, 60)).has_value());
  out.assign(2, {});
  for (int i = 0; i < 5; ++i) gather(t.engine->step(), 1, out);
  t.log->calls.clear();
  EXPECT_TRUE(t.engine->add(spec_of(2, 250, 8)).has_value());
  while (!t.engine->idle()) gather(t.engine->step(), 1, out);
  std::int32_t widest = 0;
  for (const HashCall& call : t.log->calls) widest = std::max(widest, call.prefill);
  return widest;
}

TEST(StepTimeModel, Engine_WithAnInterTokenGap_ShortensStepsAndChangesNoToken) {
  std::vector<Outcome> unbound, fast, slow, slowest;
  EXPECT_EQ(widest_step(0, 1'000, unbound), 250);
  EXPECT_EQ(widest_step(100'000, 100, fast), 250);
  EXPECT_EQ(widest_step(100'000, 1'000, slow), 90);  // ms are left after the other's step
  EXPECT_EQ(widest_step(100'000, 50'000, slowest), StepTimeModel::kLeast);
  EXPECT_EQ(unbound[0].ids.size(), 60u);
  EXPECT_EQ(unbound[1].ids.size(), 8u);
  for (const auto* other : {&fast, &slow, &slowest}) EXPECT_EQ(*other, unbound);
}

}  // namespace
}  // namespace holdfast::engine::step_time_model_test
