// Goal: a slot that is free again has nothing of its last sequence but memory, and a key finds its
// sequence and no other. Method: the classes alone, without an executor.
#include "worker/engine/slot.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "worker/engine/probe_runner.h"
#include "worker/engine/slot_table.h"

namespace holdfast::engine::slot_test {
namespace {

ModelEngineConfig small_config() {
  ModelEngineConfig config;
  config.vocab = 97;
  config.context = 256;
  config.slots = 2;
  config.pages = 8;
  return config;
}

TEST(Slot, Reset_AfterASequence_LeavesNothingOfItButMemory) {
  ModelEngineConfig config = small_config();
  config.recurrent = true;
  SlotTable table(config);
  Slot* slot = table.claim(7).value();
  std::swap(slot->recurrent.at, table.all()[1].recurrent.at);
  slot->tokens.assign(200, 5);
  slot->prompt_n = 100;
  slot->prefix.cached = 64;
  slot->sampling.replayed = {1, 2};
  slot->sampling.replayed_n = 1;
  slot->probe.scores = std::make_unique<wire::PromptScores>();
  slot->paused = true;
  slot->finish = wire::FinishReason::kStop;
  const TokenId* tokens = slot->tokens.data();
  const auto pages = slot->prefix.pages.capacity(), marks = slot->prefix.marks.capacity();
  slot->reset();
  EXPECT_EQ(slot->state, Slot::State::kFree);
  EXPECT_EQ(slot->length(), 0);
  EXPECT_EQ(slot->generated(), 0);
  EXPECT_EQ(slot->tokens.data(), tokens);
  EXPECT_EQ(slot->tokens.capacity(), 256U);
  EXPECT_EQ(slot->prefix.pages.capacity(), pages);
  EXPECT_EQ(slot->prefix.marks.capacity(), marks);
  EXPECT_EQ(slot->prefix.cached, PrefixState::kNotLookedUp);
  EXPECT_EQ(slot->recurrent.at, 1) << "a state that it got from another slot is its own";
  EXPECT_TRUE(slot->sampling.is_unconstrained());
  EXPECT_TRUE(slot->probe.is_none());
  EXPECT_FALSE(slot->paused);
  EXPECT_EQ(slot->finish, wire::FinishReason::kNone);
}

TEST(Slot, Rank_WithPriorityAndAge_IsPriorityFirst) {
  Slot a, b;
  a.priority = 1, a.age = 5;
  b.priority = 2, b.age = 1;
  EXPECT_TRUE(a.ranks_before(b));
  EXPECT_FALSE(b.ranks_before(a));
  b.priority = 1;
  EXPECT_TRUE(b.ranks_before(a));
  EXPECT_FALSE(a.ranks_before(a));
}

TEST(SlotTable, Claim_WithoutAFreeSlotOrWithAKeyInUse_IsRefused) {
  SlotTable table(small_config());
  Slot* first = table.claim(1).value();
  EXPECT_EQ(table.claim(1).error().code, Errc::kConflict);
  Slot* second = table.claim(2).value();
  EXPECT_TRUE(first->ranks_before(*second));
  EXPECT_EQ(table.claim(3).error().code, Errc::kRateLimited);
  EXPECT_EQ(table.find(2), second);
  first->reset();
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.claim(3).value(), first);
  EXPECT_TRUE(second->ranks_before(*first)) << "the newcomer is the youngest";
}

TEST(ProbeRunner, RowCount_WithTooLittleLeft_CutsTheSegment) {
  Slot slot;
  slot.tokens.assign(50, 1);
  slot.computed = 10;
  slot.probe.request = std::make_unique<Probe>();
  slot.probe.request->positions = {12, 13, 20, 45};
  std::int64_t n = 30;  // up to position 39
  EXPECT_EQ(ProbeRunner::row_count(slot, n, 100), 9) << "12 to 20";
  EXPECT_EQ(n, 11) << "the last position requested ends the segment";
  n = 30;
  EXPECT_EQ(ProbeRunner::row_count(slot, n, 3), 2) << "12 and 13; 20 is too far";
  EXPECT_EQ(n, 4);
  n = 2;
  EXPECT_EQ(ProbeRunner::row_count(slot, n, 100), 0);
  EXPECT_EQ(n, 2);
}

}  // namespace
}  // namespace holdfast::engine::slot_test
