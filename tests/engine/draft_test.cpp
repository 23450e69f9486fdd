// Goal: draft tokens are what followed where most of the last tokens came before, as long as that
// pays, and get rare where they are rejected.
// Method: texts made for each rule, and random ones of few tokens against a second version of the
// rule.
#include "worker/engine/draft.h"

#include <gtest/gtest.h>

#include "worker/engine/philox.h"

namespace holdfast::engine::draft_test {
namespace {

using Tokens = std::vector<Drafter::TokenId>;

constexpr Drafter::Price kCheap = {0.01, 1};

Tokens draft_of(Drafter& drafter, const Tokens& tokens, std::int64_t most = 7,
                Drafter::Price price = kCheap, std::size_t lead = 1) {
  const auto drafted = drafter.propose(tokens, lead, most, price);
  return {drafted.begin(), drafted.end()};
}

TEST(Drafter, Propose_WhenTheSuffixCameBefore_GivesWhatFollowedItsLongestMatch) {
  Drafter drafter;
  // "3 4 5" came twice, once after a 2 as now.
  EXPECT_EQ(draft_of(drafter, {2, 3, 4, 5, 60, 61, 62, 9, 3, 4, 5, 70, 71, 72, 2, 3, 4, 5}, 3),
            (Tokens{5, 60, 61, 62}));
  // The later one of two matches of the same length.
  EXPECT_EQ(draft_of(drafter, {8, 3, 4, 5, 60, 61, 62, 9, 3, 4, 5, 70, 71, 72, 2, 3, 4, 5}, 3),
            (Tokens{5, 70, 71, 72}));
  EXPECT_EQ(draft_of(drafter, {1, 2, 3, 4}), Tokens{}) << "nothing came before";
  EXPECT_EQ(draft_of(drafter, {5}), Tokens{});
  EXPECT_EQ(draft_of(drafter, {2, 3, 4, 2, 3, 4}, 0), Tokens{}) << "nothing is asked for";
}

TEST(Drafter, Propose_WhenTheTextRepeats_ContinuesBeyondItsEnd) {
  Tokens tokens;
  for (int i = 0; i < 23; ++i) tokens.push_back(i % 5);
  Drafter drafter;
  EXPECT_EQ(draft_of(drafter, tokens, 7, kCheap, 4), (Tokens{4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  const Tokens one = draft_of(drafter, {7, 7}, 7);
  EXPECT_GT(one.size(), 1u);
  for (const Drafter::TokenId id : one) EXPECT_EQ(id, 7);
}

/// A draft found by looking at every position.
Tokens reference_draft(const Tokens& tokens, std::size_t n) {
  std::size_t best_end = 0, best = 0;
  for (std::size_t end = 1; end < tokens.size(); ++end) {
    std::size_t same = 0;
    while (same < end && same < 32 && tokens[end - 1 - same] == tokens[tokens.size() - 1 - same]) {
      ++same;
    }
    if (same > 0 && same >= best) best = same, best_end = end;
  }
  if (best == 0) return {};
  Tokens text = tokens;
  for (std::size_t i = 0; i < n; ++i) text.push_back(text[best_end + i]);
  return {text.end() - static_cast<std::ptrdiff_t>(n) - 1, text.end()};
}

TEST(Drafter, Lookup_WhenComparedWithLinearSearch_FindsTheSameMatch) {
  std::int64_t drawn = 0;
  const auto draw = [&](std::uint64_t below) {
    return random_bits(1, 0, drawn++, RandomPurpose::kNeighbour) % below;
  };
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    Tokens tokens;
    const std::uint64_t letters = 1 + draw(6), n = 1 + draw(150);
    for (std::uint64_t i = 0; i < n; ++i) {
      const bool repeats = i > 8 && draw(4) != 0;
      tokens.push_back(repeats ? tokens[i - 1 - draw(8)]
                               : static_cast<Drafter::TokenId>(draw(letters)));
    }
    Drafter drafter;
    const Tokens drafted = draft_of(drafter, tokens);
    if (drafted.empty()) {
      EXPECT_EQ(reference_draft(tokens, 0), Tokens{});
      continue;
    }
    ++found;
    ASSERT_EQ(drafted, reference_draft(tokens, drafted.size() - 1)) << round;
  }
  EXPECT_GT(found, 2000);
}

Tokens circle() {
  Tokens tokens;
  for (int i = 0; i < 400; ++i) tokens.push_back(i % 50);
  return tokens;
}

TEST(Drafter, DraftTokens_WhenRejected_BecomeRareAndRecoverWhenAccepted) {
  const Tokens tokens = circle();
  constexpr Drafter::Price kUsual = {0.1, 1};
  Drafter drafter;
  std::vector<int> proposals(6);
  for (std::size_t hundred = 0; hundred < proposals.size(); ++hundred) {
    for (int i = 0; i < 100; ++i) {
      const Tokens drafted = draft_of(drafter, tokens, 7, kUsual);
      if (drafted.empty()) continue;
      ++proposals[hundred];
      drafter.learn(static_cast<std::int32_t>(drafted.size()) - 1, 0);
    }
  }
  EXPECT_LT(proposals[0], 40);
  EXPECT_LT(proposals[5], 25);
  EXPECT_GT(proposals[5], 0) << "it is tried again";
  for (int i = 0; i < 60; ++i) {
    const auto n = static_cast<std::int32_t>(draft_of(drafter, tokens, 7, {0.01, 1}).size());
    if (n > 0) drafter.learn(n - 1, n - 1);
  }
  EXPECT_EQ(draft_of(drafter, tokens, 7, kUsual).size(), 8u);
  for (int i = 0; i < 60; ++i) drafter.learn(1, 0);
  EXPECT_LT(draft_of(drafter, tokens, 7, kUsual).size(), 8u);
  drafter.restart();
  EXPECT_EQ(draft_of(drafter, tokens, 7, kUsual).size(), 8u) << "what is taken of a long likeness";
}

// The first three of seven draft tokens are accepted: four were verified, and of the others nothing
// is known.
TEST(Drafter, AcceptanceRate_WhenADraftIsPartlyAccepted_CountsVerifiedTokens) {
  const Tokens tokens = circle();
  Drafter drafter;
  EXPECT_EQ(draft_of(drafter, tokens).size(), 8u);
  for (int i = 0; i < 60; ++i) drafter.learn(7, 3);
  EXPECT_EQ(draft_of(drafter, tokens, 7, {0.02, 1}).size(), 8u);
  for (int i = 0; i < 200; ++i) drafter.learn(7, 1);
  EXPECT_EQ(draft_of(drafter, tokens, 7, {0.02, 1}).size(), 4u);
}

// A grammar's tokens come before those of the text, and have a record of their own.
TEST(Drafter, Propose_WhenTheGrammarForcesTokens_GivesThoseFirst) {
  const Tokens tokens = circle(), forced = {91, 92, 93, 94};
  Drafter drafter;
  const auto propose = [&](std::int64_t most, Drafter::Price price) {
    const auto drafted = drafter.propose(tokens, 2, most, price, forced);
    return Tokens(drafted.begin(), drafted.end());
  };
  EXPECT_EQ(propose(7, kCheap), (Tokens{48, 49, 91, 92, 93, 94}));
  EXPECT_EQ(propose(2, kCheap), (Tokens{48, 49, 91, 92}));
  EXPECT_EQ(propose(0, kCheap), Tokens{});
  // After them goes on what followed them before, if two tokens are the same there.
  const Tokens again = {91, 92, 70, 71, 93, 72, 5};
  const auto go_on = [&](const Tokens& forced_ids, std::int64_t most) {
    const auto drafted = drafter.propose(again, 1, most, kCheap, forced_ids);
    return Tokens(drafted.begin(), drafted.end());
  };
  EXPECT_EQ(go_on({91, 92}, 7), (Tokens{5, 91, 92, 70, 71, 93, 72, 5}));
  EXPECT_EQ(go_on({91, 92}, 3), (Tokens{5, 91, 92, 70}));
  EXPECT_EQ(go_on({93}, 7), (Tokens{5, 93}));
  EXPECT_EQ(go_on({72, 5, 72}, 7), (Tokens{5, 72, 5, 72, 5, 72, 5, 72}));  // a circle
  for (int i = 0; i < 60; ++i) drafter.learn(1, 0);
  EXPECT_EQ(propose(7, {0.1, 1}), Tokens{}) << "the model writes it otherwise";
  EXPECT_EQ(draft_of(drafter, tokens, 7, {0.1, 1}).size(), 8u);
  EXPECT_EQ(draft_of(drafter, {1, 2, 3}), Tokens{});
}

TEST(Drafter, DraftLength_WhenRowCostAndOddsDiffer_IsAsLongAsItPays) {
  Drafter drafter;
  const Tokens likely = circle();
  const Tokens doubtful = {5, 60, 61, 62, 63, 64, 65, 66, 9, 5};  // one token is the same
  const auto length = [&](const Tokens& tokens, Drafter::Price price, std::int64_t most = 7) {
    return std::max<std::size_t>(draft_of(drafter, tokens, most, price).size(), 1) - 1;
  };
  EXPECT_EQ(length(likely, {0.01, 1}), 7u);
  EXPECT_EQ(length(likely, {0.35, 1}), 7u);
  EXPECT_EQ(length(likely, {0.35, 4}), 0u) << "four others wait for one";
  EXPECT_EQ(length(likely, {0.1, 4}), 7u);
  EXPECT_EQ(length(likely, {0.01, 1}, 5), 5u);
  EXPECT_EQ(length(likely, {0.01, 1}, 2), 2u);
  EXPECT_EQ(length(doubtful, {0.01, 1}), 3u);
  EXPECT_EQ(length(doubtful, {0.1, 1}), 1u);
  EXPECT_EQ(length(doubtful, {0.3, 1}), 0u);
  EXPECT_EQ(length(doubtful, {0.1, 4}), 0u);
}

}  // namespace
}  // namespace holdfast::engine::draft_test
