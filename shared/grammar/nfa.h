#pragma once
// A nondeterministic byte automaton of one rule, built by appending expressions.

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "shared/grammar/budget.h"
#include "shared/grammar/expr.h"

namespace holdfast::grammar {

/// The bytes that a character becomes in the automaton.
enum class Encoding : std::uint8_t {
  kUtf8,
  kJson,  // inside a JSON string: '"', '\' and control characters as their shortest escape
};

/// Builds an automaton. Not thread-safe. Over budget all members continue without effect.
class Nfa {
 public:
  enum class Kind : std::uint8_t { kEmpty, kBytes, kCall, kBegin, kEnd, kLook };
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;  // of the same state; kNone ends
    std::uint32_t rule;  // for a look its index in looks()
    Kind kind;
    std::uint8_t lo;
    std::uint8_t hi;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  /// Makes the start, state 0.
  explicit Nfa(Budget& budget);
  std::uint32_t add_state();
  void add_empty(std::uint32_t from, std::uint32_t to);
  void add_bytes(std::uint32_t from, std::uint8_t lo, std::uint8_t hi, std::uint32_t to);
  void add_call(std::uint32_t from, std::uint32_t rule, std::uint32_t to);
  /// Appends `expr` at `from`. Returns the state where its matches end.
  std::uint32_t append(std::uint32_t from, const Expr& expr, Encoding encoding = Encoding::kUtf8);
  std::uint32_t append_literal(std::uint32_t from, std::string_view bytes);
  void set_accept(std::uint32_t state) { accept_ = state; }

  std::uint32_t accept() const { return accept_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(first_.size()); }
  std::uint32_t first_edge(std::uint32_t state) const { return first_[state]; }
  const Edge& edge(std::uint32_t at) const { return edges_[at]; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// Returns the lookaheads and lookbehinds of the appended expression, each once.
  const std::vector<const Expr*>& looks() const { return looks_; }
  Budget& budget() const { return budget_; }

 private:
  void add(std::uint32_t from, Edge edge);
  std::uint32_t append_chars(std::uint32_t from, const CharSet& set, Encoding encoding);
  void append_utf8(std::uint32_t from, const CharSet& set, std::uint32_t to);
  /// The states of one character set, by their edges: (bytes, target) each.
  struct Utf8States {
    std::uint32_t end;
    std::map<std::vector<std::uint32_t>, std::uint32_t> by_edges;
  };
  std::vector<Edge> utf8_edges(std::span<const Utf8Sequence> sequences, std::size_t depth,
                               Utf8States& states);
  std::uint32_t utf8_state(const std::vector<Edge>& edges, Utf8States& states);
  std::uint32_t append_look(std::uint32_t from, const Expr& expr);
  void append_escapes(std::uint32_t from, const CharSet& set, std::uint32_t to);
  std::uint32_t append_repeat(std::uint32_t from, const Expr& expr, Encoding encoding);

  Budget& budget_;
  std::vector<std::uint32_t> first_;
  std::vector<Edge> edges_;
  std::vector<const Expr*> looks_;
  std::uint32_t accept_ = kNone;
};

/// Returns `text` (UTF-8) for between the quotes of a JSON string, in the form of Encoding::kJson.
std::string json_escaped(std::string_view text);

}  // namespace holdfast::grammar
