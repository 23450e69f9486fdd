#pragma once
// Expressions of the front ends, over characters, literal bytes and calls of rules.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/grammar/char_set.h"

namespace holdfast::grammar {

constexpr std::uint32_t kUnlimited = 0xFFFFFFFFu;

/// A node of an expression, with its operands in `parts`.
struct Expr {
  enum class Kind : std::uint8_t {
    kEmpty,    // the empty text
    kNothing,  // no text at all
    kLiteral,  // `bytes`, unchanged
    kChars,    // one character of `chars`
    kSeq,
    kAlt,
    kRepeat,  // parts[0], min to max times
    kCall,    // the rule `rule`
    kBegin,   // only where the text begins (regular expressions)
    kEnd,
    kLook,  // where parts[0] matches the text after (`ahead`) or before, or does not
  };
  Kind kind = Kind::kEmpty;
  std::string bytes;
  CharSet chars;
  std::vector<Expr> parts;
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::uint32_t rule = 0;
  bool ahead = false;
  bool negative = false;

  static Expr empty() { return {}; }
  static Expr nothing() { return of(Kind::kNothing); }
  static Expr literal(std::string bytes) {
    Expr e = of(Kind::kLiteral);
    e.bytes = std::move(bytes);
    return e;
  }
  static Expr one_of(CharSet chars) {
    Expr e = of(Kind::kChars);
    e.chars = std::move(chars);
    return e;
  }
  static Expr seq(std::vector<Expr> parts) {
    Expr e = of(Kind::kSeq);
    e.parts = std::move(parts);
    return e;
  }
  static Expr alt(std::vector<Expr> parts) {
    Expr e = of(Kind::kAlt);
    e.parts = std::move(parts);
    return e;
  }
  static Expr repeat(Expr part, std::uint32_t min, std::uint32_t max) {
    Expr e = of(Kind::kRepeat);
    e.parts.push_back(std::move(part));
    e.min = min;
    e.max = max;
    return e;
  }
  static Expr optional(Expr part) { return repeat(std::move(part), 0, 1); }
  static Expr call(std::uint32_t rule) {
    Expr e = of(Kind::kCall);
    e.rule = rule;
    return e;
  }
  static Expr look(Expr part, bool ahead, bool negative) {
    Expr e = of(Kind::kLook);
    e.parts.push_back(std::move(part));
    e.ahead = ahead;
    e.negative = negative;
    return e;
  }
  static Expr of(Kind kind) {
    Expr e;
    e.kind = kind;
    return e;
  }
};

}  // namespace holdfast::grammar
