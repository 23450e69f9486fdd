#pragma once
// Repetitions with large counts, in few states: blocks of a fixed number of units that call each
// other, level by level, so that a count of a million needs only some hundred states.

#include <map>
#include <string>
#include <utility>

#include "shared/grammar/rule_set.h"

namespace holdfast::grammar {

/// The repetition of a unit, with the end after the last one. No unit begins like the end. Not
/// thread-safe.
class Counted {
 public:
  /// The count above which this saves states.
  static constexpr std::uint32_t kPlainMax = 256;

  Counted(RuleSet& rules, std::string name, Expr unit, Expr end, Encoding encoding)
      : rules_(rules),
        name_(std::move(name)),
        unit_(std::move(unit)),
        end_(std::move(end)),
        encoding_(encoding) {}
  /// Returns the rule of the unit `min` to `max` times (perhaps kUnlimited), then the end. At most
  /// two ways to read a text are open at once on each level.
  RuleId between(std::uint32_t min, std::uint32_t max);

 private:
  static constexpr std::uint32_t kBlock = 128;  // units of a block, blocks of the next level

  RuleId full(std::uint32_t level);
  RuleId at_most(std::uint32_t n);
  std::uint32_t append_exactly(Nfa& nfa, std::uint32_t from, std::uint32_t n);

  RuleSet& rules_;
  const std::string name_;
  const Expr unit_;
  const Expr end_;
  const Encoding encoding_;
  std::map<std::uint32_t, RuleId> full_;     // by level
  std::map<std::uint32_t, RuleId> at_most_;  // by count
};

}  // namespace holdfast::grammar
