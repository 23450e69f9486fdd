// Goal: one table of a request's states, the same in the code and in docs/inside/durability.md;
// nothing leaves a terminal state. Method: reads the page as text.
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
  for (const RequestTransition& transition : request_transitions()) {
    lines.insert(std::string(wire::state_name(transition.from)) + " " +
                 std::string(change_name(transition.change)) + " " +
                 std::string(wire::state_name(transition.to)));
  }
  return lines;
}

TEST(Transitions, Transitions_InTheDocument_AreThoseOfTheCode) {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/docs/inside/durability.md");
  ASSERT_TRUE(file.good());
  const std::regex row(R"(\| `([a-z]+)` \| ([a-z]+) \| `([a-z]+)` \|.*)");
  std::set<std::string> documented;
  std::smatch m;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, m, row)) {
      documented.insert(m[1].str() + " " + m[2].str() + " " + m[3].str());
    }
  }
  EXPECT_EQ(documented, in_code());
}

TEST(Transitions, Transitions_WhenListed_AreUniqueAndLeaveNoTerminalState) {
  EXPECT_EQ(in_code().size(), request_transitions().size());
  for (const RequestTransition& transition : request_transitions()) {
    EXPECT_FALSE(wire::is_terminal(transition.from));
    EXPECT_EQ(next_state(transition.from, transition.change), transition.to);
  }
  for (const RequestState end : {RequestState::kSucceeded, RequestState::kFailed,
                                 RequestState::kCancelled, RequestState::kExpired}) {
    for (int c = 0; c <= static_cast<int>(RequestChange::kReleased); ++c) {
      EXPECT_FALSE(next_state(end, static_cast<RequestChange>(c)).has_value());
    }
  }
}

TEST(ModelTransitions, LegalChange_WhenNotListed_IsFalse) {
  for (int from = 0; from <= static_cast<int>(ModelState::kFailed); ++from) {
    for (int to = 0; to <= static_cast<int>(ModelState::kFailed); ++to) {
      bool listed = false;
      for (const ModelTransition& transition : model_transitions()) {
        listed = listed || (static_cast<int>(transition.from) == from &&
                            static_cast<int>(transition.to) == to);
      }
      EXPECT_EQ(legal_change(static_cast<ModelState>(from), static_cast<ModelState>(to)), listed)
          << from << " to " << to;
    }
  }
  EXPECT_FALSE(legal_change(ModelState::kRegistered, ModelState::kReady));
}

}  // namespace
}  // namespace holdfast::core::transitions_test
