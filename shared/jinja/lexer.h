#pragma once
// Splits a template into text and tokens, by the whitespace rules that model templates assume:
// trim_blocks, lstrip_blocks, no trailing newline (the documented behaviour of Jinja2's lexer).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::text::jinja {

/// The kinds of tokens: text of the template, the marks {% %} and {{ }}, and the words between
/// them.
enum class TokenKind : std::uint8_t {
  kText,
  kBlockBegin,
  kBlockEnd,
  kOutputBegin,
  kOutputEnd,
  kName,
  kInteger,
  kFloat,
  kString,
  kOperator,
  kEnd
};

/// A token with the line on which it begins, from 1.
struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

/// Splits a template. Throws TemplateError with the line.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace holdfast::text::jinja
