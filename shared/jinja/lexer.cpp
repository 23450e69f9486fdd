#include "shared/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "shared/jinja/value.h"

namespace holdfast::text::jinja {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}
bool in_name(char c) {
  return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// Returns the base that the letter after a leading 0 names; 0 if it names none.
int base_of_mark(char mark) {
  switch (mark) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

// Longest first, so that "==" is not read as "=" twice.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
    ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    source_.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {  // newlines become \n, like in Jinja2
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t open = find_open();
      if (open == std::string::npos) {
        emit_text(source_.size(), false, ' ');
        at_ = source_.size();
        break;
      }
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      emit_text(open, kind != '{', sign);
      count_lines(at_, open);
      at_ = open + 2;
      if (sign == '-' || sign == '+') ++at_;
      if (kind == '#') {
        skip_comment();
      } else if (kind == '%') {
        if (!raw_block()) lex_tag(TokenKind::kBlockBegin, TokenKind::kBlockEnd, "%}", true);
      } else {
        lex_tag(TokenKind::kOutputBegin, TokenKind::kOutputEnd, "}}", false);
      }
    }
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::size_t find_open() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string::npos;
  }

  /// Returns the character at `i`, a space after the end.
  char char_at(std::size_t i) const { return i < source_.size() ? source_[i] : ' '; }

  /// Returns where the white space that begins at `i` ends.
  std::size_t after_spaces(std::size_t i) const {
    while (i < source_.size() && is_space(source_[i])) ++i;
    return i;
  }

  /// Returns where the digits that begin at `i` end.
  std::size_t after_digits(std::size_t i) const {
    while (i < source_.size() && is_digit(source_[i])) ++i;
    return i;
  }

  /// Returns the start of the line that ends at `end` if a tag there is its first thing (the line
  /// holds white space alone until then), else `end`.
  std::size_t indentation_start(std::size_t end) const {
    std::size_t line_start = end;
    while (line_start > at_ && source_[line_start - 1] != '\n') --line_start;
    const bool whole_line = line_start > at_ || line_starting_;
    return whole_line && after_spaces(line_start) >= end ? line_start : end;
  }

  /// Emits the text up to `end`, without the white space that the next tag strips.
  void emit_text(std::size_t end, bool block, char sign) {
    std::size_t stop = end;
    if (sign == '-' && end < source_.size()) {
      while (stop > at_ && is_space(source_[stop - 1])) --stop;
    } else if (block && sign != '+') {  // lstrip_blocks: the tag's indentation on its own line
      stop = indentation_start(end);
    }
    if (stop > at_) push(TokenKind::kText, source_.substr(at_, stop - at_));
  }

  void count_lines(std::size_t from, std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(from),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  }

  /// Strips after a closing tag: "-" strips all white space, a block's tag one newline.
  void after_tag(char sign, bool trim_newline) {
    const std::size_t from = at_;
    if (sign == '-') {
      while (at_ < source_.size() && is_space(source_[at_])) ++at_;
    } else if (trim_newline && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    count_lines(from, at_);
    line_starting_ = at_ > from && source_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const std::size_t close = source_.find("#}", at_);
    if (close == std::string::npos) throw TemplateError("missing end of comment tag '#}'", line_);
    const char sign = close > at_ ? source_[close - 1] : ' ';
    count_lines(at_, close);
    at_ = close + 2;
    after_tag(sign, true);
  }

  /// A tag {% name %} with optional signs and spaces.
  struct SimpleTag {
    char left = ' ';      // the sign after "{%", or another character
    char right = ' ';     // the sign before "%}", or another character
    std::size_t end = 0;  // after "%}"
  };

  /// Reads the rest of a tag {% name %} from its name on; `tag.left` stays. Returns false if
  /// something else stands there.
  bool read_simple_tag(std::size_t i, std::string_view name, SimpleTag& tag) const {
    i = after_spaces(i);
    if (source_.compare(i, name.size(), name) != 0) return false;
    i = after_spaces(i + name.size());
    tag.right = char_at(i);
    if (tag.right == '-' || tag.right == '+') ++i;
    tag.end = i + 2;
    return source_.compare(i, 2, "%}") == 0;
  }

  /// Reads {% raw %} … {% endraw %}: the text between is literal.
  bool raw_block() {
    SimpleTag tag;
    if (!read_simple_tag(at_, "raw", tag)) return false;
    at_ = tag.end;
    after_tag(tag.right, false);  // trim_blocks does not apply to the tag that begins a raw block
    for (std::size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 2)) {
      tag.left = char_at(open + 2);
      const bool signed_tag = tag.left == '-' || tag.left == '+';
      if (!read_simple_tag(open + (signed_tag ? 3 : 2), "endraw", tag)) continue;
      emit_text(open, true, tag.left);
      count_lines(at_, open);
      at_ = tag.end;
      after_tag(tag.right, true);
      return true;
    }
    throw TemplateError("missing end of raw block", line_);
  }

  void lex_tag(TokenKind begin, TokenKind end, std::string_view close, bool trim_newline) {
    push(begin, "");
    int depth = 0;  // "}}" may also close nested dict literals
    for (;;) {
      const std::size_t from = std::exchange(at_, after_spaces(at_));
      count_lines(from, at_);
      if (at_ >= source_.size()) throw TemplateError("unexpected end of template in a tag", line_);
      const char c = source_[at_];
      const std::size_t sign = c == '-' || c == '+' ? 1 : 0;
      if (depth == 0 && source_.compare(at_ + sign, close.size(), close) == 0) {
        at_ += sign + close.size();
        push(end, "");
        after_tag(sign != 0 ? c : ' ', trim_newline);
        return;
      }
      lex_token(c, depth);
    }
  }

  void lex_token(char c, int& depth) {
    if (starts_name(c)) {
      const std::size_t from = at_;
      while (at_ < source_.size() && in_name(source_[at_])) ++at_;
      push(TokenKind::kName, source_.substr(from, at_ - from));
    } else if (is_digit(c)) {
      lex_number();
    } else if (c == '"' || c == '\'') {
      lex_string(c);
    } else {
      lex_operator(c, depth);
    }
  }

  void lex_operator(char c, int& depth) {
    const auto* const op =
        std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view candidate) {
          return source_.compare(at_, candidate.size(), candidate) == 0;
        });
    if (op == kOperators.end()) {
      throw TemplateError(std::string("unexpected char '") + c + "'", line_);
    }
    if (std::string_view("([{").find(c) != std::string_view::npos) ++depth;
    if (std::string_view(")]}").find(c) != std::string_view::npos && depth > 0) --depth;
    push(TokenKind::kOperator, std::string(*op));
    at_ += op->size();
  }

  /// Reads 0x1F, 0o17, 0b11; the token has decimal text.
  bool lex_marked_integer() {
    const int base = base_of_mark(static_cast<char>(char_at(at_ + 1) | 32));
    if (base == 0) return false;
    std::size_t end = at_ + 2;
    while (end < source_.size() && in_name(source_[end])) ++end;
    const std::string digits = without_underscores(at_ + 2, end);
    std::int64_t value = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size()) {
      throw TemplateError("malformed number '" + source_.substr(at_, end - at_) + "'", line_);
    }
    push(TokenKind::kInteger, std::to_string(value));
    at_ = end;
    return true;
  }

  std::string without_underscores(std::size_t from, std::size_t to) const {
    std::string text = source_.substr(from, to - from);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    return text;
  }

  /// Returns where the fraction (a point and digits) at `i` ends; `i` if there is none.
  std::size_t after_fraction(std::size_t i) const {
    if (char_at(i) != '.' || !is_digit(char_at(i + 1))) return i;
    return after_digits(i + 1);
  }

  /// Returns where the exponent at `i` ends; `i` if there is none.
  std::size_t after_exponent(std::size_t i) const {
    if (char_at(i) != 'e' && char_at(i) != 'E') return i;
    const char sign = char_at(i + 1);
    const std::size_t digits = i + (sign == '-' || sign == '+' ? 2 : 1);
    return is_digit(char_at(digits)) ? after_digits(digits) : i;
  }

  void lex_number() {
    const std::size_t from = at_;
    if (source_[at_] == '0' && lex_marked_integer()) return;
    while (is_digit(char_at(at_)) || char_at(at_) == '_') ++at_;
    const std::size_t whole_end = at_;
    at_ = after_exponent(after_fraction(at_));
    push(at_ > whole_end ? TokenKind::kFloat : TokenKind::kInteger, without_underscores(from, at_));
  }

  void append_code_point(std::string& out, std::uint32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | c >> 6);
      out += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
      out += static_cast<char>(0x80 | (c >> 6 & 63));
      out += static_cast<char>(0x80 | (c & 63));
    } else {
      out += static_cast<char>(0xF0 | (c >> 18 & 7));
      out += static_cast<char>(0x80 | (c >> 12 & 63));
      out += static_cast<char>(0x80 | (c >> 6 & 63));
      out += static_cast<char>(0x80 | (c & 63));
    }
  }

  /// Reads \xHH, \uHHHH, \UHHHHHHHH: `digits` hexadecimal ones after the letter.
  void lex_hex_escape(std::string& out, std::size_t digits) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char h = at_ < source_.size() ? source_[at_] : ' ';
      if (std::isxdigit(static_cast<unsigned char>(h)) == 0) {
        throw TemplateError("truncated escape in a string", line_);
      }
      const int d =
          std::isdigit(static_cast<unsigned char>(h)) != 0 ? h - '0' : (h | 32) - 'a' + 10;
      value = value * 16 + static_cast<std::uint32_t>(d);
      ++at_;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      throw TemplateError("escape in a string is no character", line_);
    }
    append_code_point(out, value);
  }

  /// Reads \O, \OO, \OOO; the first digit is taken already.
  void lex_octal_escape(std::string& out) {
    auto value = static_cast<std::uint32_t>(source_[at_ - 1] - '0');
    for (int i = 0; i < 2 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7';
         ++i) {
      value = value * 8 + static_cast<std::uint32_t>(source_[at_++] - '0');
    }
    append_code_point(out, value);
  }

  void lex_string(char quote) {
    const int from_line = line_;
    ++at_;
    std::string out;
    for (;;) {
      if (at_ >= source_.size()) throw TemplateError("unterminated string", from_line);
      const char c = source_[at_++];
      if (c == quote) break;
      if (c == '\n') ++line_;
      if (c != '\\' || at_ >= source_.size()) {
        out += c;
        continue;
      }
      const char e = source_[at_++];
      switch (e) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'v':
          out += '\v';
          break;
        case 'a':
          out += '\a';
          break;
        case '0':
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
        case '6':
        case '7':
          lex_octal_escape(out);
          break;
        case '\\':
        case '\'':
        case '"':
          out += e;
          break;
        case '\n':
          ++line_;
          break;
        case 'x':
          lex_hex_escape(out, 2);
          break;
        case 'u':
          lex_hex_escape(out, 4);
          break;
        case 'U':
          lex_hex_escape(out, 8);
          break;
        default:
          out += '\\', out += e;
      }
    }
    tokens_.push_back({TokenKind::kString, std::move(out), from_line});
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace holdfast::text::jinja
