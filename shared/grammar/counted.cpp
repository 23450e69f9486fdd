#include "shared/grammar/counted.h"

namespace holdfast::grammar {
namespace {

/// Returns the largest power of `block` that is at most n, as its exponent and its value.
std::pair<std::uint32_t, std::uint64_t> largest_power(std::uint32_t block, std::uint32_t n) {
  std::pair<std::uint32_t, std::uint64_t> power{0, 1};
  while (power.second * block <= n) power = {power.first + 1, power.second * block};
  return power;
}

}  // namespace

/// Returns the rule of exactly kBlock^level units.
RuleId Counted::full(std::uint32_t level) {
  if (const auto at = full_.find(level); at != full_.end()) return at->second;
  Nfa nfa(rules_.budget());
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < kBlock && rules_.budget().ok(); ++i) {
    if (level == 1) {
      at = nfa.append(at, unit_, encoding_);
    } else {
      const std::uint32_t to = nfa.add_state();
      nfa.add_call(at, full(level - 1), to);
      at = to;
    }
  }
  nfa.set_accept(at);
  return full_[level] = rules_.add(name_, determinised(nfa));
}

std::uint32_t Counted::append_exactly(Nfa& nfa, std::uint32_t from, std::uint32_t n) {
  while (n >= kBlock && rules_.budget().ok()) {
    const auto [level, value] = largest_power(kBlock, n);
    const std::uint32_t to = nfa.add_state();
    nfa.add_call(from, full(level), to);
    from = to;
    n -= static_cast<std::uint32_t>(value);
  }
  return nfa.append(from, Expr::repeat(unit_, n, n), encoding_);
}

/// Returns the rule of at most n units and the end: whole blocks, each of which may be the last
/// one.
RuleId Counted::at_most(std::uint32_t n) {
  if (const auto at = at_most_.find(n); at != at_most_.end()) return at->second;
  Nfa nfa(rules_.budget());
  if (n < kBlock) {
    nfa.set_accept(nfa.append(0, Expr::seq({Expr::repeat(unit_, 0, n), end_}), encoding_));
    return at_most_[n] = rules_.add(name_, determinised(nfa));
  }
  const auto [level, value] = largest_power(kBlock, n);
  const std::uint32_t accept = nfa.add_state();
  nfa.set_accept(accept);
  const auto whole = static_cast<std::uint32_t>(value);
  std::uint32_t at = 0;
  std::uint32_t rest = n;
  for (; rest >= whole && rules_.budget().ok(); rest -= whole) {
    const std::uint32_t to = nfa.add_state();
    nfa.add_call(at, full(level), to);
    nfa.add_call(at, at_most(whole - 1), accept);
    at = to;
  }
  nfa.add_call(at, at_most(rest), accept);
  return at_most_[n] = rules_.add(name_, determinised(nfa));
}

RuleId Counted::between(std::uint32_t min, std::uint32_t max) {
  Nfa nfa(rules_.budget());
  const std::uint32_t at = append_exactly(nfa, 0, min);
  if (max == kUnlimited) {
    nfa.set_accept(
        nfa.append(at, Expr::seq({Expr::repeat(unit_, 0, kUnlimited), end_}), encoding_));
  } else {
    const std::uint32_t accept = nfa.add_state();
    nfa.set_accept(accept);
    nfa.add_call(at, at_most(max - min), accept);
  }
  return rules_.add(name_, determinised(nfa));
}

}  // namespace holdfast::grammar
