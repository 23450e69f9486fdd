#include "tests/tidy/declarations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <regex>
#include <utility>

namespace holdfast::tidy {

namespace {

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::string trimmed(const std::string& text) {
  const auto first = std::find_if_not(text.begin(), text.end(), is_blank);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), is_blank).base();
  return first < last ? std::string(first, last) : "";
}

/// Returns the index after the bracket that closes the one at text[open].
std::size_t after_bracket(const std::string& text, std::size_t open, char opens, char closes) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == opens ? 1 : text[i] == closes ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// Leaves out `template <…>` and `[[…]]` at the begin of a declaration.
std::string without_prefix(std::string head) {
  while (true) {
    head = trimmed(head);
    if (starts_with(head, "[[")) {
      head.erase(0, after_bracket(head, 0, '[', ']'));
    } else if (starts_with(head, "template <")) {
      head.erase(0, after_bracket(head, head.find('<'), '<', '>'));
    } else {
      return head;
    }
  }
}

/// Returns the index of the '(' before a function's parameters: the first outside of a template's
/// arguments; npos if there is none, or a '=' before it, as in the initializer of a variable.
std::size_t parameters_of(const std::string& head) {
  static const std::regex operators(R"(\boperator(\(\)|[^(]*))");
  std::smatch match;
  if (std::regex_search(head, match, operators)) {
    return static_cast<std::size_t>(match.position() + match.length());
  }
  int depth = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    depth += head[i] == '<' ? 1 : head[i] == '>' ? -1 : 0;
    if (depth == 0 && head[i] == '=') return std::string::npos;
    if (depth == 0 && head[i] == '(') return i;
  }
  return std::string::npos;
}

/// The name of a function, and whether a type precedes it (not so for constructors and macros).
struct FunctionName {
  std::string name;
  bool typed = false;
};

std::optional<FunctionName> function_of(const std::string& head) {
  static const std::regex other(R"(^(using|typedef|static_assert|friend|extern template)\b)");
  // Declared elsewhere, or by the language.
  static const std::regex elsewhere(R"(\boverride\b|\boperator=\(|= ?(default|delete)$)");
  static const std::regex name(R"(((?:[\w~]+::)*(?:~?\w+|operator.*))\s*$)");
  if (std::regex_search(head, other) || std::regex_search(head, elsewhere)) return std::nullopt;
  const std::size_t open = parameters_of(head);
  if (open == std::string::npos) return std::nullopt;
  const std::string before = head.substr(0, open);
  std::smatch match;
  if (!std::regex_search(before, match, name)) return std::nullopt;
  return FunctionName{match[1].str(), !trimmed(match.prefix().str()).empty()};
}

/// Takes the lines of a header in order. Between declarations it looks at comments and blank lines,
/// within them at brackets.
class DeclarationFinder {
 public:
  DeclarationFinder(const Source& header, Counted counted)
      : header_(header), counted_(counted), code_(code_lines(header)) {}

  std::vector<Declaration> find(Findings& findings) {
    for (line_ = 0; line_ < code_.size(); ++line_) take_line();
    if (!blocks_.empty()) findings.add(header_.path, 0, "has braces that do not balance");
    return std::move(found_);
  }

 private:
  enum class Kind { kNamespace, kType, kOther };
  struct Block {
    Kind kind = Kind::kOther;
    std::string type;  // its name; empty: no type
    bool is_public = true;
    std::size_t first_line = 0;
    bool documented = false;  // its group is
  };

  void take_line() {
    const std::string code = trimmed(code_[line_]);
    if (in_directive_ || starts_with(code, "#")) {
      in_directive_ = ends_with(code, "\\");
      documented_ = false;
      return;
    }
    const std::string raw = trimmed(header_.lines[line_]);
    if (between_declarations() && raw.empty()) documented_ = false;
    if (between_declarations() && starts_with(raw, "//")) documented_ = true;
    // A macro's use has no semicolon that would end it.
    static const std::regex macro(R"([A-Z][A-Z0-9_]*\(.*\))");
    if (between_declarations() && std::regex_match(code, macro)) return;
    for (const char c : code_[line_] + " ") take(c);
  }

  bool in_scope() const { return blocks_.empty() || blocks_.back().kind != Kind::kOther; }
  bool between_declarations() const { return in_scope() && (head_.empty() || body_closed_); }

  void take(char c) {
    if (!in_scope()) {
      take_in_body(c);
    } else if (c == '{' && parentheses_ == 0) {
      open();
    } else if (c == '}' && parentheses_ == 0) {
      end_declaration();  // the last of a class
      close();
    } else if (c == ';' && parentheses_ == 0) {
      end_declaration();
    } else {
      take_in_head(c);
    }
  }

  void take_in_body(char c) {
    if (c == '{') blocks_.emplace_back();
    if (c == '}') close();
  }

  void take_in_head(char c) {
    if (body_closed_ && !is_blank(c)) {
      // `: a_{x}, b_{y} {`: a member's initializer is no body.
      if (c != ',') end_declaration();
      body_closed_ = false;
    }
    if (head_.empty()) {
      if (is_blank(c)) return;
      head_line_ = line_;
    }
    if (c == '(') ++parentheses_;
    if (c == ')') --parentheses_;
    if (!is_blank(c)) {
      head_.push_back(c);
    } else if (head_.back() != ' ') {
      head_.push_back(' ');
    }
    take_access(c);
  }

  void take_access(char c) {
    if (c != ':' || blocks_.empty() || blocks_.back().kind != Kind::kType) return;
    for (const char* access : {"public:", "protected:", "private:"}) {
      if (head_ != access) continue;
      blocks_.back().is_public = head_ == "public:";
      clear_head();
      documented_ = false;
    }
  }

  void open() {
    body_closed_ = false;  // `: a_{x} {`: the body comes after the last initializer
    static const std::regex scope(R"(^(inline )?(namespace|extern)\b)");
    static const std::regex type(R"(^(class|struct|union|enum class|enum)\b[^(=]*)");
    static const std::regex name(R"(^(?:\w+ )+?(\w+)(?: final)?(?:<.*>)? ?(?::.*)?$)");
    const std::string head = without_prefix(head_);
    Block block;
    block.first_line = line_;
    block.documented = documented_;
    if (std::regex_search(head, scope)) {
      block.kind = Kind::kNamespace;
    } else if (std::regex_match(head, type)) {
      std::smatch match;
      block.type = std::regex_match(head, match, name) ? match[1].str() : "?";
      block.is_public = !starts_with(head, "class");
      // Enumerators are no declarations.
      if (!starts_with(head, "enum")) block.kind = Kind::kType;
      if (at_namespace_scope()) add();
    } else {
      add_function();
    }
    if (block.kind != Kind::kOther) {
      clear_head();
      documented_ = false;
    }
    blocks_.push_back(std::move(block));
  }

  void close() {
    if (blocks_.empty()) return;
    const Block block = std::move(blocks_.back());
    blocks_.pop_back();
    if (!in_scope()) return;
    body_closed_ = !head_.empty();
    if (!block.type.empty()) documented_ = block.documented && block.first_line == line_;
  }

  void end_declaration() {
    if (!head_.empty()) add_function();
    clear_head();
  }

  void clear_head() {
    head_.clear();
    body_closed_ = false;
    added_ = false;
  }

  bool at_namespace_scope() const {
    return std::all_of(blocks_.begin(), blocks_.end(),
                       [](const Block& block) { return block.kind == Kind::kNamespace; });
  }

  /// Returns true within the public part of a class at namespace scope.
  bool at_public_methods() const {
    return blocks_.size() > 0 && blocks_.back().kind == Kind::kType && blocks_.back().is_public &&
           std::all_of(blocks_.begin(), blocks_.end() - 1,
                       [](const Block& block) { return block.kind == Kind::kNamespace; });
  }

  void add_function() {
    const bool methods = counted_ == Counted::kNamespaceScopeAndMethods;
    const bool free = at_namespace_scope();
    if (!free && !(methods && at_public_methods())) return;
    const std::optional<FunctionName> function = function_of(without_prefix(head_));
    if (!function || !function->typed) return;
    const std::string& name = function->name;
    const bool special = !free && (name == blocks_.back().type || starts_with(name, "~"));
    // A member that is defined outside of its class is declared there.
    if (!special && name.find("::") == std::string::npos) add();
  }

  /// Adds the declaration that head_ is, once.
  void add() {
    if (added_) return;
    added_ = true;
    bool documented = documented_;
    for (std::size_t i = head_line_; i <= line_; ++i) {
      documented = documented || header_.lines[i].find("  // ") != std::string::npos;
    }
    found_.push_back({head_line_ + 1, trimmed(head_), documented});
  }

  const Source& header_;
  const Counted counted_;
  const std::vector<std::string> code_;
  std::size_t line_ = 0;
  std::vector<Declaration> found_;
  std::vector<Block> blocks_;

  // The declaration that is being read.
  std::string head_;  // up to its body
  std::size_t head_line_ = 0;
  int parentheses_ = 0;
  bool body_closed_ = false;  // its body ended, unless more follows
  bool added_ = false;
  bool documented_ = false;  // a comment covers it
  bool in_directive_ = false;
};

}  // namespace

std::vector<Declaration> declarations_of(const Source& header, Counted counted,
                                         Findings& findings) {
  return DeclarationFinder(header, counted).find(findings);
}

}  // namespace holdfast::tidy
