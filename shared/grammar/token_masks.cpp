#include "shared/grammar/token_masks.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::grammar {

Result<std::shared_ptr<TokenMasks>> TokenMasks::make(GrammarPtr grammar,
                                                     std::shared_ptr<const TokenTable> table,
                                                     std::size_t bytes_max) {
  HOLDFAST_CHECKED(check_coverage(*grammar, table->single_bytes()));
  return std::make_shared<TokenMasks>(std::move(grammar), std::move(table), bytes_max);
}

TokenMasks::TokenMasks(GrammarPtr grammar, std::shared_ptr<const TokenTable> table,
                       std::size_t bytes_max)
    : grammar_(std::move(grammar)),
      table_(std::move(table)),
      bytes_max_(bytes_max),
      layers_{{&table_->short_trie(), {}, {}}, {&table_->long_trie(), {}, {}}},
      walker_(*grammar_),
      loops_(grammar_->states.size(), kNone) {
  const std::size_t depth = std::max(layers_[0].trie->depth_max, layers_[1].trie->depth_max) + 1;
  levels_.resize(depth);
  marks_.resize(depth, walker_.mark());
  path_.resize(depth);
}

const Shortest& TokenMasks::shortest() {
  std::call_once(shortest_once_, [this] { shortest_ = std::make_unique<Shortest>(*grammar_); });
  return *shortest_;
}

std::size_t TokenMasks::bytes_held() const {
  const std::lock_guard guard(lock_);
  return bytes_;
}

bool TokenMasks::fill(const Pushdown& machine, const Configurations& configurations,
                      std::span<std::uint64_t> bits) {
  CHECK(bits.size() == table_->mask_words());
  const std::lock_guard guard(lock_);
  if (bytes_ > bytes_max_) {
    for (Layer& layer : layers_) {
      layer.nodes.clear();
      layer.ids.clear();
    }
    bytes_ = 0;
  }
  for (Layer& layer : layers_) {
    if (layer.trie->nodes.size() < 2) continue;
    visited_.clear();
    for (const Configuration& configuration : configurations) {
      // Short tokens cannot distinguish states of one horizon class.
      const bool is_short = &layer == &layers_[0];
      const StateId state = is_short ? grammar_->horizon[configuration.state] : configuration.state;
      if (!visit(layer, node_of(layer, kNone, state), machine, configuration.frame, bits))
        return false;
    }
  }
  return true;
}

void TokenMasks::set_bits(const Node& node, std::span<std::uint64_t> bits) {
  for (std::size_t i = 0; i < node.dense.size(); ++i) bits[i] |= node.dense[i];
  for (const TokenId token : node.sparse) {
    const auto at = static_cast<std::size_t>(token);
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
  }
}

bool TokenMasks::visit(Layer& layer, std::uint32_t id, const Pushdown& machine, FrameId frame,
                       std::span<std::uint64_t> bits) {
  if (!visited_.insert(std::uint64_t{id} << 32 | frame).second) return true;
  if (visited_.size() > kVisitsMax) return false;
  {
    const Node& node = layer.nodes[id];
    if (node.too_much) return false;
    set_bits(node, bits);
    if (node.exits.empty() || frame == Pushdown::kBottom) return true;
  }
  const bool is_short = &layer == &layers_[0];
  for (std::uint32_t l = machine.first_link(frame); l != Pushdown::kNone;) {
    const Pushdown::Link& link = machine.link(l);
    l = link.next;
    const StateId state = is_short ? grammar_->horizon[link.state] : link.state;
    if (!visit(layer, node_of(layer, id, state), machine, link.frame, bits)) return false;
  }
  return true;
}

std::uint32_t TokenMasks::node_of(Layer& layer, std::uint32_t parent, StateId state) {
  const std::uint64_t key = std::uint64_t{parent} << 32 | state;
  const auto [at, is_new] = layer.ids.try_emplace(key, 0);
  if (!is_new) return at->second;
  Node node = make_node(layer, parent, state);
  bytes_ +=
      sizeof(Node) + 64 + node.dense.size() * 8 + node.sparse.size() * 4 + node.exits.size() * 4;
  at->second = static_cast<std::uint32_t>(layer.nodes.size());
  layer.nodes.push_back(std::move(node));
  return at->second;
}

TokenMasks::Node TokenMasks::make_node(const Layer& layer, std::uint32_t parent, StateId state) {
  Node node;
  steps_ = 0;
  walker_.rewind({1, 0});  // only the bottom frame
  levels_[0].assign(1, {state, Pushdown::kBottom});
  if (parent == kNone) {
    walk(*layer.trie, 0, walker_.mark(), node);
  } else {
    walker_.close(levels_[0], 0);
    node.too_much = walker_.overflowed();
    const std::vector<std::uint32_t>& exits = layer.nodes[parent].exits;
    if (walker_.ended()) node.exits = exits;  // nothing of this rule has to be read
    const Pushdown::Mark base = walker_.mark();
    for (const std::uint32_t exit : exits) walk(*layer.trie, exit, base, node);
  }
  node.too_much = node.too_much || steps_ > kWalkStepsMax;
  std::sort(node.exits.begin(), node.exits.end());
  node.exits.erase(std::unique(node.exits.begin(), node.exits.end()), node.exits.end());
  pack(node);
  return node;
}

/// Returns true if only the state matters: one configuration in a rule without calls.
inline bool TokenMasks::is_in_plain_rule(const Configurations& configurations) const {
  const Grammar::State& state = grammar_->states[configurations[0].state];
  return configurations.size() == 1 && configurations[0].frame == Pushdown::kBottom &&
         !grammar_->rules[state.rule].has_calls;
}

/// Adds the tokens and exits below `top` that levels_[0] reads.
void TokenMasks::walk(const TokenTrie& trie, std::uint32_t top, const Pushdown::Mark& base,
                      Node& out) {
  const std::uint32_t depth = trie.nodes[top].depth;
  const std::uint32_t end = trie.nodes[top].end;
  marks_[0] = base;
  for (std::uint32_t i = top + 1; i < end;) {
    const TokenTrie::Node& node = trie.nodes[i];
    const std::uint32_t level = node.depth - depth;
    steps_ += levels_[level - 1].size() + 1;
    if (steps_ > kWalkStepsMax) return;
    walker_.rewind(marks_[level - 1]);
    Configurations& configurations = levels_[level];
    if (!walker_.step(levels_[level - 1], node.byte, level - 1, configurations)) {
      out.too_much = out.too_much || walker_.overflowed();
      i = node.end;
      continue;
    }
    marks_[level] = walker_.mark();
    out.sparse.insert(out.sparse.end(), trie.ids.begin() + node.token_begin,
                      trie.ids.begin() + trie.own_end(i));
    if (walker_.ended() && node.end > i + 1) out.exits.push_back(i);
    if (configurations.empty()) {
      i = node.end;
      continue;
    }
    if (is_in_plain_rule(configurations)) {
      walk_rule(trie, i, configurations[0].state, out);
      i = node.end;
    } else {
      ++i;
    }
  }
}

/// Does the same for one configuration in a rule without calls, where only its state matters.
void TokenMasks::walk_rule(const TokenTrie& trie, std::uint32_t top, StateId state, Node& out) {
  const TokenTrie::Node* const nodes = trie.nodes.data();
  const Grammar::State* const states = grammar_->states.data();
  const StateId* const next = grammar_->next.data();
  const std::uint8_t* const class_of = grammar_->rules[states[state].rule].class_of.data();
  const std::uint32_t depth = nodes[top].depth;
  const std::uint32_t end = nodes[top].end;
  StateId* const path = path_.data();
  path[0] = state;
  for (std::uint32_t i = top + 1; i < end;) {
    const TokenTrie::Node& node = nodes[i];
    const std::uint32_t level = node.depth - depth;
    const StateId to = next[states[path[level - 1]].row + class_of[node.byte]];
    if (to == kDead) {
      i = node.end;
      continue;
    }
    path[level] = to;
    const std::uint32_t own_end = trie.own_end(i);
    for (std::uint32_t t = node.token_begin; t < own_end; ++t) out.sparse.push_back(trie.ids[t]);
    if (states[to].accepting) {
      if (node.end > i + 1) out.exits.push_back(i);
    } else if (node.end > i + 1 && (trie.kinds_below[i] & ~loops(to)) == 0) {
      // All tokens below stay in this state, which is not accepting: as inside of a string.
      out.sparse.insert(out.sparse.end(), trie.ids.begin() + own_end,
                        trie.ids.begin() + trie.tokens_end(node));
      i = node.end;
      continue;
    }
    ++i;
  }
}

/// Returns the kinds of bytes (a bit each) that all lead from a state to itself.
std::uint16_t TokenMasks::loops(StateId state) {
  if (loops_[state] == kNone) {
    std::uint16_t leaving = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<std::uint8_t>(byte);
      if (grammar_->step(state, b) != state)
        leaving |= static_cast<std::uint16_t>(1u << byte_kind(b));
    }
    loops_[state] = static_cast<std::uint16_t>(~leaving);
  }
  return static_cast<std::uint16_t>(loops_[state]);
}

/// Converts to bits where they need less memory than a list.
void TokenMasks::pack(Node& node) const {
  const std::size_t words = table_->mask_words();
  if (node.sparse.size() > words * 2) {
    node.dense.resize(words, 0);
    for (const TokenId token : node.sparse) {
      const auto at = static_cast<std::size_t>(token);
      node.dense[at / 64] |= std::uint64_t{1} << (at % 64);
    }
    node.sparse.clear();
  }
  node.sparse.shrink_to_fit();
  node.exits.shrink_to_fit();
}

}  // namespace holdfast::grammar
