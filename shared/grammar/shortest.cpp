#include "shared/grammar/shortest.h"

#include <functional>
#include <limits>
#include <queue>
#include <unordered_set>
#include <utility>

namespace holdfast::grammar {
namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

using Entry = std::pair<std::uint32_t, std::uint32_t>;  // bytes, state or frame
using Nearest = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

/// The edges by their target, packed.
class Backwards {
 public:
  Backwards(std::size_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges)
      : begin_(nodes + 1, 0), from_(edges.size()) {
    for (const auto& [to, from] : edges) ++begin_[to + 1];
    for (std::size_t i = 0; i < nodes; ++i) begin_[i + 1] += begin_[i];
    std::vector<std::uint32_t> at(begin_.begin(), begin_.end() - 1);
    for (const auto& [to, from] : edges) from_[at[to]++] = from;
  }
  template <class Visit>
  void each(std::uint32_t to, Visit visit) const {
    for (std::uint32_t i = begin_[to]; i < begin_[to + 1]; ++i) visit(from_[i]);
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<std::uint32_t> from_;
};

Backwards steps_of(const Grammar& grammar) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (StateId s = 0; s < grammar.states.size(); ++s) {
    const Grammar::State& state = grammar.states[s];
    StateId last = kDead;
    for (std::uint32_t c = 0; state.has_bytes && c < grammar.rules[state.rule].classes; ++c) {
      const StateId to = grammar.next[state.row + c];
      if (to != kDead && to != last) edges.emplace_back(to, s);
      last = to;
    }
  }
  return {grammar.states.size(), std::move(edges)};
}

/// The calls of a grammar by the places that they have to do with.
struct Calls {
  std::vector<StateId> caller;  // by call
  Backwards to_state;           // calls that return to a state
  Backwards to_rule;            // calls of a rule
  Backwards rules_at;           // rules that start at a state
};

Calls calls_of(const Grammar& grammar) {
  std::vector<StateId> caller(grammar.calls.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> returns, of_rules, starts;
  for (StateId s = 0; s < grammar.states.size(); ++s) {
    const Grammar::State& state = grammar.states[s];
    for (std::uint32_t c = state.call_begin; c < state.call_end; ++c) {
      caller[c] = s;
      returns.emplace_back(grammar.calls[c].to, c);
      of_rules.emplace_back(grammar.calls[c].rule, c);
    }
  }
  for (RuleId r = 0; r < grammar.rules.size(); ++r) starts.emplace_back(grammar.rules[r].start, r);
  return {std::move(caller), Backwards(grammar.states.size(), std::move(returns)),
          Backwards(grammar.rules.size(), std::move(of_rules)),
          Backwards(grammar.states.size(), std::move(starts))};
}

}  // namespace

/// Computes distances by Knuth's generalisation of Dijkstra's algorithm: the cost of a call is that
/// of its rule plus that of the continuation, so it counts when the later of both is known.
Shortest::Shortest(const Grammar& grammar) : to_end_(grammar.states.size(), kFar) {
  const Backwards steps = steps_of(grammar);
  const Calls calls = calls_of(grammar);
  std::vector<bool> settled(grammar.states.size(), false);
  Nearest todo;
  const auto reach = [&](StateId state, std::uint32_t bytes) {
    if (bytes >= to_end_[state]) return;
    to_end_[state] = bytes;
    todo.emplace(bytes, state);
  };
  const auto through = [&](std::uint32_t call) {
    const Grammar::Call& c = grammar.calls[call];
    const StateId start = grammar.rules[c.rule].start;
    if (settled[start] && settled[c.to]) reach(calls.caller[call], to_end_[start] + to_end_[c.to]);
  };
  for (StateId s = 0; s < grammar.states.size(); ++s) {
    if (grammar.states[s].accepting) reach(s, 0);
  }
  while (!todo.empty()) {
    const auto [bytes, state] = todo.top();
    todo.pop();
    if (settled[state]) continue;
    settled[state] = true;
    steps.each(state, [&, near = bytes](StateId from) { reach(from, near + 1); });
    calls.to_state.each(state, through);
    calls.rules_at.each(state, [&](RuleId rule) { calls.to_rule.each(rule, through); });
  }
}

std::uint32_t Shortest::of(const Pushdown& machine, const Configurations& configurations) const {
  Nearest todo;
  std::unordered_set<FrameId> done;
  for (const Configuration& configuration : configurations)
    todo.emplace(to_end_[configuration.state], configuration.frame);
  while (!todo.empty()) {
    const auto [bytes, frame] = todo.top();
    todo.pop();
    if (frame == Pushdown::kBottom) return bytes;
    if (!done.insert(frame).second) continue;
    for (auto at = machine.first_link(frame); at != Pushdown::kNone; at = machine.link(at).next) {
      const Pushdown::Link& link = machine.link(at);
      if (to_end_[link.state] != kFar) todo.emplace(bytes + to_end_[link.state], link.frame);
    }
  }
  return kFar;
}

}  // namespace holdfast::grammar
