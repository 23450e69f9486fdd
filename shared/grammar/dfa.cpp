#include "shared/grammar/dfa.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <unordered_map>
#include <utility>

namespace holdfast::grammar {
namespace {

using Subset = std::vector<std::uint32_t>;

struct SubsetHash {
  std::size_t operator()(const Subset& subset) const {
    std::uint64_t hash = 0x9E3779B97F4A7C15ULL + subset.size();
    for (const std::uint32_t state : subset) {
      hash = (hash ^ state) * 0xD6E8FEB86659FD93ULL;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

class Builder {
 public:
  explicit Builder(const Nfa& nfa) : nfa_(nfa), mark_(nfa.size(), 0) {}

  Dfa build() {
    std::bitset<257> begins;
    for (const Nfa::Edge& edge : nfa_.edges()) {
      if (edge.kind != Nfa::Kind::kBytes) continue;
      begins.set(edge.lo);
      begins.set(edge.hi + std::size_t{1});
    }
    dfa_.classes = classify(begins, dfa_.class_of);
    moves_.resize(dfa_.classes);
    Subset start{0};
    close(start, true);
    add(std::move(start));
    for (std::uint32_t id = 0; id < dfa_.size() && nfa_.budget().ok(); ++id) expand(id);
    return std::move(dfa_);
  }

 private:
  /// Returns true if the edge can be followed without a byte, and not at the end alone.
  static bool is_free(const Nfa::Edge& edge, bool at_begin) {
    return edge.kind == Nfa::Kind::kEmpty || (at_begin && edge.kind == Nfa::Kind::kBegin);
  }

  /// Adds all states that are reached without a byte; sorted, only states that matter.
  void close(Subset& subset, bool at_begin) {
    ++stamp_;
    Subset relevant;
    for (const std::uint32_t state : subset) mark_[state] = stamp_;
    for (std::size_t i = 0; i < subset.size(); ++i) {
      bool matters = subset[i] == nfa_.accept();
      for (std::uint32_t at = nfa_.first_edge(subset[i]); at != Nfa::kNone;) {
        const Nfa::Edge& edge = nfa_.edge(at);
        at = edge.next;
        if (edge.kind != Nfa::Kind::kEmpty && edge.kind != Nfa::Kind::kBegin) matters = true;
        if (!is_free(edge, at_begin) || mark_[edge.to] == stamp_) continue;
        mark_[edge.to] = stamp_;
        subset.push_back(edge.to);
      }
      if (matters) relevant.push_back(subset[i]);
    }
    nfa_.budget().take_work(subset.size());
    std::sort(relevant.begin(), relevant.end());
    subset = std::move(relevant);
  }

  /// Returns true if the text may end in this subset: the accept state, perhaps after `$`.
  bool accepts(const Subset& subset, bool at_begin) {
    if (std::binary_search(subset.begin(), subset.end(), nfa_.accept())) return true;
    ++stamp_;
    Subset todo;
    for (const std::uint32_t state : subset) {
      follow(state, todo, [](const Nfa::Edge& edge) { return edge.kind == Nfa::Kind::kEnd; });
    }
    for (std::size_t i = 0; i < todo.size(); ++i) {
      if (todo[i] == nfa_.accept()) return true;
      follow(todo[i], todo, [at_begin](const Nfa::Edge& edge) {
        return edge.kind == Nfa::Kind::kEnd || is_free(edge, at_begin);
      });
    }
    return false;
  }

  /// Adds the states behind those edges of `state` for which `may_follow` is true.
  template <class Predicate>
  void follow(std::uint32_t state, Subset& todo, Predicate may_follow) {
    for (std::uint32_t at = nfa_.first_edge(state); at != Nfa::kNone;) {
      const Nfa::Edge& edge = nfa_.edge(at);
      at = edge.next;
      if (!may_follow(edge) || mark_[edge.to] == stamp_) continue;
      mark_[edge.to] = stamp_;
      todo.push_back(edge.to);
    }
  }

  std::uint32_t add(Subset subset) {
    const bool first = dfa_.accepting.empty();
    const auto [at, is_new] = ids_.try_emplace(std::move(subset), dfa_.size());
    if (!is_new) return at->second;
    if (!nfa_.budget().take_states(1)) return Dfa::kDead;
    nfa_.budget().take_work(at->first.size());
    subsets_.push_back(&at->first);
    dfa_.accepting.push_back(accepts(at->first, first) ? 1 : 0);
    dfa_.next.resize(dfa_.next.size() + dfa_.classes, Dfa::kDead);
    dfa_.calls.emplace_back();
    // The start may be shared only if it means the same without `^`, which holds only there.
    if (first && accepts(at->first, true) != accepts(at->first, false)) isolate_start(at->first);
    return dfa_.size() - 1;
  }

  void isolate_start(const Subset& subset) {
    start_copy_ = subset;
    subsets_[0] = &start_copy_;
    ids_.erase(start_copy_);
  }

  using Calls = std::map<std::uint32_t, Subset>;  // by rule

  /// Collects where the state's edges lead: in moves_ by byte class, in `calls`.
  void collect(std::uint32_t state, Calls& calls, std::uint64_t& work) {
    for (std::uint32_t at = nfa_.first_edge(state); at != Nfa::kNone;) {
      const Nfa::Edge& edge = nfa_.edge(at);
      at = edge.next;
      if (edge.kind == Nfa::Kind::kCall) calls[edge.rule].push_back(edge.to);
      if (edge.kind != Nfa::Kind::kBytes) continue;
      const std::uint32_t last = dfa_.class_of[edge.hi];
      for (std::uint32_t c = dfa_.class_of[edge.lo]; c <= last; ++c) {
        moves_[c].push_back(edge.to);
        ++work;
      }
    }
  }

  void expand(std::uint32_t id) {
    for (Subset& move : moves_) move.clear();
    Calls calls;
    std::uint64_t work = 0;
    for (const std::uint32_t state : *subsets_[id]) collect(state, calls, work);
    nfa_.budget().take_work(work + dfa_.classes);
    const std::size_t row = static_cast<std::size_t>(id) * dfa_.classes;
    for (std::uint32_t c = 0; c < dfa_.classes && nfa_.budget().ok(); ++c) {
      if (moves_[c].empty()) continue;
      const std::uint32_t to = target(moves_[c]);
      dfa_.next[row + c] = to;
    }
    for (auto& [rule, states] : calls) {
      if (!nfa_.budget().ok()) return;
      const std::uint32_t to = target(states);
      dfa_.calls[id].push_back({rule, to});
    }
  }

  std::uint32_t target(Subset states) {
    std::sort(states.begin(), states.end());
    states.erase(std::unique(states.begin(), states.end()), states.end());
    close(states, false);
    return add(std::move(states));
  }

  const Nfa& nfa_;
  Dfa dfa_;
  std::unordered_map<Subset, std::uint32_t, SubsetHash> ids_;
  std::vector<const Subset*> subsets_;  // keys of ids_, whose addresses are stable
  Subset start_copy_;
  std::vector<Subset> moves_;
  std::vector<std::uint32_t> mark_;
  std::uint32_t stamp_ = 0;
};

}  // namespace

std::uint32_t classify(const std::bitset<257>& begins, std::array<std::uint8_t, 256>& class_of) {
  std::uint32_t classes = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (byte == 0 || begins[byte]) ++classes;
    class_of[byte] = static_cast<std::uint8_t>(classes - 1);
  }
  return classes;
}

namespace {

/// Returns by state whether the text may end after it.
std::vector<std::uint8_t> useful_states(const Dfa& dfa) {
  std::vector<std::vector<std::uint32_t>> from(dfa.size());
  std::vector<std::uint8_t> useful(dfa.size(), 0);
  std::vector<std::uint32_t> todo;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[static_cast<std::size_t>(s) * dfa.classes + c];
      if (to != Dfa::kDead) from[to].push_back(s);
    }
    if (dfa.accepting[s] == 0) continue;
    useful[s] = 1;
    todo.push_back(s);
  }
  while (!todo.empty()) {
    const std::uint32_t s = todo.back();
    todo.pop_back();
    for (const std::uint32_t p : from[s]) {
      if (useful[p] != 0) continue;
      useful[p] = 1;
      todo.push_back(p);
    }
  }
  return useful;
}

}  // namespace

Dfa trimmed(const Dfa& dfa) {
  const std::vector<std::uint8_t> useful = useful_states(dfa);
  std::vector<std::uint32_t> id(dfa.size(), Dfa::kDead);
  std::uint32_t count = 0;
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    if (useful[s] != 0 || s == 0) id[s] = count++;  // the start is never removed
  }
  Dfa out;
  out.class_of = dfa.class_of;
  out.classes = dfa.classes;
  out.calls.resize(count);
  for (std::uint32_t s = 0; s < dfa.size(); ++s) {
    if (id[s] == Dfa::kDead) continue;
    out.accepting.push_back(dfa.accepting[s]);
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[static_cast<std::size_t>(s) * dfa.classes + c];
      out.next.push_back(to == Dfa::kDead || useful[to] == 0 ? Dfa::kDead : id[to]);
    }
  }
  return out;
}

bool Dfa::matches(std::string_view bytes) const {
  std::uint32_t state = 0;
  for (const char c : bytes) {
    state = step(state, static_cast<std::uint8_t>(c));
    if (state == kDead) return false;
  }
  return accepting[state] != 0;
}

bool Dfa::is_empty() const {
  return std::none_of(accepting.begin(), accepting.end(), [](std::uint8_t a) { return a != 0; });
}

Dfa determinised(const Nfa& nfa) {
  if (!nfa.budget().ok()) {
    Dfa nothing;
    nothing.accepting.push_back(0);
    nothing.next.push_back(Dfa::kDead);
    nothing.calls.resize(1);
    return nothing;
  }
  return Builder(nfa).build();
}

namespace {

/// Adds the edges of one state: one for each range of bytes that leads to the same state.
void append_edges(Nfa& nfa, std::uint32_t base, const Dfa& dfa, std::uint32_t s) {
  for (std::uint32_t lo = 0; lo < 256;) {
    const std::uint32_t to = dfa.step(s, static_cast<std::uint8_t>(lo));
    std::uint32_t hi = lo;
    while (hi < 255 && dfa.step(s, static_cast<std::uint8_t>(hi + 1)) == to) ++hi;
    if (to != Dfa::kDead) {
      nfa.add_bytes(base + s, static_cast<std::uint8_t>(lo), static_cast<std::uint8_t>(hi),
                    base + to);
    }
    lo = hi + 1;
  }
}

}  // namespace

std::uint32_t append_dfa(Nfa& nfa, std::uint32_t from, const Dfa& dfa) {
  const std::uint32_t end = nfa.add_state();
  const std::uint32_t base = nfa.size();
  for (std::uint32_t s = 0; s < dfa.size() && nfa.budget().ok(); ++s) nfa.add_state();
  if (!nfa.budget().ok()) return 0;
  nfa.add_empty(from, base);
  for (std::uint32_t s = 0; s < dfa.size() && nfa.budget().ok(); ++s) {
    if (dfa.accepting[s] != 0) nfa.add_empty(base + s, end);
    append_edges(nfa, base, dfa, s);
  }
  return end;
}

std::vector<std::uint8_t> bytes_of_classes(const Dfa& dfa) {
  std::vector<std::uint8_t> byte_of(dfa.classes);
  for (std::size_t byte = 256; byte-- > 0;)
    byte_of[dfa.class_of[byte]] = static_cast<std::uint8_t>(byte);
  return byte_of;
}

namespace {

/// The pairs of states that some text reaches in two automata; the second may be dead.
class Product {
 public:
  Product(const Dfa& a, const Dfa& b, bool but_not, Budget& budget)
      : a_(a), b_(b), but_not_(but_not), budget_(budget) {}

  Dfa build() {
    std::bitset<257> begins;
    for (std::size_t byte = 1; byte < 256; ++byte) {
      begins[byte] =
          a_.class_of[byte] != a_.class_of[byte - 1] || b_.class_of[byte] != b_.class_of[byte - 1];
    }
    out_.classes = classify(begins, out_.class_of);
    const std::vector<std::uint8_t> byte_of = bytes_of_classes(out_);
    id_of(0, 0);
    for (std::size_t i = 0; i < pairs_.size() && budget_.take_work(out_.classes); ++i) {
      const auto [x, y] = pairs_[i];
      for (const std::uint8_t byte : byte_of) out_.next.push_back(target(x, y, byte));
    }
    out_.next.resize(pairs_.size() * out_.classes, Dfa::kDead);
    out_.calls.resize(pairs_.size());
    return trimmed(out_);
  }

 private:
  std::uint32_t target(std::uint32_t x, std::uint32_t y, std::uint8_t byte) {
    const std::uint32_t nx = a_.step(x, byte);
    const std::uint32_t ny = y == Dfa::kDead ? Dfa::kDead : b_.step(y, byte);
    const bool dead = nx == Dfa::kDead || (ny == Dfa::kDead && !but_not_);
    return dead ? Dfa::kDead : id_of(nx, ny);
  }
  std::uint32_t id_of(std::uint32_t x, std::uint32_t y) {
    const std::uint64_t key = std::uint64_t{x} << 32 | y;
    const auto [at, is_new] = ids_.try_emplace(key, static_cast<std::uint32_t>(pairs_.size()));
    if (is_new) {
      pairs_.emplace_back(x, y);
      const bool in_b = y != Dfa::kDead && b_.accepting[y] != 0;
      out_.accepting.push_back(a_.accepting[x] != 0 && in_b != but_not_ ? 1 : 0);
      budget_.take_states(1);
    }
    return at->second;
  }

  const Dfa& a_;
  const Dfa& b_;
  const bool but_not_;
  Budget& budget_;
  Dfa out_;
  std::unordered_map<std::uint64_t, std::uint32_t> ids_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
};

}  // namespace

Dfa intersected(const Dfa& a, const Dfa& b, bool but_not, Budget& budget) {
  return Product(a, b, but_not, budget).build();
}

}  // namespace holdfast::grammar
