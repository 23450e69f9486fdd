// Goal: one table of a request's states, the same in the code and in docs/durability.md; nothing
// leaves a terminal state. Method: reads the page as text.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "control/core/transitions.h"

namespace holdfast::core::transitions_test {
namespace {

std::set<std::string> in_code() {
  std::set<std::string> lines;
  for (const RequestArrow& arrow : request_arrows()) {
    lines.insert(std::string(wire::state_name(arrow.from)) + " " +
                 std::string(change_name(arrow.change)) + " " +
                 std::string(wire::state_name(arrow.to)));
  }
  return lines;
}

TEST(Transitions, TheDocumentShowsTheTable) {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/docs/durability.md");
  ASSERT_TRUE(file.good());
  const std::regex row(R"(\| `([a-z]+)` \| ([a-z]+) \| `([a-z]+)` \|.*)");
  std::set<std::string> shown;
  std::smatch m;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, m, row)) {
      shown.insert(m[1].str() + " " + m[2].str() + " " + m[3].str());
    }
  }
  EXPECT_EQ(shown, in_code());
}

TEST(Transitions, EachArrowOnceAndNoneLeavesAnEnd) {
  EXPECT_EQ(in_code().size(), request_arrows().size());
  for (const RequestArrow& arrow : request_arrows()) {
    EXPECT_FALSE(wire::is_terminal(arrow.from));
    EXPECT_EQ(next_state(arrow.from, arrow.change), arrow.to);
  }
  for (const RequestState end : {RequestState::kSucceeded, RequestState::kFailed,
                                 RequestState::kCancelled, RequestState::kExpired}) {
    for (int c = 0; c <= static_cast<int>(RequestChange::kReleased); ++c) {
      EXPECT_FALSE(next_state(end, static_cast<RequestChange>(c)).has_value());
    }
  }
}

TEST(ModelArrows, AreTheOnlyChanges) {
  for (int from = 0; from <= static_cast<int>(ModelState::kFailed); ++from) {
    for (int to = 0; to <= static_cast<int>(ModelState::kFailed); ++to) {
      bool listed = false;
      for (const ModelArrow& arrow : model_arrows()) {
        listed =
            listed || (static_cast<int>(arrow.from) == from && static_cast<int>(arrow.to) == to);
      }
      EXPECT_EQ(legal_change(static_cast<ModelState>(from), static_cast<ModelState>(to)), listed)
          << from << " to " << to;
    }
  }
  EXPECT_FALSE(legal_change(ModelState::kRegistered, ModelState::kReady));
}

}  // namespace
}  // namespace holdfast::core::transitions_test
