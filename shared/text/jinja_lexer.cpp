#include "shared/text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "shared/text/jinja_value.h"

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

  /// Emits the text up to `end`, without the white space that the next tag strips.
  void emit_text(std::size_t end, bool block, char sign) {
    std::size_t stop = end;
    if (sign == '-' && end < source_.size()) {
      while (stop > at_ && is_space(source_[stop - 1])) --stop;
    } else if (block && sign != '+') {  // lstrip_blocks: the tag's indentation on its own line
      std::size_t line_start = end;
      while (line_start > at_ && source_[line_start - 1] != '\n') --line_start;
      const bool whole_line = line_start > at_ || line_starting_;
      const bool blank = std::all_of(source_.begin() + static_cast<std::ptrdiff_t>(line_start),
                                     source_.begin() + static_cast<std::ptrdiff_t>(end), is_space);
      if (whole_line && blank) stop = line_start;
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

  /// Reads {% raw %} … {% endraw %}: the text between is literal.
  bool raw_block() {
    std::size_t i = at_;
    const auto skip_spaces = [&] {
      while (i < source_.size() && is_space(source_[i])) ++i;
    };
    skip_spaces();
    if (source_.compare(i, 3, "raw") != 0) return false;
    i += 3;
    skip_spaces();
    const char sign = i < source_.size() ? source_[i] : ' ';
    if (sign == '-' || sign == '+') ++i;
    if (source_.compare(i, 2, "%}") != 0) return false;
    at_ = i + 2;
    after_tag(sign, false);  // trim_blocks does not apply to the tag that begins a raw block
    for (std::size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 2)) {
      i = open + 2;
      const char left = i < source_.size() ? source_[i] : ' ';
      if (left == '-' || left == '+') ++i;
      skip_spaces();
      if (source_.compare(i, 6, "endraw") != 0) continue;
      i += 6;
      skip_spaces();
      const char right = i < source_.size() ? source_[i] : ' ';
      if (right == '-' || right == '+') ++i;
      if (source_.compare(i, 2, "%}") != 0) continue;
      emit_text(open, true, left);
      count_lines(at_, open);
      at_ = i + 2;
      after_tag(right, true);
      return true;
    }
    throw TemplateError("missing end of raw block", line_);
  }

  void lex_tag(TokenKind begin, TokenKind end, std::string_view close, bool trim_newline) {
    push(begin, "");
    int depth = 0;  // "}}" may also close nested dict literals
    for (;;) {
      while (at_ < source_.size() && is_space(source_[at_])) {
        if (source_[at_] == '\n') ++line_;
        ++at_;
      }
      if (at_ >= source_.size()) throw TemplateError("unexpected end of template in a tag", line_);
      const char c = source_[at_];
      if (depth == 0 && (c == '-' || c == '+') && source_.compare(at_ + 1, 2, close) == 0) {
        at_ += 3;
        push(end, "");
        after_tag(c, trim_newline);
        return;
      }
      if (depth == 0 && source_.compare(at_, 2, close) == 0) {
        at_ += 2;
        push(end, "");
        after_tag(' ', trim_newline);
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
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      lex_number();
    } else if (c == '"' || c == '\'') {
      lex_string(c);
    } else {
      for (const std::string_view op : kOperators) {
        if (source_.compare(at_, op.size(), op) != 0) continue;
        if (op == "(" || op == "[" || op == "{") ++depth;
        if ((op == ")" || op == "]" || op == "}") && depth > 0) --depth;
        push(TokenKind::kOperator, std::string(op));
        at_ += op.size();
        return;
      }
      throw TemplateError(std::string("unexpected char '") + c + "'", line_);
    }
  }

  /// Reads 0x1F, 0o17, 0b11; the token has decimal text.
  bool lex_marked_integer() {
    const char mark = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 32) : ' ';
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (base == 0) return false;
    std::string digits;
    std::size_t end = at_ + 2;
    for (; end < source_.size() && (source_[end] == '_' || in_name(source_[end])); ++end) {
      if (source_[end] != '_') digits += source_[end];
    }
    std::int64_t value = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size()) {
      throw TemplateError("malformed number '" + source_.substr(at_, end - at_) + "'", line_);
    }
    push(TokenKind::kInteger, std::to_string(value));
    at_ = end;
    return true;
  }

  void lex_number() {
    const std::size_t from = at_;
    if (source_[at_] == '0' && lex_marked_integer()) return;
    bool fraction = false;
    while (at_ < source_.size() &&
           (std::isdigit(static_cast<unsigned char>(source_[at_])) != 0 || source_[at_] == '_')) {
      ++at_;
    }
    const auto digit_at = [&](std::size_t i) {
      return i < source_.size() && std::isdigit(static_cast<unsigned char>(source_[i])) != 0;
    };
    if (at_ < source_.size() && source_[at_] == '.' && digit_at(at_ + 1)) {
      fraction = true;
      ++at_;
      while (digit_at(at_)) ++at_;
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const std::size_t sign =
          at_ + 1 < source_.size() && (source_[at_ + 1] == '-' || source_[at_ + 1] == '+') ? 1 : 0;
      if (digit_at(at_ + 1 + sign)) {
        fraction = true;
        at_ += 1 + sign;
        while (digit_at(at_)) ++at_;
      }
    }
    std::string text = source_.substr(from, at_ - from);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    push(fraction ? TokenKind::kFloat : TokenKind::kInteger, text);
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
