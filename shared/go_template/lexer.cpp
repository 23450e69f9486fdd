#include "shared/go_template/lexer.h"

#include <algorithm>
#include <charconv>

#include "shared/go_template/syntax.h"

namespace holdfast::go_template {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_space(char c) {
  return kSpace.find(c) != std::string_view::npos;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int lines_in(std::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// Writes a code point as UTF-8.
void append_utf8(std::string& out, std::uint32_t c) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80U | ((c >> static_cast<unsigned>(shift)) & 0x3FU)));
  };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (c >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | (c >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Reads the tokens of one action, whose text is without its delimiters.
class ActionReader {
 public:
  ActionReader(std::string_view text, int line) : text_(text), line_(line) {}

  Result<std::vector<Token>> read() {
    std::vector<Token> out;
    while (true) {
      const std::size_t before = at_;
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      if (at_ == text_.size()) return out;
      HOLDFAST_TRY(Token token, next());
      token.after_space = start_ != before || before == 0;
      out.push_back(std::move(token));
    }
  }

 private:
  Error wrong(std::string_view what) const {
    return error_at(Errc::kInvalidRequest, line_ + lines_in(text_.substr(0, at_)), what);
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  Result<Token> next() {
    start_ = at_;
    const char c = peek();
    if (c == '"') return quoted();
    if (c == '`') return raw();
    if (c == '.') return field();
    if (c == '$') return variable();
    if (is_letter(c)) return Token{Token::Kind::kWord, name(), 0, false};
    const bool sign = (c == '-' || c == '+') && is_digit(peek(1));
    if (is_digit(c) || sign) return integer();
    return symbol();
  }
  std::string name() {
    const std::size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  Result<Token> field() {
    ++at_;
    if (is_digit(peek())) return unsupported("a number with a point");
    if (!is_letter(peek())) return Token{Token::Kind::kDot, "", 0, false};
    return Token{Token::Kind::kField, name(), 0, false};
  }
  Result<Token> variable() {
    ++at_;
    return Token{Token::Kind::kVariable, name(), 0, false};
  }
  Result<Token> integer() {
    const std::size_t begin = at_ + (peek() == '+' ? 1 : 0);
    ++at_;
    while (is_digit(peek())) ++at_;
    Token token{Token::Kind::kInteger, "", 0, false};
    const auto end = std::from_chars(text_.data() + begin, text_.data() + at_, token.number);
    if (end.ec != std::errc()) return wrong("a number is too large");
    if (is_letter(peek()) || peek() == '.') return unsupported("a number that is not whole");
    return token;
  }
  Result<Token> symbol() {
    if (peek() == ':' && peek(1) == '=') {
      at_ += 2;
      return Token{Token::Kind::kSymbol, ":=", 0, false};
    }
    const char c = peek();
    if (std::string_view("|(),=").find(c) == std::string_view::npos) {
      if (c == '\'') return unsupported("a character in single quotes");
      return wrong(std::string("unexpected \"") + c + "\" in an action");
    }
    ++at_;
    return Token{Token::Kind::kSymbol, std::string(1, c), 0, false};
  }
  Error unsupported(std::string_view what) const {
    return error_at(Errc::kUnsupported, line_, "uses " + std::string(what));
  }
  Result<Token> raw() {
    const std::size_t end = text_.find('`', at_ + 1);
    if (end == std::string_view::npos) return wrong("a string in ` has no end");
    Token token{Token::Kind::kText, std::string(text_.substr(at_ + 1, end - at_ - 1)), 0, false};
    std::erase(token.text, '\r');
    at_ = end + 1;
    return token;
  }
  Result<Token> quoted() {
    Token token{Token::Kind::kText, "", 0, false};
    for (++at_; peek() != '"'; ++at_) {
      if (at_ >= text_.size() || peek() == '\n') return wrong("a string has no end");
      if (peek() != '\\') {
        token.text.push_back(peek());
        continue;
      }
      ++at_;
      HOLDFAST_CHECKED(escape(token.text));
    }
    ++at_;
    return token;
  }
  /// Reads what follows a backslash, up to its last character.
  Result<void> escape(std::string& out) {
    constexpr std::string_view kNames = "abfnrtv\\\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\\"";
    const char c = peek();
    if (const auto i = kNames.find(c); c != '\0' && i != std::string_view::npos) {
      out.push_back(kValues[i]);
      return {};
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return wrong("a string has an unknown escape");
    return hex(digits, out);
  }
  Result<void> hex(std::size_t digits, std::string& out) {
    std::uint32_t value = 0;
    const char* begin = text_.data() + std::min(at_ + 1, text_.size());
    const char* end = text_.data() + std::min(at_ + 1 + digits, text_.size());
    const auto read = std::from_chars(begin, end, value, 16);
    const bool whole = read.ec == std::errc() && read.ptr == begin + digits;
    const bool character = value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    if (!whole || !character || (digits == 2 && value > 0x7F)) {
      return wrong("a string has an escape that is no character");
    }
    append_utf8(out, value);
    at_ += digits;
    return {};
  }

  std::string_view text_;
  int line_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;
};

/// Returns the end of an action that begins at `at`, after its {{: the place of its }}, looking
/// past strings and comments; npos: there is none.
std::size_t end_of_action(std::string_view text, std::size_t at) {
  char quote = '\0';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++at;
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '`') {
      quote = c;
    } else if (text.substr(at, 2) == "}}") {
      return at;
    }
  }
  return std::string_view::npos;
}

/// Splits a template into texts and actions.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<Item>> split() {
    while (at_ < text_.size()) {
      const std::size_t open = std::min(text_.find("{{", at_), text_.size());
      add_text(text_.substr(at_, open - at_));
      at_ = open;
      if (open < text_.size()) HOLDFAST_CHECKED(take_action());
    }
    return std::move(items_);
  }

 private:
  int line() const { return 1 + lines_in(text_.substr(0, at_)); }
  Error wrong(std::string_view what) const { return error_at(Errc::kInvalidRequest, line(), what); }

  void add_text(std::string_view text) {
    if (trims_) {
      text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    }
    trims_ = false;
    if (!text.empty()) items_.push_back(Item{false, std::string(text), {}, line()});
  }
  void trim_text_before() {
    if (items_.empty() || items_.back().is_action) return;
    std::string& text = items_.back().text;
    const std::size_t last = text.find_last_not_of(kSpace);
    text.resize(last == std::string::npos ? 0 : last + 1);
    if (text.empty()) items_.pop_back();
  }

  Result<void> take_action() {
    std::size_t begin = at_ + 2;
    const bool trims_before =
        begin + 1 < text_.size() && text_[begin] == '-' && is_space(text_[begin + 1]);
    if (trims_before) {
      trim_text_before();
      ++begin;
    }
    const std::size_t word = text_.find_first_not_of(kSpace, begin);
    if (word != std::string_view::npos && text_.substr(word, 2) == "/*") return skip_comment(word);
    const std::size_t close = end_of_action(text_, begin);
    if (close == std::string_view::npos) return wrong("an action has no end: expected }}");
    std::string_view inner = text_.substr(begin, close - begin);
    take_trim_after(inner);
    HOLDFAST_TRY(auto tokens, ActionReader(inner, line()).read());
    if (tokens.empty()) return wrong("an action is empty");
    items_.push_back(Item{true, "", std::move(tokens), line()});
    at_ = close + 2;
    return {};
  }
  void take_trim_after(std::string_view& inner) {
    trims_ = inner.size() >= 2 && inner.back() == '-' && is_space(inner[inner.size() - 2]);
    if (trims_) inner.remove_suffix(1);
  }
  Result<void> skip_comment(std::size_t at) {
    const std::size_t end = text_.find("*/", at + 2);
    if (end == std::string_view::npos) return wrong("a comment has no end: expected */");
    const std::size_t close = text_.find("}}", end);
    if (close == std::string_view::npos) return wrong("a comment has no end: expected }}");
    std::string_view rest = text_.substr(end + 2, close - end - 2);
    take_trim_after(rest);
    if (rest.find_first_not_of(kSpace) != std::string_view::npos) {
      return wrong("a comment must be alone in its action");
    }
    at_ = close + 2;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool trims_ = false;  // the action before wants white space after it gone
  std::vector<Item> items_;
};

}  // namespace

Result<std::vector<Item>> read_items(std::string_view text) {
  return Splitter(text).split();
}

}  // namespace holdfast::go_template
