#pragma once
// The content of a compiled grammar: one deterministic byte automaton for each rule, with call
// edges to other rules, all states in one numbering. Every state can reach an end of its rule, so
// any text that is a path is the beginning of some complete text.

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "shared/grammar/grammar.h"

namespace holdfast::grammar {

using StateId = std::uint32_t;
using RuleId = std::uint32_t;
constexpr StateId kDead = 0xFFFFFFFFu;

/// States that agree on every text of at most this many bytes share a class.
constexpr std::uint32_t kHorizonBytes = 16;

/// The automata of all rules. Immutable once compiled, so that any number of matchers share it.
struct Grammar {
  struct Call {
    RuleId rule;
    StateId to;  // where the caller continues
  };
  struct Rule {
    std::array<std::uint8_t, 256> class_of{};
    std::uint32_t classes = 0;
    StateId start = 0;
    bool nullable = false;   // derives the empty text
    bool has_calls = false;  // in any of its states
  };
  struct State {
    std::uint32_t row = 0;  // in `next`: row + class_of[byte]
    RuleId rule = 0;
    std::uint32_t call_begin = 0;
    std::uint32_t call_end = 0;
    bool accepting = false;
    bool has_bytes = false;  // has an edge for some byte
    std::int16_t only = -1;  // the only byte with an edge; -1: none, or more than one
  };
  std::vector<Rule> rules;
  std::vector<State> states;
  std::vector<StateId> next;
  std::vector<Call> calls;
  std::vector<StateId> horizon;  // per state: the first state that agrees within kHorizonBytes
  std::bitset<256> bytes_used;
  RuleId root = 0;

  StateId step(StateId state, std::uint8_t byte) const {
    const State& s = states[state];
    return next[s.row + rules[s.rule].class_of[byte]];
  }
  /// Returns true if nothing can follow in the state's rule.
  bool is_final(StateId state) const {
    const State& s = states[state];
    return s.accepting && !s.has_bytes && s.call_begin == s.call_end;
  }
};

}  // namespace holdfast::grammar
