#include "shared/grammar/assemble.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::grammar {
namespace {

/// Finds the states that can reach the end of their rule, over all rules at once. A call counts
/// when the called rule derives some text and the caller can go on from where the call returns.
class Productive {
 public:
  explicit Productive(const std::vector<RuleSource>& rules) : rules_(rules) {
    std::uint32_t total = 0;
    for (const RuleSource& rule : rules) {
      base_.push_back(total);
      total += rule.dfa.size();
    }
    useful_.resize(total, 0);
    preds_.resize(total);
    returns_.resize(total);
    callers_.resize(rules.size());
    for (RuleId r = 0; r < rules.size(); ++r) link(r);
    spread();
  }
  bool at(RuleId rule, std::uint32_t state) const { return useful_[base_[rule] + state] != 0; }

 private:
  struct CallSite {
    std::uint32_t from;
    RuleId rule;
    std::uint32_t to;
  };
  void link(RuleId r) {
    const Dfa& dfa = rules_[r].dfa;
    for (std::uint32_t s = 0; s < dfa.size(); ++s) {
      std::uint32_t last = Dfa::kDead;
      for (std::uint32_t c = 0; c < dfa.classes; ++c) {
        const std::uint32_t to = dfa.next[std::size_t{s} * dfa.classes + c];
        if (to == Dfa::kDead || to == last) continue;
        preds_[base_[r] + to].push_back(base_[r] + s);
        last = to;
      }
      for (const Dfa::Call& call : dfa.calls[s]) {
        const auto site = static_cast<std::uint32_t>(sites_.size());
        sites_.push_back({base_[r] + s, call.rule, base_[r] + call.to});
        callers_[call.rule].push_back(site);
        returns_[base_[r] + call.to].push_back(site);
      }
      if (dfa.accepting[s] != 0) mark(base_[r] + s);
    }
  }
  void mark(std::uint32_t state) {
    if (useful_[state] != 0) return;
    useful_[state] = 1;
    todo_.push_back(state);
  }
  void try_site(const CallSite& site) {
    if (useful_[site.to] != 0 && useful_[base_[site.rule]] != 0) mark(site.from);
  }
  void spread() {
    while (!todo_.empty()) {
      const std::uint32_t state = todo_.back();
      todo_.pop_back();
      for (const std::uint32_t pred : preds_[state]) mark(pred);
      for (const std::uint32_t site : returns_[state]) try_site(sites_[site]);
      const auto after = std::upper_bound(base_.begin(), base_.end(), state);
      const auto rule = static_cast<std::size_t>(after - base_.begin() - 1);
      if (base_[rule] != state) continue;  // not a start
      for (const std::uint32_t site : callers_[rule]) try_site(sites_[site]);
    }
  }

  const std::vector<RuleSource>& rules_;
  std::vector<std::uint32_t> base_;
  std::vector<std::uint8_t> useful_;
  std::vector<std::vector<std::uint32_t>> preds_;
  std::vector<std::vector<std::uint32_t>> returns_;  // call sites that return to a state
  std::vector<std::vector<std::uint32_t>> callers_;  // call sites of a rule
  std::vector<CallSite> sites_;
  std::vector<std::uint32_t> todo_;
};

/// Copies the productive and reachable states, rule by rule, into the common numbering.
class Flattener {
 public:
  Flattener(const std::vector<RuleSource>& rules, const Productive& productive)
      : rules_(rules),
        productive_(productive),
        ids_(rules.size()),
        rule_ids_(rules.size(), kDead) {}

  std::shared_ptr<Grammar> flatten(RuleId root) {
    use(root);
    for (std::size_t i = 0; i < order_.size(); ++i) number(order_[i]);
    for (const RuleId r : order_) copy(r);
    out_->root = 0;
    return out_;
  }
  const std::vector<RuleId>& order() const { return order_; }

 private:
  void use(RuleId r) {
    if (rule_ids_[r] != kDead) return;
    rule_ids_[r] = static_cast<RuleId>(order_.size());
    order_.push_back(r);
  }
  bool is_productive_call(RuleId r, const Dfa::Call& call) const {
    return productive_.at(r, call.to) && productive_.at(call.rule, 0);
  }
  void number(RuleId r) {
    const Dfa& dfa = rules_[r].dfa;
    std::vector<StateId>& id = ids_[r];
    id.assign(dfa.size(), kDead);
    std::vector<std::uint32_t> todo{0};
    id[0] = states_++;
    for (std::size_t i = 0; i < todo.size(); ++i) {
      const auto reach = [&](std::uint32_t to) {
        if (id[to] != kDead || !productive_.at(r, to)) return;
        id[to] = states_++;
        todo.push_back(to);
      };
      for (std::uint32_t c = 0; c < dfa.classes; ++c) {
        const std::uint32_t to = dfa.next[std::size_t{todo[i]} * dfa.classes + c];
        if (to != Dfa::kDead) reach(to);
      }
      for (const Dfa::Call& call : dfa.calls[todo[i]]) {
        if (!is_productive_call(r, call)) continue;
        reach(call.to);
        use(call.rule);
      }
    }
    numbered_.push_back(std::move(todo));
  }
  void copy(RuleId r) {
    const Dfa& dfa = rules_[r].dfa;
    Grammar& g = *out_;
    Grammar::Rule rule;
    rule.class_of = dfa.class_of;
    rule.classes = dfa.classes;
    rule.start = ids_[r][0];
    for (const std::uint32_t s : numbered_[rule_ids_[r]]) {
      g.states.push_back(copied_state(r, s));
      rule.has_calls = rule.has_calls || g.states.back().call_begin != g.states.back().call_end;
    }
    g.rules.push_back(rule);
  }
  /// Copies the edges of a state, and returns what they are.
  Grammar::State copied_state(RuleId r, std::uint32_t s) {
    const Dfa& dfa = rules_[r].dfa;
    Grammar& g = *out_;
    Grammar::State state;
    state.row = static_cast<std::uint32_t>(g.next.size());
    state.rule = rule_ids_[r];
    state.accepting = dfa.accepting[s] != 0;
    for (std::uint32_t c = 0; c < dfa.classes; ++c) {
      const std::uint32_t to = dfa.next[std::size_t{s} * dfa.classes + c];
      g.next.push_back(to == Dfa::kDead ? kDead : ids_[r][to]);
      state.has_bytes = state.has_bytes || g.next.back() != kDead;
    }
    state.only = note_bytes(state, dfa);
    state.call_begin = static_cast<std::uint32_t>(g.calls.size());
    for (const Dfa::Call& call : dfa.calls[s]) {
      if (is_productive_call(r, call)) g.calls.push_back({rule_ids_[call.rule], ids_[r][call.to]});
    }
    state.call_end = static_cast<std::uint32_t>(g.calls.size());
    return state;
  }
  /// Notes the bytes that the state reads. Returns the only one; -1 for none, or more than one.
  std::int16_t note_bytes(const Grammar::State& state, const Dfa& dfa) {
    std::int16_t only = -1;
    int bytes = 0;
    for (std::int16_t byte = 0; byte < 256; ++byte) {
      const std::size_t at = state.row + dfa.class_of[static_cast<std::size_t>(byte)];
      if (out_->next[at] == kDead) continue;
      out_->bytes_used.set(static_cast<std::size_t>(byte));
      only = ++bytes == 1 ? byte : std::int16_t{-1};
    }
    return only;
  }

  const std::vector<RuleSource>& rules_;
  const Productive& productive_;
  std::shared_ptr<Grammar> out_ = std::make_shared<Grammar>();
  std::vector<std::vector<StateId>> ids_;
  std::vector<RuleId> rule_ids_;
  std::vector<RuleId> order_;
  std::vector<std::vector<std::uint32_t>> numbered_;
  StateId states_ = 0;
};

/// Returns the states that a rule reaches from its start without reading anything.
std::vector<StateId> free_states(const Grammar& g, RuleId rule) {
  std::vector<StateId> out{g.rules[rule].start};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Grammar::State& s = g.states[out[i]];
    for (std::uint32_t c = s.call_begin; c < s.call_end; ++c) {
      const StateId to = g.calls[c].to;
      if (!g.rules[g.calls[c].rule].nullable) continue;
      if (std::find(out.begin(), out.end(), to) == out.end()) out.push_back(to);
    }
  }
  return out;
}

void find_nullable(Grammar& g, Budget& budget) {
  for (bool changed = true; changed && budget.ok();) {
    changed = false;
    for (RuleId r = 0; r < g.rules.size(); ++r) {
      if (g.rules[r].nullable) continue;
      const std::vector<StateId> free = free_states(g, r);
      budget.take_work(free.size() * free.size());
      const bool nullable =
          std::any_of(free.begin(), free.end(), [&](StateId s) { return g.states[s].accepting; });
      g.rules[r].nullable = nullable;
      changed = changed || nullable;
    }
  }
}

/// Returns by rule the rules that it calls before reading anything.
std::vector<std::vector<RuleId>> first_calls(const Grammar& g) {
  std::vector<std::vector<RuleId>> first(g.rules.size());
  for (RuleId r = 0; r < first.size(); ++r) {
    for (const StateId s : free_states(g, r)) {
      const Grammar::State& state = g.states[s];
      for (std::uint32_t c = state.call_begin; c < state.call_end; ++c) {
        first[r].push_back(g.calls[c].rule);
      }
    }
  }
  return first;
}

/// Returns by rule how many calls enter it from rules on or after a cycle; 0 for all other rules.
std::vector<std::uint32_t> calls_after_cycles(const std::vector<std::vector<RuleId>>& first) {
  std::vector<std::uint32_t> entering(first.size(), 0);
  for (const std::vector<RuleId>& calls : first) {
    for (const RuleId to : calls) ++entering[to];
  }
  std::vector<RuleId> todo;  // topological order
  for (RuleId r = 0; r < first.size(); ++r) {
    if (entering[r] == 0) todo.push_back(r);
  }
  for (std::size_t i = 0; i < todo.size(); ++i) {
    for (const RuleId to : first[todo[i]]) {
      if (--entering[to] == 0) todo.push_back(to);
    }
  }
  return entering;
}

/// Returns a rule that calls itself before reading anything, if there is one.
RuleId find_left_recursion(const Grammar& g) {
  const std::vector<std::vector<RuleId>> first = first_calls(g);
  const std::vector<std::uint32_t> entering = calls_after_cycles(first);
  // Going backwards from any remaining rule leads to a cycle.
  std::vector<RuleId> before(first.size(), kDead);
  RuleId at = kDead;
  for (RuleId r = 0; r < first.size(); ++r) {
    if (entering[r] == 0) continue;
    at = r;
    for (const RuleId to : first[r]) before[to] = r;
  }
  if (at == kDead) return kDead;
  for (RuleId steps = 0; steps < first.size(); ++steps) at = before[at];
  return at;
}

/// Finds classes of states that agree within kHorizonBytes: partition refinement, one round a byte.
class Horizon {
 public:
  Horizon(Grammar& g, Budget& budget) : g_(g), budget_(budget) {}
  void find() {
    const auto count = static_cast<StateId>(g_.states.size());
    g_.horizon.resize(count);
    std::vector<std::uint32_t> id(count);
    StateId at = 0;
    while (at < count) {
      StateId end = at;
      while (end < count && g_.states[end].rule == g_.states[at].rule) ++end;
      refine(at, end, id);
      at = end;
    }
  }

 private:
  static constexpr StateId kSmallRule = 48;  // states; below, it does not pay

  void assign_singletons(StateId begin, StateId end) {
    for (StateId s = begin; s < end; ++s) g_.horizon[s] = s;
  }
  void refine(StateId begin, StateId end, std::vector<std::uint32_t>& id) {
    if (end - begin <= kSmallRule) return assign_singletons(begin, end);
    for (StateId s = begin; s < end; ++s) id[s] = first_class(s);
    const std::uint32_t width = g_.rules[g_.states[begin].rule].classes;
    std::size_t classes = 0;
    table_.resize(std::bit_ceil(std::size_t{end - begin} * 2));
    std::vector<std::uint32_t> fresh(end - begin);
    for (std::uint32_t round = 0; round < kHorizonBytes; ++round) {
      if (!budget_.take_work(std::uint64_t{end - begin} * width)) return;
      std::fill(table_.begin(), table_.end(), kDead);
      std::size_t found = 0;
      for (StateId s = begin; s < end; ++s) {
        const StateId first = look_up(s, width, id);
        found += first == s ? 1 : 0;
        fresh[s - begin] = first;
      }
      std::copy(fresh.begin(), fresh.end(), id.begin() + begin);
      if (found == classes) break;  // stable: the same for any number of bytes
      classes = found;
    }
    std::unordered_map<std::uint32_t, StateId> representative;
    for (StateId s = begin; s < end; ++s) {
      g_.horizon[s] = representative.try_emplace(id[s], s).first->second;
    }
  }
  /// Returns the initial class. A call that may derive nothing makes "within so many bytes" harder:
  /// such states get a class of their own.
  std::uint32_t first_class(StateId s) const {
    const Grammar::State& state = g_.states[s];
    for (std::uint32_t c = state.call_begin; c < state.call_end; ++c) {
      if (g_.rules[g_.calls[c].rule].nullable) return 2 + s;
    }
    return state.accepting ? 1 : 0;
  }
  /// Returns the first state that was looked up with the same class and the same successor classes.
  StateId look_up(StateId s, std::uint32_t width, const std::vector<std::uint32_t>& id) {
    std::uint64_t hash = id[s];
    const auto put = [&hash](std::uint32_t v) {
      hash = (hash ^ v) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    };
    const Grammar::State& state = g_.states[s];
    for (std::uint32_t c = 0; c < width; ++c) put(class_at(state.row + c, id));
    for (std::uint32_t c = state.call_begin; c < state.call_end; ++c) put(id[g_.calls[c].to]);
    for (std::size_t at = hash;; ++at) {
      StateId& slot = table_[at & (table_.size() - 1)];
      if (slot == kDead) slot = s;
      if (slot == s || agree(slot, s, width, id)) return slot;
    }
  }
  std::uint32_t class_at(std::size_t at, const std::vector<std::uint32_t>& id) const {
    return g_.next[at] == kDead ? kDead : id[g_.next[at]];
  }
  bool agree(StateId a, StateId b, std::uint32_t width,
             const std::vector<std::uint32_t>& id) const {
    const Grammar::State& x = g_.states[a];
    const Grammar::State& y = g_.states[b];
    const std::uint32_t calls = x.call_end - x.call_begin;
    if (id[a] != id[b] || calls != y.call_end - y.call_begin) return false;
    for (std::uint32_t c = 0; c < width; ++c) {
      if (class_at(x.row + c, id) != class_at(y.row + c, id)) return false;
    }
    for (std::uint32_t c = 0; c < calls; ++c) {
      const Grammar::Call& p = g_.calls[x.call_begin + c];
      const Grammar::Call& q = g_.calls[y.call_begin + c];
      if (p.rule != q.rule || id[p.to] != id[q.to]) return false;
    }
    return true;
  }

  std::vector<StateId> table_;
  Grammar& g_;
  Budget& budget_;
};

}  // namespace

Result<GrammarPtr> assemble(const std::vector<RuleSource>& rules, RuleId root, Budget& budget,
                            const std::string& operation) {
  if (!budget.ok()) return budget.error(operation);
  CHECK(root < rules.size());
  const Productive productive(rules);
  if (!productive.at(root, 0)) {
    return Error{Errc::kInvalidRequest,
                 operation + ": no text satisfies it; expected at least one that does"};
  }
  Flattener flattener(rules, productive);
  const std::shared_ptr<Grammar> grammar = flattener.flatten(root);
  find_nullable(*grammar, budget);
  if (!budget.ok()) return budget.error(operation);
  const RuleId looping = find_left_recursion(*grammar);
  if (looping != kDead) {
    return Error{Errc::kUnsupported, operation + ": the rule '" +
                                         rules[flattener.order()[looping]].name +
                                         "' can call itself before it reads anything (left "
                                         "recursion); write it as a repetition"};
  }
  Horizon(*grammar, budget).find();
  if (!budget.ok()) return budget.error(operation);
  return GrammarPtr(grammar);
}

}  // namespace holdfast::grammar
