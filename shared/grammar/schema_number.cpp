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
      State to{s.at + 1, s.at_lower, s.at_upper};
      if (s.at_lower) {
        const int b = bound_digit(lower_.value, s.at);
        if (d < b) continue;
        to.at_lower = d == b;
      }
      if (s.at_upper) {
        const int b = bound_digit(upper_->value, s.at);
        if (d > b) continue;
        to.at_upper = d == b;
      }
      const auto byte = static_cast<std::uint8_t>('0' + d);
      nfa_.add_bytes(from, byte, byte, state(to));
    }
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

Dfa range_dfa(const NumberSpec& spec, std::size_t fraction_max, std::size_t digits_max,
              Budget& budget) {
  Nfa nfa(budget);
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  const Bound zero{Decimal::of(0), false};
  if (!spec.upper || !spec.upper->value.negative) {  // 0 and above
    const bool from_zero = !spec.lower || spec.lower->value.negative;
    const Bound lower = from_zero ? zero : *spec.lower;
    Magnitudes(nfa, lower, spec.upper, fraction_max).append(0, end, digits_max);
  }
  const bool below_zero = !spec.lower || spec.lower->value.negative;
  if (below_zero) {
    const bool to_zero = !spec.upper || !spec.upper->value.negative;
    const Bound lower = to_zero ? Bound{Decimal::of(0), true}
                                : Bound{spec.upper->value.magnitude(), spec.upper->exclusive};
    std::optional<Bound> upper;
    if (spec.lower) upper = Bound{spec.lower->value.magnitude(), spec.lower->exclusive};
    const std::uint32_t minus = nfa.add_state();
    nfa.add_bytes(0, '-', '-', minus);
    Magnitudes(nfa, lower, upper, fraction_max).append(minus, end, digits_max);
  }
  return determinised(nfa);
}

/// Returns the numbers that are a multiple of step. A state is the remainder of the digits read so
/// far, and how many of them are after the point.
Result<Dfa> step_dfa(const Decimal& step, const std::string& pointer, Budget& budget) {
  const std::string digits = step.integer + step.fraction;
  const auto fraction_digits = static_cast<std::uint32_t>(step.fraction.size());
  const bool small = digits.size() <= 9 && fraction_digits <= 9 && std::stoul(digits) <= kStepMax;
  if (!small) {
    return schema_error(Errc::kUnsupported, "multipleOf", pointer,
                        step.str() + " has too many digits; expected at most " +
                            std::to_string(kStepMax) + " without its point");
  }
  const auto m = static_cast<std::uint32_t>(std::stoul(digits));
  // State 0: start; 1: after the sign; then [phase * m + remainder]: phase 0 before the point,
  // phase 1 + k with k digits after it.
  Nfa nfa(budget);
  nfa.add_bytes(0, '-', '-', nfa.add_state());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  const std::uint32_t first = nfa.size();
  for (std::uint32_t i = 0; i < (fraction_digits + 2) * m && budget.ok(); ++i) nfa.add_state();
  if (!budget.ok()) return budget.error("compile JSON schema");
  const auto at = [&](std::uint32_t phase, std::uint32_t r) { return first + phase * m + r; };
  const auto digit = [&](std::uint32_t from, std::uint32_t d, std::uint32_t to) {
    const auto byte = static_cast<std::uint8_t>('0' + d);
    nfa.add_bytes(from, byte, byte, to);
  };
  for (std::uint32_t d = 0; d <= 9; ++d) {
    digit(0, d, at(0, d % m));
    digit(1, d, at(0, d % m));
  }
  for (std::uint32_t phase = 0; phase <= fraction_digits + 1; ++phase) {
    for (std::uint32_t r = 0; r < m; ++r) {
      std::uint64_t whole = r;
      for (std::uint32_t i = phase == 0 ? 0 : phase - 1; i < fraction_digits; ++i)
        whole = whole * 10 % m;
      if (whole % m == 0) nfa.add_empty(at(phase, r), end);
      if (phase == 0) nfa.add_bytes(at(0, r), '.', '.', at(1, r));
      for (std::uint32_t d = 0; d <= 9; ++d) {
        const std::uint32_t next = (r * 10 + d) % m;
        if (phase == 0 || phase <= fraction_digits)
          digit(at(phase, r), d, at(phase == 0 ? 0 : phase + 1, next));
        if (phase == fraction_digits + 1 && d == 0) digit(at(phase, r), 0, at(phase, r));
      }
    }
  }
  return determinised(nfa);
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
  std::size_t fraction_digits = 0;
  if (!spec.integer && bound_digits < kDoubleDigits) {
    fraction_digits = std::min(kBoundFractionMax, kDoubleDigits - bound_digits);
  }
  for (const Decimal& step : spec.steps)
    fraction_digits = std::min(fraction_digits, step.fraction.size());
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
