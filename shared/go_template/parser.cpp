#include <algorithm>
#include <optional>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/go_template/lexer.h"
#include "shared/go_template/syntax.h"
#include "shared/go_template/translate.h"

namespace holdfast::go_template {
namespace {

using TokenKind = Token::Kind;

/// Parses the pipeline of one action.
class PipelineParser {
 public:
  PipelineParser(const std::vector<Token>& tokens, std::size_t at, int line)
      : tokens_(tokens), at_(at), line_(line) {}

  /// Reads `$a, $b := pipeline` into the node, to the end of the action.
  Result<void> read(Node& node) {
    read_variables(node);
    HOLDFAST_TRY(node.pipeline, pipeline());
    if (at_ < tokens_.size()) return wrong("unexpected \"" + tokens_[at_].text + "\"");
    return {};
  }

 private:
  Error wrong(const std::string& what) const {
    return error_at(Errc::kInvalidRequest, line_, what);
  }
  const Token* peek(std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? &tokens_[at_ + ahead] : nullptr;
  }
  bool is_symbol(std::string_view symbol, std::size_t ahead = 0) const {
    const Token* token = peek(ahead);
    return token != nullptr && token->kind == TokenKind::kSymbol && token->text == symbol;
  }
  bool is_kind(TokenKind kind, std::size_t ahead = 0) const {
    const Token* token = peek(ahead);
    return token != nullptr && token->kind == kind;
  }

  void read_variables(Node& node) {
    std::size_t n = 0;
    if (!is_kind(TokenKind::kVariable)) return;
    if (is_symbol(",", 1) && is_kind(TokenKind::kVariable, 2)) n = 2;
    const std::size_t after = n == 0 ? 1 : 3;
    if (!is_symbol(":=", after) && !is_symbol("=", after)) return;
    node.declares = is_symbol(":=", after);
    node.variables.push_back(peek()->text);
    if (n == 2) node.variables.push_back(peek(2)->text);
    at_ += after + 1;
  }

  Result<Expr> pipeline() {
    if (++depth_ > kDepthMax) return wrong("expressions are nested too deeply");
    HOLDFAST_TRY(Expr out, command());
    while (is_symbol("|")) {
      ++at_;
      HOLDFAST_TRY(Expr next, command());
      if (next.kind != Expr::Kind::kCall) return wrong("a pipeline goes on with no function");
      next.args.push_back(std::move(out));
      out = std::move(next);
    }
    --depth_;
    return out;
  }

  bool at_end_of_command() const { return peek() == nullptr || is_symbol("|") || is_symbol(")"); }

  Result<Expr> command() {
    if (at_end_of_command()) return wrong("a value is missing");
    HOLDFAST_TRY(Expr first, operand());
    while (!at_end_of_command()) {
      if (first.kind != Expr::Kind::kCall || !first.fields.empty()) {
        return wrong("a value that is no function has arguments");
      }
      HOLDFAST_TRY(Expr arg, operand());
      first.args.push_back(std::move(arg));
    }
    return first;
  }

  Result<Expr> operand() {
    Expr out;
    out.line = line_;
    if (is_symbol("(")) {
      ++at_;
      HOLDFAST_TRY(out, pipeline());
      if (!is_symbol(")")) return wrong("expected )");
      ++at_;
      return with_fields(std::move(out));
    }
    HOLDFAST_CHECKED(primary(out));
    return with_fields(std::move(out));
  }

  Result<void> primary(Expr& out) {
    const Token& token = tokens_[at_];
    ++at_;
    switch (token.kind) {
      case TokenKind::kDot:
        return {};
      case TokenKind::kField:
        out.fields.push_back(token.text);
        return {};
      case TokenKind::kVariable:
        out.kind = Expr::Kind::kVariable;
        out.name = token.text;
        return {};
      case TokenKind::kText:
        out.kind = Expr::Kind::kText;
        out.name = token.text;
        return {};
      case TokenKind::kInteger:
        out.kind = Expr::Kind::kInteger;
        out.number = token.number;
        return {};
      case TokenKind::kWord:
        return word(token.text, out);
      case TokenKind::kSymbol:
        break;
    }
    return wrong("unexpected \"" + token.text + "\"");
  }

  static Result<void> word(const std::string& name, Expr& out) {
    if (name == "true" || name == "false") {
      out.kind = Expr::Kind::kBool;
      out.number = name == "true" ? 1 : 0;
    } else {
      out.kind = name == "nil" ? Expr::Kind::kNil : Expr::Kind::kCall;
      out.name = name;
    }
    return {};
  }

  Result<Expr> with_fields(Expr out) {
    while (is_kind(TokenKind::kField) && !peek()->after_space) {
      out.fields.push_back(peek()->text);
      ++at_;
    }
    return out;
  }

  const std::vector<Token>& tokens_;
  std::size_t at_;
  int line_;
  int depth_ = 0;
};

/// Parses the items into nodes.
class Parser {
 public:
  explicit Parser(std::vector<Item> items) : items_(std::move(items)) {}

  Result<std::vector<Node>> parse() {
    std::vector<Node> out;
    HOLDFAST_CHECKED(read_list(out));
    if (at_ < items_.size()) {
      return wrong("unexpected " + keyword());
    }
    return out;
  }

 private:
  Error wrong(const std::string& what) const {
    const int line = items_.empty() ? 1 : items_[std::min(at_, items_.size() - 1)].line;
    return error_at(Errc::kInvalidRequest, line, what);
  }
  /// The first word of the action here; empty for a text or another action.
  std::string keyword() const {
    if (at_ >= items_.size() || !items_[at_].is_action) return {};
    const Token& first = items_[at_].tokens.front();
    return first.kind == TokenKind::kWord ? first.text : std::string();
  }

  /// Reads nodes up to the next else or end.
  Result<void> read_list(std::vector<Node>& out) {
    if (++depth_ > kDepthMax) return wrong("blocks are nested too deeply");
    while (at_ < items_.size()) {
      const std::string word = keyword();
      if (word == "end" || word == "else") break;
      Node node;
      HOLDFAST_CHECKED(read_node(word, node));
      out.push_back(std::move(node));
    }
    --depth_;
    return {};
  }

  Result<void> read_node(const std::string& word, Node& node) {
    const Item& item = items_[at_];
    node.line = item.line;
    if (!item.is_action) {
      node.text = item.text;
      ++at_;
      return {};
    }
    if (word == "if") return read_block(Node::Kind::kIf, 1, node);
    if (word == "range") return read_block(Node::Kind::kRange, 1, node);
    if (word == "with") return read_block(Node::Kind::kWith, 1, node);
    for (const char* name : {"template", "define", "block"}) {
      if (word == name) return error_at(Errc::kUnsupported, item.line, "uses " + word);
    }
    if (word == "break" || word == "continue") return read_jump(word, node);
    node.kind = Node::Kind::kPrint;
    return read_pipeline(0, node);
  }

  Result<void> read_jump(const std::string& word, Node& node) {
    if (items_[at_].tokens.size() > 1) return wrong(word + " stands alone");
    node.kind = word == "break" ? Node::Kind::kBreak : Node::Kind::kContinue;
    ++at_;
    return {};
  }

  /// Reads the pipeline of the action here, from a token on.
  Result<void> read_pipeline(std::size_t from, Node& node) {
    const Item& item = items_[at_];
    HOLDFAST_CHECKED(PipelineParser(item.tokens, from, item.line).read(node));
    ++at_;
    return {};
  }

  Result<void> read_block(Node::Kind kind, std::size_t from, Node& node) {
    node.kind = kind;
    node.line = items_[at_].line;
    HOLDFAST_CHECKED(read_pipeline(from, node));
    HOLDFAST_CHECKED(read_list(node.list));
    if (keyword() == "else") return read_else(node);
    if (at_ >= items_.size()) return wrong("a block has no end: expected {{ end }}");
    ++at_;
    return {};
  }

  Result<void> read_else(Node& node) {
    node.has_other = true;
    const std::vector<Token>& tokens = items_[at_].tokens;
    if (tokens.size() > 1) {
      const bool goes_on = tokens[1].kind == TokenKind::kWord && tokens[1].text == "if" &&
                           node.kind == Node::Kind::kIf;
      if (!goes_on) return error_at(Errc::kUnsupported, items_[at_].line, "uses else with a value");
      if (++depth_ > kDepthMax) return wrong("blocks are nested too deeply");
      Node inner;
      HOLDFAST_CHECKED(read_block(Node::Kind::kIf, 2, inner));  // takes the one end of both
      node.other.push_back(std::move(inner));
      --depth_;
      return {};
    }
    ++at_;
    HOLDFAST_CHECKED(read_list(node.other));
    if (keyword() != "end") return wrong("a block has no end: expected {{ end }}");
    ++at_;
    return {};
  }

  std::vector<Item> items_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Error error_at(Errc code, int line, std::string_view what) {
  return {code, "go template line " + std::to_string(line) + ": " + std::string(what)};
}

Result<std::vector<Node>> parse(std::string_view text) {
  if (text.size() > kBytesMax) {
    return error_at(
        Errc::kInvalidRequest, 1,
        std::to_string(text.size()) + " bytes; expected at most " + std::to_string(kBytesMax));
  }
  if (!is_valid_utf8(text)) return error_at(Errc::kInvalidRequest, 1, "is not UTF-8");
  HOLDFAST_TRY(auto items, read_items(text));
  return Parser(std::move(items)).parse();
}

}  // namespace holdfast::go_template
