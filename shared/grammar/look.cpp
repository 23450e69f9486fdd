#include "shared/grammar/look.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

namespace holdfast::grammar {
namespace {

using States = std::vector<std::uint32_t>;

/// An expression, and the lookaheads and lookbehinds in it.
struct Part {
  explicit Part(Budget& budget) : nfa(budget) {}
  Nfa nfa;
  std::vector<std::unique_ptr<Part>> looks;  // by Nfa::looks
  std::uint32_t lookbehind = 0;              // of a lookbehind: its index
  bool has_lookbehind = false;               // somewhere inside
};

/// A lookahead's condition on the rest of the text.
struct Duty {
  Dfa dfa;
  bool negative = false;
  std::vector<std::uint8_t> always;  // by state: accepts whatever follows
};

/// A way to read the text so far: its state, and the lookaheads that the rest must satisfy.
struct Thread {
  std::uint32_t state = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> owed;  // Duty index, state of it; sorted
  auto operator<=>(const Thread&) const = default;
};

/// The context in which a part begins.
struct Start {
  bool at_begin = true;
  States lookbehind;
  auto operator<=>(const Start&) const = default;
};

/// The identity of a state of the automaton.
struct Moment {
  std::vector<Thread> threads;
  Start start;
  auto operator<=>(const Moment&) const = default;
};

/// Compares an automaton with that of all texts: finds the states that accept whenever that does.
class AlwaysAccepting {
 public:
  /// `begins`: the bytes that are the first ones of their class.
  AlwaysAccepting(const Dfa& dfa, const Dfa& every, const std::bitset<257>& begins, Budget& budget)
      : dfa_(dfa), every_(every), begins_(begins), budget_(budget) {}

  std::vector<std::uint8_t> build() {
    id_of(0, 0);
    for (std::uint32_t i = 0; i < pairs_.size() && budget_.take_work(256); ++i) {
      follow(i, 0);
      for (std::size_t byte = 1; byte < 256; ++byte) {
        if (begins_[byte]) follow(i, static_cast<std::uint8_t>(byte));
      }
    }
    const std::vector<std::uint8_t> misses = reaching_bad();
    std::vector<std::uint8_t> always(dfa_.size(), 1);
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
      if (misses[i] != 0) always[pairs_[i].first] = 0;
    }
    return always;
  }

 private:
  std::uint32_t id_of(std::uint32_t x, std::uint32_t all) {
    const auto [at, is_new] =
        ids_.try_emplace(std::pair(x, all), static_cast<std::uint32_t>(pairs_.size()));
    if (is_new) {
      pairs_.emplace_back(x, all);
      from_.emplace_back();
      const bool misses = every_.accepting[all] != 0 && dfa_.accepting[x] == 0;
      if (misses) bad_.push_back(at->second);
    }
    return at->second;
  }
  /// Follows a byte from pair `i`. Where only the automaton of all texts goes on the pair is bad.
  void follow(std::uint32_t i, std::uint8_t byte) {
    const auto [x, all] = pairs_[i];
    const std::uint32_t all_to = every_.step(all, byte);
    if (all_to == Dfa::kDead) return;
    const std::uint32_t to = dfa_.step(x, byte);
    if (to == Dfa::kDead) {
      bad_.push_back(i);
    } else {
      from_[id_of(to, all_to)].push_back(i);
    }
  }
  /// Returns by pair whether some text leads from it to a bad one.
  std::vector<std::uint8_t> reaching_bad() {
    std::vector<std::uint8_t> reach(pairs_.size(), 0);
    while (!bad_.empty()) {
      const std::uint32_t i = bad_.back();
      bad_.pop_back();
      if (reach[i] != 0) continue;
      reach[i] = 1;
      bad_.insert(bad_.end(), from_[i].begin(), from_[i].end());
    }
    return reach;
  }

  const Dfa& dfa_;
  const Dfa& every_;
  const std::bitset<257>& begins_;
  Budget& budget_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ids_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;
  std::vector<States> from_;  // by pair: those from which a byte leads to it
  States bad_;
};

class Compiler {
 public:
  Compiler(Encoding encoding, Budget& budget) : encoding_(encoding), budget_(budget) {}

  Dfa compile(const Expr& expr) {
    const std::unique_ptr<Part> part = part_of(expr);
    every_ = lookbehind_dfa(Expr::empty());
    return run(*part, {true, States(part->has_lookbehind ? lookbehinds_.size() : 0, 0)});
  }

 private:
  friend class PartRun;

  static Expr any() { return Expr::repeat(Expr::one_of(negated({})), 0, kUnlimited); }

  std::unique_ptr<Part> part_of(const Expr& expr) {
    auto part = std::make_unique<Part>(budget_);
    part->nfa.set_accept(part->nfa.append(0, expr, encoding_));
    note_bytes(part->nfa);
    for (const Expr* look : part->nfa.looks()) {
      if (look->ahead) {
        tails_.push_back(std::make_unique<Expr>(Expr::seq({look->parts[0], any()})));
        part->looks.push_back(part_of(*tails_.back()));
        part->has_lookbehind = part->has_lookbehind || part->looks.back()->has_lookbehind;
        continue;
      }
      part->has_lookbehind = true;
      auto& lookbehind = part->looks.emplace_back(std::make_unique<Part>(budget_));
      lookbehind->lookbehind = static_cast<std::uint32_t>(lookbehinds_.size());
      lookbehinds_.push_back(lookbehind_dfa(look->parts[0]));
    }
    return part;
  }
  /// Returns the texts that end with a match of `expr`.
  Dfa lookbehind_dfa(const Expr& expr) {
    Nfa nfa(budget_);
    nfa.set_accept(nfa.append(0, Expr::seq({any(), expr}), encoding_));
    note_bytes(nfa);
    return determinised(nfa);
  }
  void note_bytes(const Nfa& nfa) {
    for (const Nfa::Edge& edge : nfa.edges()) {
      if (edge.kind != Nfa::Kind::kBytes) continue;
      begins_.set(edge.lo);
      begins_.set(edge.hi + std::size_t{1});
    }
  }

  Dfa run(const Part& part, const Start& start);

  /// Returns the Duty of a lookahead that begins in this context.
  std::uint32_t duty_of(const Part& part, bool negative, Start start) {
    if (!part.has_lookbehind) start.lookbehind.clear();
    const auto [at, is_new] = duty_ids_.try_emplace(std::tuple(&part, negative, start), 0);
    if (!is_new) return at->second;
    Duty duty;
    duty.dfa = run(part, start);
    duty.negative = negative;
    duty.always = AlwaysAccepting(duty.dfa, every_, begins_, budget_).build();
    at->second = static_cast<std::uint32_t>(duties_.size());
    duties_.push_back(std::move(duty));
    return at->second;
  }

  const Encoding encoding_;
  Budget& budget_;
  std::bitset<257> begins_;
  Dfa every_;
  std::vector<Dfa> lookbehinds_;
  std::vector<std::unique_ptr<Expr>> tails_;
  std::deque<Duty> duties_;
  std::map<std::tuple<const Part*, bool, Start>, std::uint32_t> duty_ids_;
};

/// Runs one part from one start.
class PartRun {
 public:
  PartRun(Compiler& all, const Part& part) : all_(all), part_(part) {}

  Dfa build(const Start& start) {
    dfa_.classes = classify(all_.begins_, dfa_.class_of);
    const std::vector<std::uint8_t> byte_of = bytes_of_classes(dfa_);
    add({closed({Thread{}}, start), start});
    for (std::uint32_t id = 0; id < dfa_.size() && all_.budget_.ok(); ++id) {
      for (std::uint32_t c = 0; c < dfa_.classes && all_.budget_.ok(); ++c) {
        const std::uint32_t to = step(*moments_[id], byte_of[c]);
        dfa_.next[std::size_t{id} * dfa_.classes + c] = to;
      }
    }
    return trimmed(dfa_);
  }

 private:
  std::uint32_t add(Moment moment) {
    const auto [at, is_new] = ids_.try_emplace(std::move(moment), dfa_.size());
    if (!is_new) return at->second;
    if (!all_.budget_.take_states(1)) return Dfa::kDead;
    moments_.push_back(&at->first);
    dfa_.accepting.push_back(accepts(at->first) ? 1 : 0);
    dfa_.next.resize(dfa_.next.size() + dfa_.classes, Dfa::kDead);
    dfa_.calls.emplace_back();
    return dfa_.size() - 1;
  }

  /// Returns the context after a byte.
  Start start_after(const Start& from, std::uint8_t byte) const {
    Start to;
    to.at_begin = false;
    for (std::size_t b = 0; b < from.lookbehind.size(); ++b) {
      const std::uint32_t at = from.lookbehind[b];
      to.lookbehind.push_back(at == Dfa::kDead ? at : all_.lookbehinds_[b].step(at, byte));
    }
    return to;
  }

  std::uint32_t step(const Moment& from, std::uint8_t byte) {
    Moment to;
    to.start = start_after(from.start, byte);
    std::vector<Thread> moved;
    for (const Thread& thread : from.threads) {
      Thread next;
      if (!pay(thread, byte, next)) continue;
      for (std::uint32_t at = part_.nfa.first_edge(thread.state); at != Nfa::kNone;) {
        const Nfa::Edge& edge = part_.nfa.edge(at);
        at = edge.next;
        if (edge.kind != Nfa::Kind::kBytes || byte < edge.lo || byte > edge.hi) continue;
        next.state = edge.to;
        moved.push_back(next);
      }
    }
    all_.budget_.take_work(from.threads.size() * 4 + 1);
    to.threads = closed(std::move(moved), to.start);
    return to.threads.empty() ? Dfa::kDead : add(std::move(to));
  }

  /// Advances the lookaheads of a thread by a byte. False: one of them can no longer be satisfied.
  bool pay(const Thread& thread, std::uint8_t byte, Thread& next) const {
    for (const auto& [duty, state] : thread.owed) {
      if (!owe(next, duty, all_.duties_[duty].dfa.step(state, byte))) return false;
    }
    return true;
  }
  bool owe(Thread& thread, std::uint32_t duty, std::uint32_t state) const {
    const Duty& d = all_.duties_[duty];
    const bool never = state == Dfa::kDead;
    const bool always = !never && d.always[state] != 0;
    if (never || always) return always != d.negative;
    const std::pair both{duty, state};
    const auto at = std::lower_bound(thread.owed.begin(), thread.owed.end(), both);
    if (at == thread.owed.end() || *at != both) thread.owed.insert(at, both);
    return true;
  }

  /// Adds all threads that are reached without a byte; of those in one state only the ones with the
  /// fewest lookaheads stay.
  std::vector<Thread> closed(std::vector<Thread> threads, const Start& here) {
    std::vector<Thread> relevant;
    std::set<Thread> visited(threads.begin(), threads.end());
    for (std::size_t i = 0; i < threads.size() && all_.budget_.take_work(4); ++i) {
      bool matters = threads[i].state == part_.nfa.accept();
      for (std::uint32_t at = part_.nfa.first_edge(threads[i].state); at != Nfa::kNone;) {
        const Nfa::Edge& edge = part_.nfa.edge(at);
        at = edge.next;
        matters = matters || edge.kind == Nfa::Kind::kBytes || edge.kind == Nfa::Kind::kEnd;
        Thread next = threads[i];
        if (!follow(edge, here, false, next)) continue;
        if (visited.insert(next).second) threads.push_back(std::move(next));
      }
      if (matters) relevant.push_back(threads[i]);
    }
    std::sort(relevant.begin(), relevant.end());
    relevant.erase(std::unique(relevant.begin(), relevant.end()), relevant.end());
    return least(relevant);
  }
  static std::vector<Thread> least(const std::vector<Thread>& sorted) {
    std::vector<Thread> out;
    for (const Thread& thread : sorted) {
      const bool more = std::any_of(sorted.begin(), sorted.end(), [&](const Thread& other) {
        return other.state == thread.state && other.owed.size() < thread.owed.size() &&
               std::includes(thread.owed.begin(), thread.owed.end(), other.owed.begin(),
                             other.owed.end());
      });
      if (!more) out.push_back(thread);
    }
    return out;
  }

  /// Returns true if an edge can be followed without a byte; `next` becomes its thread.
  bool follow(const Nfa::Edge& edge, const Start& here, bool at_end, Thread& next) {
    next.state = edge.to;
    if (edge.kind == Nfa::Kind::kEmpty) return true;
    if (edge.kind == Nfa::Kind::kBegin) return here.at_begin;
    if (edge.kind == Nfa::Kind::kEnd) return at_end;
    if (edge.kind != Nfa::Kind::kLook) return false;
    const Expr& look = *part_.nfa.looks()[edge.rule];
    const Part& inner = *part_.looks[edge.rule];
    if (look.ahead) return owe(next, all_.duty_of(inner, look.negative, here), 0);
    const std::uint32_t at = here.lookbehind[inner.lookbehind];
    const bool holds = at != Dfa::kDead && all_.lookbehinds_[inner.lookbehind].accepting[at] != 0;
    return holds != look.negative;
  }

  bool accepts(const Moment& moment) {
    std::vector<Thread> threads = moment.threads;
    std::set<Thread> visited(threads.begin(), threads.end());
    for (std::size_t i = 0; i < threads.size() && all_.budget_.take_work(4); ++i) {
      if (threads[i].state == part_.nfa.accept() && is_paid(threads[i])) return true;
      for (std::uint32_t at = part_.nfa.first_edge(threads[i].state); at != Nfa::kNone;) {
        const Nfa::Edge& edge = part_.nfa.edge(at);
        at = edge.next;
        Thread next = threads[i];
        if (!follow(edge, moment.start, true, next)) continue;
        if (visited.insert(next).second) threads.push_back(std::move(next));
      }
    }
    return false;
  }
  bool is_paid(const Thread& thread) const {
    return std::all_of(thread.owed.begin(), thread.owed.end(), [&](const auto& owed) {
      const Duty& d = all_.duties_[owed.first];
      return (d.dfa.accepting[owed.second] != 0) != d.negative;
    });
  }

  Compiler& all_;
  const Part& part_;
  Dfa dfa_;
  std::map<Moment, std::uint32_t> ids_;
  std::vector<const Moment*> moments_;  // keys of ids_, whose addresses are stable
};

Dfa Compiler::run(const Part& part, const Start& start) {
  return PartRun(*this, part).build(start);
}

}  // namespace

bool has_looks(const Expr& expr) {
  return expr.kind == Expr::Kind::kLook ||
         std::any_of(expr.parts.begin(), expr.parts.end(), &has_looks);
}

Dfa dfa_of_looks(const Expr& expr, Encoding encoding, Budget& budget) {
  return Compiler(encoding, budget).compile(expr);
}

}  // namespace holdfast::grammar
