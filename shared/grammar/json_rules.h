#pragma once
// JSON text in the form of generated documents (docs/use/structured-output.md): white space is
// bounded, numbers have bounded lengths.

#include "shared/grammar/rule_set.h"

namespace holdfast::grammar {

constexpr std::uint32_t kIndentSpacesMax = 32;
constexpr std::uint32_t kIndentTabsMax = 16;
constexpr std::uint32_t kIntegerDigitsMax = 18;
constexpr std::uint32_t kFractionDigitsMax = 17;

/// Makes rules when they are first requested. Not thread-safe.
class JsonRules {
 public:
  explicit JsonRules(RuleSet& rules) : rules_(rules) {}
  RuleId any_value();
  RuleId any_object();
  RuleId any_array();
  RuleId any_string();  // every escape; surrogates only in pairs
  RuleId any_key();     // canonical, so that equal names have equal texts: Encoding::kJson
  RuleId any_number();
  RuleId any_integer();
  /// Matches the space after '{', '[' and ',' and before '}' and ']': nothing, a space, or a new
  /// line with its indentation.
  Expr gap();
  /// Matches ':' and nothing or a space.
  static Expr colon();

 private:
  RuleId once(RuleId& rule, const char* name, Expr (JsonRules::*make)());
  Expr make_gap();
  Expr make_value();
  Expr make_object();
  Expr make_array();
  Expr make_string();
  Expr make_number();
  Expr make_integer();

  static constexpr RuleId kNone = 0xFFFFFFFFu;
  RuleSet& rules_;
  RuleId gap_ = kNone;
  RuleId value_ = kNone;
  RuleId object_ = kNone;
  RuleId array_ = kNone;
  RuleId string_ = kNone;
  RuleId key_ = kNone;
  RuleId number_ = kNone;
  RuleId integer_ = kNone;
};

/// Matches the characters between the quotes of any string, in the form of Encoding::kJson.
Expr any_characters();
CharSet any_character();
Expr digits(std::uint32_t min, std::uint32_t max);

}  // namespace holdfast::grammar
