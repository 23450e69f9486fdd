#pragma once
// Deterministic automata of one rule: made from an Nfa, and combined.

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/grammar/nfa.h"

namespace holdfast::grammar {

/// An automaton; state 0 is the start. Plain data.
struct Dfa {
  static constexpr std::uint32_t kDead = 0xFFFFFFFFu;
  struct Call {
    std::uint32_t rule;
    std::uint32_t to;
  };
  std::array<std::uint8_t, 256> class_of{};
  std::uint32_t classes = 1;
  std::vector<std::uint32_t> next;  // [states * classes]
  std::vector<std::uint8_t> accepting;
  std::vector<std::vector<Call>> calls;  // by state; empty in all if the rule calls none

  std::uint32_t size() const { return static_cast<std::uint32_t>(accepting.size()); }
  std::uint32_t step(std::uint32_t state, std::uint8_t byte) const {
    return next[static_cast<std::size_t>(state) * classes + class_of[byte]];
  }
  bool matches(std::string_view bytes) const;  // requires a rule without calls
  bool is_empty() const;                       // no text at all; requires a rule without calls
};

/// Determinises by subset construction; call edges count as symbols. Over budget the result is
/// useless.
Dfa determinised(const Nfa& nfa);
/// Continues `nfa` from a state with the texts of `dfa`, which calls no rules. Returns their end
/// state.
std::uint32_t append_dfa(Nfa& nfa, std::uint32_t from, const Dfa& dfa);
/// Returns an automaton of the same texts that calls no rules, without states from which no text
/// ends; the start stays.
Dfa trimmed(const Dfa& dfa);
/// Numbers the bytes so that those between two `begins` share a number. Returns how many there are.
std::uint32_t classify(const std::bitset<257>& begins, std::array<std::uint8_t, 256>& class_of);
/// Returns the first byte of each class.
std::vector<std::uint8_t> bytes_of_classes(const Dfa& dfa);
/// Returns the texts of `a` that are also (or, with `but_not`, are not) texts of `b`. Neither calls
/// rules.
Dfa intersected(const Dfa& a, const Dfa& b, bool but_not, Budget& budget);

}  // namespace holdfast::grammar
