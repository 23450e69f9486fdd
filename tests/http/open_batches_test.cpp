// Goal: the threads that work on batches are shared out by tenant: one with many or long batches
// does not hold up another. Method: takes and leaves by hand.
#include "control/gateway/objects/open_batches.h"

#include <gtest/gtest.h>

namespace holdfast::gateway::open_batches_test {
namespace {

constexpr std::int64_t kSlice = 5'000;

std::vector<OpenBatch> of(const std::string& owner, int count, int first = 0) {
  std::vector<OpenBatch> out;
  for (int i = first; i < first + count; ++i) out.push_back({owner + std::to_string(i), owner});
  return out;
}

std::vector<OpenBatch> joined(std::vector<OpenBatch> a, const std::vector<OpenBatch>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(OpenBatches, Take_WithManyOfOneTenant_ServesEachTenantInTurn) {
  OpenBatches open;
  open.look(joined(of("a", 200), joined(of("b", 1), of("c", 2))));
  EXPECT_EQ(open.take(0)->id, "a0");
  EXPECT_EQ(open.take(0)->id, "b0");
  EXPECT_EQ(open.take(0)->id, "c0");
  EXPECT_EQ(open.take(0)->id, "a1");  // all have one: who was served longest ago
  EXPECT_EQ(open.take(0)->id, "c1");
  EXPECT_EQ(open.take(0)->id, "a2");
}

TEST(OpenBatches, Take_AfterLeaving_TriesAgainOnlyAfterTheNextLook) {
  OpenBatches open;
  open.look(of("a", 1));
  const OpenBatch batch = *open.take(0);
  EXPECT_FALSE(open.take(0));
  open.leave(batch);
  EXPECT_FALSE(open.take(0));
  open.look(of("a", 1));
  EXPECT_EQ(open.take(0)->id, "a0");
}

TEST(OpenBatches, Take_WhileABatchIsWorkedOn_DoesNotGiveItTwice) {
  OpenBatches open;
  open.look(of("a", 1));
  ASSERT_TRUE(open.take(0));
  open.look(of("a", 1));
  EXPECT_FALSE(open.take(0));
}

TEST(OpenBatches, SecondThread_WhenAnotherTenantHasNone_GivesWayAtOnce) {
  OpenBatches open;
  open.look(of("a", 4));
  const OpenBatch first = *open.take(0);
  const OpenBatch second = *open.take(0);
  EXPECT_FALSE(open.gives_way(first, 100, kSlice)) << "nobody else waits";
  open.look(joined(of("a", 4), of("b", 2)));
  EXPECT_TRUE(open.gives_way(first, 100, kSlice));
  open.leave(second);
  EXPECT_EQ(open.take(100)->id, "b0");
  EXPECT_FALSE(open.gives_way(first, 100, kSlice)) << "each tenant has a thread";
  EXPECT_FALSE(open.gives_way(first, kSlice + 1, kSlice)) << "and b waits for no other";
}

TEST(OpenBatches, OnlyThread_WhenMoreTenantsThanThreadsWait_GivesWayAfterItsSlice) {
  OpenBatches open;
  open.look(joined(of("a", 2), of("b", 1)));
  const OpenBatch first = *open.take(0);
  EXPECT_FALSE(open.gives_way(first, kSlice - 1, kSlice));
  EXPECT_TRUE(open.gives_way(first, kSlice, kSlice));
  open.leave(first);
  EXPECT_EQ(open.take(kSlice)->id, "b0");
}

TEST(OpenBatches, TenantWhoseBatchesEnded_IsForgotten) {
  OpenBatches open;
  for (int i = 0; i < 1'000; ++i) {
    open.look(of("tenant" + std::to_string(i), 1));
    open.leave(*open.take(0));
  }
  open.look({});
  EXPECT_FALSE(open.take(0));
}

}  // namespace
}  // namespace holdfast::gateway::open_batches_test
