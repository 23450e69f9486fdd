#pragma once
// Numbers within bounds and multiples, as automata over their digits.

#include <optional>
#include <string>
#include <vector>

#include "shared/grammar/dfa.h"
#include "shared/grammar/schema.h"

namespace holdfast::grammar {

/// The constraints on a number.
struct NumberSpec {
  bool integer = false;   // integers alone
  bool fraction = false;  // all but integers
  std::optional<Bound> lower;
  std::optional<Bound> upper;
  std::vector<Decimal> steps;  // multipleOf, all of them

  bool is_free() const { return !fraction && !lower && !upper && steps.empty(); }
  std::string key() const;  // equal for equal specs
};

/// Returns decimal numbers without exponent and with at most 15 significant digits, so that a
/// reader that converts them to doubles still finds them within the bounds. kUnsupported for a step
/// that needs too many states. `pointer` is for errors.
Result<Dfa> number_dfa(const NumberSpec& spec, const std::string& pointer, Budget& budget);

}  // namespace holdfast::grammar
