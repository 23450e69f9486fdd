#include "shared/grammar/nfa.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::grammar {
namespace {

const CharSet kMustEscape = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

/// Returns "\n", "\u001b": the escape of a character that must have one.
std::string escape_of(char32_t point) {
  switch (point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const char* digits = "0123456789abcdef";
  return std::string("\\u00") + digits[point >> 4] + digits[point & 15];
}

}  // namespace

Nfa::Nfa(Budget& budget) : budget_(budget) {
  first_.push_back(kNone);
  budget_.take_states(1);
}

std::uint32_t Nfa::add_state() {
  if (!budget_.take_states(1)) return 0;
  first_.push_back(kNone);
  return size() - 1;
}

void Nfa::add(std::uint32_t from, Edge edge) {
  if (!budget_.take_work(1)) return;
  CHECK(from < size() && edge.to < size());
  edge.next = first_[from];
  first_[from] = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back(edge);
}

void Nfa::add_empty(std::uint32_t from, std::uint32_t to) {
  add(from, {to, kNone, 0, Kind::kEmpty, 0, 0});
}

void Nfa::add_bytes(std::uint32_t from, std::uint8_t lo, std::uint8_t hi, std::uint32_t to) {
  add(from, {to, kNone, 0, Kind::kBytes, lo, hi});
}

void Nfa::add_call(std::uint32_t from, std::uint32_t rule, std::uint32_t to) {
  add(from, {to, kNone, rule, Kind::kCall, 0, 0});
}

std::uint32_t Nfa::append_literal(std::uint32_t from, std::string_view bytes) {
  for (const char c : bytes) {
    const std::uint32_t to = add_state();
    add_bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    from = to;
  }
  return from;
}

/// Appends the sequences as the smallest automaton without loops: states with the same
/// continuations are one. Classes of letters have hundreds of sequences, and patterns repeat them.
void Nfa::append_utf8(std::uint32_t from, const CharSet& set, std::uint32_t to) {
  Utf8States states{to, {}};
  const std::vector<Utf8Sequence> sequences = utf8_sequences(set);
  for (const Edge& edge : utf8_edges(sequences, 0, states)) {
    add_bytes(from, edge.lo, edge.hi, edge.to);
  }
}

namespace {

bool has_range_at(const Utf8Sequence& sequence, std::size_t depth, const ByteRange& range) {
  return sequence.size() > depth && sequence[depth].lo == range.lo &&
         sequence[depth].hi == range.hi;
}

}  // namespace

/// Returns the edges of byte `depth` of the sequences, which are sorted and equal before it.
std::vector<Nfa::Edge> Nfa::utf8_edges(std::span<const Utf8Sequence> sequences, std::size_t depth,
                                       Utf8States& states) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < sequences.size() && budget_.ok();) {
    const ByteRange range = sequences[i][depth];
    std::size_t end = i + 1;
    while (end < sequences.size() && has_range_at(sequences[end], depth, range)) ++end;
    std::uint32_t target = states.end;
    if (sequences[i].size() > depth + 1) {
      target = utf8_state(utf8_edges(sequences.subspan(i, end - i), depth + 1, states), states);
    }
    const bool joins =
        !edges.empty() && edges.back().to == target && edges.back().hi + 1 == range.lo;
    if (joins) {
      edges.back().hi = range.hi;
    } else {
      edges.push_back({target, kNone, 0, Kind::kBytes, range.lo, range.hi});
    }
    i = end;
  }
  return edges;
}

std::uint32_t Nfa::utf8_state(const std::vector<Edge>& edges, Utf8States& states) {
  std::vector<std::uint32_t> key;
  for (const Edge& edge : edges) {
    key.push_back(edge.lo * 256U + edge.hi);
    key.push_back(edge.to);
  }
  const auto [at, is_new] = states.by_edges.try_emplace(std::move(key), 0);
  if (!is_new) return at->second;
  at->second = add_state();
  for (const Edge& edge : edges) add_bytes(at->second, edge.lo, edge.hi, edge.to);
  return at->second;
}

void Nfa::append_escapes(std::uint32_t from, const CharSet& set, std::uint32_t to) {
  std::map<std::string, std::uint32_t> heads;  // text so far -> state; shared
  for (const CodeRange& range : set) {
    for (char32_t point = range.lo; point <= range.hi; ++point) {
      const std::string text = escape_of(point);
      std::uint32_t at = from;
      for (std::size_t n = 1; n < text.size(); ++n) {
        const auto [head, is_new] = heads.try_emplace(text.substr(0, n), 0);
        if (is_new) {
          head->second = add_state();
          const auto byte = static_cast<std::uint8_t>(text[n - 1]);
          add_bytes(at, byte, byte, head->second);
        }
        at = head->second;
      }
      const auto byte = static_cast<std::uint8_t>(text.back());
      add_bytes(at, byte, byte, to);
    }
  }
}

std::uint32_t Nfa::append_chars(std::uint32_t from, const CharSet& set, Encoding encoding) {
  const std::uint32_t to = add_state();
  if (encoding == Encoding::kUtf8) {
    append_utf8(from, set, to);
  } else {
    append_utf8(from, intersected(set, negated(kMustEscape)), to);
    append_escapes(from, intersected(set, kMustEscape), to);
  }
  return to;
}

std::uint32_t Nfa::append_repeat(std::uint32_t from, const Expr& expr, Encoding encoding) {
  const Expr& part = expr.parts[0];
  std::uint32_t at = from;
  for (std::uint32_t i = 0; i < expr.min && budget_.ok(); ++i) at = append(at, part, encoding);
  if (expr.max == kUnlimited) {
    const std::uint32_t loop = add_state();
    add_empty(at, loop);
    add_empty(append(loop, part, encoding), loop);
    return loop;
  }
  const std::uint32_t end = add_state();
  add_empty(at, end);
  for (std::uint32_t i = expr.min; i < expr.max && budget_.ok(); ++i) {
    // A state of its own, so that no edge leads back into the text before.
    const std::uint32_t begin = add_state();
    add_empty(at, begin);
    at = append(begin, part, encoding);
    add_empty(at, end);
  }
  return end;
}

std::uint32_t Nfa::append_look(std::uint32_t from, const Expr& expr) {
  auto at = std::find(looks_.begin(), looks_.end(), &expr);
  if (at == looks_.end()) at = looks_.insert(at, &expr);
  const std::uint32_t to = add_state();
  add(from, {to, kNone, static_cast<std::uint32_t>(at - looks_.begin()), Kind::kLook, 0, 0});
  return to;
}

std::uint32_t Nfa::append(std::uint32_t from, const Expr& expr, Encoding encoding) {
  if (!budget_.take_work(1)) return 0;  // counts parts that add no state, too: (){1000}
  switch (expr.kind) {
    case Expr::Kind::kEmpty:
      return from;
    case Expr::Kind::kNothing:
      return add_state();
    case Expr::Kind::kLiteral:
      return append_literal(from, expr.bytes);
    case Expr::Kind::kChars:
      return append_chars(from, expr.chars, encoding);
    case Expr::Kind::kSeq:
      for (const Expr& part : expr.parts) from = append(from, part, encoding);
      return from;
    case Expr::Kind::kAlt: {
      const std::uint32_t end = add_state();
      for (const Expr& part : expr.parts) {
        const std::uint32_t begin = add_state();
        add_empty(from, begin);
        add_empty(append(begin, part, encoding), end);
      }
      return end;
    }
    case Expr::Kind::kRepeat:
      return append_repeat(from, expr, encoding);
    case Expr::Kind::kCall: {
      const std::uint32_t to = add_state();
      add_call(from, expr.rule, to);
      return to;
    }
    case Expr::Kind::kBegin:
    case Expr::Kind::kEnd: {
      const std::uint32_t to = add_state();
      const Kind kind = expr.kind == Expr::Kind::kBegin ? Kind::kBegin : Kind::kEnd;
      add(from, {to, kNone, 0, kind, 0, 0});
      return to;
    }
    case Expr::Kind::kLook:
      return append_look(from, expr);
  }
  return from;
}

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (contains(kMustEscape, byte)) {
      out += escape_of(byte);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace holdfast::grammar
