#include "shared/text/word_rules.h"

#include "shared/text/unicode_class.h"
#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

struct CharClass {
  std::uint8_t bits = 0;
  std::uint32_t bytes = 0;  // 0 at the end of the text
};

class Words {
 public:
  Words(const WordRule& rule, std::string_view text)
      : rule_(rule),
        text_(text),
        word_bits_(rule.marks_are_letters ? kLetter | kMark : kLetter),
        not_symbol_(static_cast<std::uint8_t>(word_bits_ | kNumber | kSpace)) {}

  std::size_t gpt2_end(std::size_t at) const;
  std::size_t llama3_end(std::size_t at) const;

 private:
  CharClass class_at(std::size_t at) const {
    if (at >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 128) return {kAsciiClass[byte], 1};
    const Char c = decode_char(text_.data() + at);
    return {class_of_wide(c.point), c.bytes};
  }
  char byte(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool is_newline(std::size_t at) const { return byte(at) == '\n' || byte(at) == '\r'; }

  // Returns the end of the run of characters with one of `bits` (or, for `bits` 0, with none of
  // not_symbol_).
  std::size_t run_end(std::size_t at, std::uint8_t bits) const {
    for (;;) {
      const CharClass current = class_at(at);
      if (current.bytes == 0) return at;
      if (bits != 0 ? (current.bits & bits) == 0 : (current.bits & not_symbol_) != 0) return at;
      at += current.bytes;
    }
  }
  // Returns the end of the group of numbers at `at`, of at most rule_.digits characters.
  std::size_t numbers_end(std::size_t at) const {
    std::size_t end = at;
    for (std::uint32_t n = 0; rule_.digits == 0 || n < rule_.digits; ++n) {
      const CharClass next = class_at(end);
      if ((next.bits & kNumber) == 0) break;
      end += next.bytes;
    }
    return end;
  }
  // Returns true if a character is neither part of a word nor a number nor white space.
  bool is_symbol(CharClass c) const { return c.bytes != 0 && (c.bits & not_symbol_) == 0; }
  // Returns the end of what begins at `at` and is not a word by itself: one character before a
  // word, white space, symbols.
  std::size_t other_end(std::size_t at, CharClass current) const;
  // Returns the bytes of the contraction whose apostrophe is at `at`, 0 if there is none.
  std::size_t contraction(std::size_t at, bool any_case) const;
  std::size_t space_end(std::size_t at, bool separate_newlines) const;

  const WordRule& rule_;
  std::string_view text_;
  std::uint8_t word_bits_;
  std::uint8_t not_symbol_;
};

std::size_t Words::contraction(std::size_t at, bool any_case) const {
  const auto fold = [any_case](char c) {
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  switch (fold(byte(at + 1))) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case '\xC5':  // U+017F, the long s, folds to s
      return any_case && byte(at + 2) == '\xBF' ? 3 : 0;
    case 'l':
      return fold(byte(at + 2)) == 'l' ? 3 : 0;
    case 'r':
    case 'v':
      return fold(byte(at + 2)) == 'e' ? 3 : 0;
    default:
      return 0;
  }
}

// Matches \s*[\r\n]+ (if separate_newlines), \s+(?!\S), \s+ at the start of a run of white space.
std::size_t Words::space_end(std::size_t at, bool separate_newlines) const {
  std::size_t last_begin = at;
  std::size_t after_newline = 0;
  std::size_t end = at;
  for (;;) {
    const CharClass current = class_at(end);
    if (current.bytes == 0 || (current.bits & kSpace) == 0) break;
    last_begin = end;
    if (is_newline(end)) after_newline = end + 1;
    end += current.bytes;
  }
  if (separate_newlines && after_newline != 0) return after_newline;
  if (end == text_.size() || last_begin == at) return end;
  return last_begin;  // the last one belongs to the word after it
}

std::size_t Words::gpt2_end(std::size_t at) const {
  if (text_[at] == '\'') {
    const std::size_t bytes = contraction(at, false);
    if (bytes != 0) return at + bytes;
  }
  CharClass current = class_at(at);
  std::size_t start = at;
  if (text_[at] == ' ') {
    const CharClass following = class_at(at + 1);
    if (following.bytes == 0 || (following.bits & kSpace) != 0) return space_end(at, false);
    current = following;
    start = at + 1;
  }
  if ((current.bits & kSpace) != 0) return space_end(at, false);
  if ((current.bits & kLetter) != 0) return run_end(start, kLetter);
  if ((current.bits & kNumber) != 0) return run_end(start, kNumber);
  return run_end(start, 0);
}

std::size_t Words::llama3_end(std::size_t at) const {
  if (rule_.contractions && text_[at] == '\'') {
    const std::size_t bytes = contraction(at, true);
    if (bytes != 0) return at + bytes;
  }
  const CharClass current = class_at(at);
  if ((current.bits & word_bits_) != 0) return run_end(at, word_bits_);
  if ((current.bits & kNumber) != 0) return numbers_end(at);
  return other_end(at, current);
}

std::size_t Words::other_end(std::size_t at, CharClass current) const {
  const CharClass following = class_at(at + current.bytes);
  if ((following.bits & word_bits_) != 0 && !is_newline(at)) {
    return run_end(at + current.bytes, word_bits_);
  }
  const bool symbol_after_space = text_[at] == ' ' && is_symbol(following);
  if ((current.bits & kSpace) != 0 && !symbol_after_space) return space_end(at, true);
  std::size_t end = run_end(symbol_after_space ? at + 1 : at, 0);
  while (rule_.newline_tail && is_newline(end)) ++end;
  return end;
}

// Splits around digits. The pattern sees the part up to the next digit as a text of its own, as if
// the digit were the end.
void split_around_digits(const WordRule& rule, std::string_view text, std::uint32_t base,
                         std::vector<std::uint32_t>& ends) {
  WordRule inner = rule;
  inner.digits_first = false;
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const Char c = decode_char(text.data() + at);
    if ((class_of(c.point) & kNumber) != 0) {
      split_words(inner, text.substr(begin, at - begin), base + static_cast<std::uint32_t>(begin),
                  ends);
      begin = at + c.bytes;
      ends.push_back(base + static_cast<std::uint32_t>(begin));
    }
    at += c.bytes;
  }
  split_words(inner, text.substr(begin), base + static_cast<std::uint32_t>(begin), ends);
}

}  // namespace

void split_words(const WordRule& rule, std::string_view text, std::uint32_t base,
                 std::vector<std::uint32_t>& ends) {
  if (rule.family == WordRule::Family::kDeepSeek) return split_deepseek_words(text, base, ends);
  if (rule.digits_first) return split_around_digits(rule, text, base, ends);
  const Words words(rule, text);
  const bool gpt2 = rule.family == WordRule::Family::kGpt2;
  std::size_t at = 0;
  while (at < text.size()) {
    at = gpt2 ? words.gpt2_end(at) : words.llama3_end(at);
    ends.push_back(base + static_cast<std::uint32_t>(at));
  }
}

}  // namespace holdfast::text
