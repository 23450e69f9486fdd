#include "shared/grammar/schema_number.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "shared/grammar/json_rules.h"
#include "shared/grammar/regex.h"

namespace holdfast::grammar {
namespace {

constexpr std::size_t kDoubleDigits = 15;      // that a double holds exactly
constexpr std::size_t kBoundFractionMax = 10;  // digits after the point of a bounded number
constexpr std::uint32_t kStepMax = 10'000;     // of a multipleOf, without the point

/// Adds the magnitudes between two bounds: for each count of digits before the point a chain of
/// states, each with the information whether the digits so far equal those of a bound.
class Magnitudes {
 public:
  Magnitudes(Nfa& nfa, const Bound& lower, const std::optional<Bound>& upper, std::size_t fraction)
      : nfa_(nfa), lower_(lower), upper_(upper), fraction_max_(fraction) {}

  void append(std::uint32_t from, std::uint32_t end, std::size_t digits_max) {
    end_ = end;
    const std::size_t low_size = std::max<std::size_t>(1, lower_.value.integer.size());
    const std::size_t high_size =
        upper_ ? std::max<std::size_t>(1, upper_->value.integer.size()) : digits_max;
    for (std::size_t n = low_size; n <= std::min(high_size, digits_max); ++n) {
      states_.clear();
      digits_ = n;
      const State start{0, n == low_size, upper_ && n == high_size};
      nfa_.add_empty(from, state(start));
      todo_.assign(1, start);
      while (!todo_.empty() && nfa_.budget().ok()) {
        const State s = todo_.back();
        todo_.pop_back();
        expand(s);
      }
    }
  }

 private:
  /// The progress of a number: `at` counts digits; digits_ + 1 + k means that k digits after the
  /// point were read.
  struct State {
    std::size_t at;
    bool at_lower;
    bool at_upper;
    auto operator<=>(const State&) const = default;
  };
  static int digit_of(const std::string& digits, std::size_t at, int beyond) {
    return at < digits.size() ? digits[at] - '0' : beyond;
  }
  std::uint32_t state(const State& s) {
    const auto [at, is_new] = states_.try_emplace(s, 0);
    if (is_new) {
      at->second = nfa_.add_state();
      if (s.at != 0) todo_.push_back(s);
    }
    return at->second;
  }
  int bound_digit(const Decimal& bound, std::size_t at) const {
    if (at < digits_) return bound.integer.empty() ? 0 : digit_of(bound.integer, at, 0);
    return digit_of(bound.fraction, at - digits_ - 1, 0);
  }
  void expand(const State& s) {
    const std::uint32_t from = state(s);
    if (may_stop(s)) nfa_.add_empty(from, end_);
    if (s.at == digits_) {
      if (fraction_max_ > 0) {
        nfa_.add_bytes(from, '.', '.', state({s.at + 1, s.at_lower, s.at_upper}));
      }
      return;
    }
    if (s.at > digits_ + fraction_max_) return;
    for (int d = s.at == 0 && digits_ > 1 ? 1 : 0; d <= 9; ++d) {
      const std::optional<State> to = after_digit(s, d);
      if (!to) continue;
      const auto byte = static_cast<std::uint8_t>('0' + d);
      nfa_.add_bytes(from, byte, byte, state(*to));
    }
  }
  /// Returns nullopt if the digit leads beyond a bound.
  std::optional<State> after_digit(const State& s, int d) const {
    State to{s.at + 1, s.at_lower, s.at_upper};
    if (s.at_lower) {
      const int b = bound_digit(lower_.value, s.at);
      if (d < b) return std::nullopt;
      to.at_lower = d == b;
    }
    if (s.at_upper) {
      const int b = bound_digit(upper_->value, s.at);
      if (d > b) return std::nullopt;
      to.at_upper = d == b;
    }
    return to;
  }
  bool may_stop(const State& s) const {
    if (s.at < digits_ || s.at == digits_ + 1) return false;
    const std::size_t written_digits = s.at == digits_ ? 0 : s.at - digits_ - 1;
    if (s.at_lower && (lower_.value.fraction.size() > written_digits || lower_.exclusive))
      return false;
    return !s.at_upper || upper_->value.fraction.size() > written_digits || !upper_->exclusive;
  }

  Nfa& nfa_;
  const Bound& lower_;
  const std::optional<Bound>& upper_;
  std::size_t fraction_max_;
  std::size_t digits_ = 0;
  std::uint32_t end_ = 0;
  std::map<State, std::uint32_t> states_;
  std::vector<State> todo_;
};

/// Returns true if numbers below zero are within the bound.
bool is_below_zero(const std::optional<Bound>& lower) {
  return !lower || lower->value.negative;
}

/// Returns the bound of the number without its sign.
std::optional<Bound> without_sign(const std::optional<Bound>& bound) {
  if (!bound) return std::nullopt;
  return Bound{bound->value.magnitude(), bound->exclusive};
}

Dfa range_dfa(const NumberSpec& spec, std::size_t fraction_max, std::size_t digits_max,
              Budget& budget) {
  Nfa nfa(budget);
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  const bool reaches_zero = !spec.upper || !spec.upper->value.negative;
  if (reaches_zero) {
    const Bound zero{Decimal::of(0), false};
    const Bound lower = is_below_zero(spec.lower) ? zero : *spec.lower;
    Magnitudes(nfa, lower, spec.upper, fraction_max).append(0, end, digits_max);
  }
  if (is_below_zero(spec.lower)) {
    const Bound lower = reaches_zero ? Bound{Decimal::of(0), true} : *without_sign(spec.upper);
    const std::optional<Bound> upper = without_sign(spec.lower);
    const std::uint32_t minus = nfa.add_state();
    nfa.add_bytes(0, '-', '-', minus);
    Magnitudes(nfa, lower, upper, fraction_max).append(minus, end, digits_max);
  }
  return determinised(nfa);
}

/// An automaton of the multiples of `m` / 10^`fraction_digits`. A state is the remainder of the
/// digits read so far, and its phase: 0 before the point, 1 + k with k digits after it.
class MultiplesNfa {
 public:
  MultiplesNfa(std::uint32_t m, std::uint32_t fraction_digits, Budget& budget)
      : m_(m), fraction_digits_(fraction_digits), nfa_(budget) {}

  /// Adds all states; returns false if they are too many.
  bool add_states() {
    signed_start_ = nfa_.add_state();
    nfa_.add_bytes(0, '-', '-', signed_start_);
    end_ = nfa_.add_state();
    nfa_.set_accept(end_);
    first_ = nfa_.size();
    const std::uint32_t states = (fraction_digits_ + 2) * m_;
    for (std::uint32_t i = 0; i < states && nfa_.budget().ok(); ++i) nfa_.add_state();
    return nfa_.budget().ok();
  }
  /// Adds the edges between the states.
  const Nfa& build() {
    for (std::uint32_t d = 0; d <= 9; ++d) {
      add_digit(0, d, at(0, d % m_));
      add_digit(signed_start_, d, at(0, d % m_));
    }
    for (std::uint32_t phase = 0; phase <= fraction_digits_ + 1; ++phase) {
      for (std::uint32_t r = 0; r < m_; ++r) expand(phase, r);
    }
    return nfa_;
  }

 private:
  std::uint32_t at(std::uint32_t phase, std::uint32_t r) const { return first_ + phase * m_ + r; }

  void add_digit(std::uint32_t from, std::uint32_t d, std::uint32_t to) {
    const auto byte = static_cast<std::uint8_t>('0' + d);
    nfa_.add_bytes(from, byte, byte, to);
  }
  /// Returns true if zeros in place of the missing digits make a multiple.
  bool is_multiple(std::uint32_t phase, std::uint32_t r) const {
    std::uint64_t whole = r;
    for (std::uint32_t i = phase == 0 ? 0 : phase - 1; i < fraction_digits_; ++i) {
      whole = whole * 10 % m_;
    }
    return whole % m_ == 0;
  }
  void expand(std::uint32_t phase, std::uint32_t r) {
    const std::uint32_t from = at(phase, r);
    if (is_multiple(phase, r)) nfa_.add_empty(from, end_);
    if (phase == 0) nfa_.add_bytes(from, '.', '.', at(1, r));
    if (phase > fraction_digits_) {  // zeros change nothing any more
      add_digit(from, 0, from);
      return;
    }
    for (std::uint32_t d = 0; d <= 9; ++d) {
      add_digit(from, d, at(phase == 0 ? 0 : phase + 1, (r * 10 + d) % m_));
    }
  }

  const std::uint32_t m_;
  const std::uint32_t fraction_digits_;
  Nfa nfa_;
  std::uint32_t signed_start_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t first_ = 0;
};

/// Returns the numbers that are a multiple of step.
Result<Dfa> step_dfa(const Decimal& step, const std::string& pointer, Budget& budget) {
  const std::string digits = step.integer + step.fraction;
  const auto fraction_digits = static_cast<std::uint32_t>(step.fraction.size());
  const bool small = digits.size() <= 9 && fraction_digits <= 9 && std::stoul(digits) <= kStepMax;
  if (!small) {
    return schema_error(Errc::kUnsupported, "multipleOf", pointer,
                        step.str() + " has too many digits; expected at most " +
                            std::to_string(kStepMax) + " without its point");
  }
  MultiplesNfa multiples(static_cast<std::uint32_t>(std::stoul(digits)), fraction_digits, budget);
  if (!multiples.add_states()) return budget.error("compile JSON schema");
  return determinised(multiples.build());
}

/// Returns the most digits after the point of a number whose bounds have `bound_digits` before it.
std::size_t fraction_digits_of(const NumberSpec& spec, std::size_t bound_digits) {
  if (spec.integer || bound_digits >= kDoubleDigits) return 0;
  std::size_t digits = std::min(kBoundFractionMax, kDoubleDigits - bound_digits);
  for (const Decimal& step : spec.steps) digits = std::min(digits, step.fraction.size());
  return digits;
}

}  // namespace

std::string NumberSpec::key() const {
  std::string out = integer ? "i" : fraction ? "f" : "n";
  if (lower) out += (lower->exclusive ? ">" : "]") + lower->value.str();
  if (upper) out += (upper->exclusive ? "<" : "[") + upper->value.str();
  for (const Decimal& step : steps) out += "*" + step.str();
  return out;
}

Result<Dfa> number_dfa(const NumberSpec& spec, const std::string& pointer, Budget& budget) {
  std::size_t bound_digits = 1;
  for (const std::optional<Bound>& bound : {spec.lower, spec.upper}) {
    if (bound) bound_digits = std::max(bound_digits, bound->value.integer.size());
  }
  const std::size_t fraction_digits = fraction_digits_of(spec, bound_digits);
  std::size_t digits_max = spec.integer ? kIntegerDigitsMax : kDoubleDigits;
  if (spec.fraction)
    digits_max -= fraction_digits;  // else a double would have no digits for the fraction
  Dfa dfa = range_dfa(spec, fraction_digits, std::max(digits_max, bound_digits), budget);
  if (spec.fraction) {
    const Result<Expr> some = parse_regex("[^.]*\\.[0-9]*[1-9][0-9]*", 64);
    dfa = intersected(dfa, dfa_of_whole(some.value(), Encoding::kJson, budget), false, budget);
  }
  for (const Decimal& step : spec.steps) {
    HOLDFAST_TRY(const Dfa multiples, step_dfa(step, pointer, budget));
    dfa = intersected(dfa, multiples, false, budget);
  }
  return dfa;
}

}  // namespace holdfast::grammar
