// Goal: while promises may not leave, nothing leaves that a standby without the commit would
// contradict, and each conversation stays in its order. Method: answers by hand.
#include "control/daemon/held_answers.h"

#include <gtest/gtest.h>

namespace holdfast::daemon::held_answers_test {
namespace {

constexpr core::PeerId kClient = 7, kOther = 8;

Delivery event(core::PeerId to, std::uint64_t tag, bool full) {
  wire::Event event;
  event.tag = tag;
  return {to, event, {}, full};
}

Delivery fin(core::PeerId to, std::uint64_t tag) {
  wire::Fin fin;
  fin.tag = tag;
  return {to, fin, {}, false};
}

Delivery accepted(core::PeerId to, std::uint64_t tag) {
  wire::Accepted accepted;
  accepted.tag = tag;
  return {to, accepted, {}, true};
}

TEST(HeldAnswers, AnyAnswer_WhilePromisesMayLeave_Leaves) {
  HeldAnswers held;
  EXPECT_FALSE(held.take(accepted(kClient, 1), false));
  EXPECT_FALSE(held.take(fin(kClient, 1), false));
  EXPECT_TRUE(held.empty());
}

TEST(HeldAnswers, TokensOfARunningRequest_WhilePromisesWait_Leave) {
  HeldAnswers held;
  EXPECT_FALSE(held.take(event(kClient, 1, /*full=*/false), true));
}

TEST(HeldAnswers, End_WhilePromisesWait_Waits) {
  HeldAnswers held;
  EXPECT_TRUE(held.take(fin(kClient, 1), true));
  EXPECT_EQ(held.size(), 1u);
}

TEST(HeldAnswers, Refusal_WhilePromisesWait_WaitsIfItSaysThatARequestIsNotThere) {
  HeldAnswers held;
  wire::Refused refused;
  refused.refusal.code = Errc::kQueueFull;
  EXPECT_FALSE(held.take(Delivery{kClient, refused}, true));
  refused.refusal.code = Errc::kNotFound;
  EXPECT_TRUE(held.take(Delivery{kClient, refused}, true)) << "another primary may have it";
}

TEST(HeldAnswers, FirstTokens_WhilePromisesWait_WaitWithAllThatFollows) {
  HeldAnswers held;
  EXPECT_TRUE(held.take(event(kClient, 1, /*full=*/true), true));
  EXPECT_TRUE(held.take(event(kClient, 1, /*full=*/false), true)) << "of the same stream";
  EXPECT_FALSE(held.take(event(kClient, 2, /*full=*/false), true)) << "of another one";
  EXPECT_FALSE(held.take(event(kOther, 1, /*full=*/false), true)) << "of another client";
  EXPECT_TRUE(held.take(event(kClient, 1, /*full=*/false), false)) << "they were not released yet";
  EXPECT_EQ(held.release().size(), 3u);
  EXPECT_FALSE(held.take(event(kClient, 1, /*full=*/false), false));
}

TEST(HeldAnswers, AnswersOfAClient_ThatIsGone_AreForgotten) {
  HeldAnswers held;
  EXPECT_TRUE(held.take(accepted(kClient, 1), true));
  EXPECT_TRUE(held.take(accepted(kOther, 1), true));
  held.forget(kClient);
  EXPECT_EQ(held.size(), 1u);
  EXPECT_FALSE(held.take(event(kClient, 1, /*full=*/false), true));
}

}  // namespace
}  // namespace holdfast::daemon::held_answers_test
