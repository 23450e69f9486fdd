#pragma once
// The remaining budget of a compilation. Once something is exhausted, everything continues as
// no-operations and the front end checks at the end, so the builders need no error paths of their
// own.

#include <cstdint>
#include <string>

#include "shared/grammar/grammar.h"

namespace holdfast::grammar {

/// Counts states, work and rules against the limits of one compilation. Not thread-safe.
class Budget {
 public:
  explicit Budget(const GrammarLimits& limits) : limits_(limits) {}
  /// Takes states. False (from then on, always) when the limit is passed.
  bool take_states(std::uint64_t n) {
    states_ += n;
    if (states_ > limits_.states_max) exceed("states", limits_.states_max);
    return ok();
  }
  bool take_work(std::uint64_t n) {
    work_ += n;
    if (work_ > limits_.work_max) exceed("steps of compiling", limits_.work_max);
    return ok();
  }
  bool take_rules(std::uint64_t n) {
    rules_ += n;
    if (rules_ > limits_.rules_max) exceed("rules", limits_.rules_max);
    return ok();
  }
  bool ok() const { return over_.empty(); }
  const GrammarLimits& limits() const { return limits_; }
  /// Returns the error; `operation` is like "compile JSON schema".
  Error error(const std::string& operation) const {
    return {Errc::kInvalidRequest, operation + ": it needs more than " + over_ +
                                       "; use fewer or smaller repetitions and alternatives"};
  }

 private:
  void exceed(const char* what, std::uint64_t limit) {
    if (over_.empty()) over_ = std::to_string(limit) + " " + what;
  }
  GrammarLimits limits_;
  std::uint64_t states_ = 0;
  std::uint64_t work_ = 0;
  std::uint64_t rules_ = 0;
  std::string over_;
};

}  // namespace holdfast::grammar
