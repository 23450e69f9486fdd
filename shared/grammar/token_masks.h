#pragma once
// Masks of the tokens that may come next. For one state, the tokens that stay inside its rule (or
// leave it with their last byte) do not depend on where the rule was called from, so they are found
// once, by a walk over the token trie, and cached. Tokens that continue after the end of the rule
// are checked once for each state that the rule returns to, and so on outwards: a tree of masks,
// whose root is a state and whose branches are the states returned to.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "shared/grammar/automata.h"
#include "shared/grammar/pushdown.h"
#include "shared/grammar/shortest.h"
#include "shared/grammar/token_table.h"

namespace holdfast::grammar {

/// The masks of one grammar over one vocabulary. Shared by all matchers of both; safe from any
/// thread (one lock). Its answers never depend on the cached masks.
class TokenMasks {
 public:
  /// Makes an empty cache. kUnsupported as check_coverage. Masks of over `bytes_max` are dropped
  /// all at once.
  static Result<std::shared_ptr<TokenMasks>> make(GrammarPtr grammar,
                                                  std::shared_ptr<const TokenTable> table,
                                                  std::size_t bytes_max = kBytesMax);
  static constexpr std::size_t kBytesMax = 16u << 20;

  TokenMasks(GrammarPtr grammar, std::shared_ptr<const TokenTable> table, std::size_t bytes_max);
  const Grammar& grammar() const { return *grammar_; }
  const TokenTable& table() const { return *table_; }

  /// Sets the bits of the tokens that fit after `configurations`; the caller sets those of end
  /// tokens. False if the grammar is so ambiguous that the work of one mask exceeds its bound.
  bool fill(const Pushdown& machine, const Configurations& configurations,
            std::span<std::uint64_t> bits);
  std::size_t bytes_held() const;
  /// Returns the distances, made on first use.
  const Shortest& shortest();

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  static constexpr std::uint64_t kWalkStepsMax = 4'000'000;  // configurations stepped, in one walk
  static constexpr std::size_t kVisitsMax = 20'000;          // frames visited, in one fill
  struct Node {
    std::vector<std::uint64_t> dense;
    std::vector<TokenId> sparse;
    std::vector<std::uint32_t> exits;  // trie nodes where the rule ends and longer tokens continue
    bool too_much = false;
  };
  struct Layer {
    const TokenTrie* trie;
    std::vector<Node> nodes;
    std::unordered_map<std::uint64_t, std::uint32_t> ids;  // parent node, state
  };

  std::uint32_t node_of(Layer& layer, std::uint32_t parent, StateId state);
  Node make_node(const Layer& layer, std::uint32_t parent, StateId state);
  bool visit(Layer& layer, std::uint32_t id, const Pushdown& machine, FrameId frame,
             std::span<std::uint64_t> bits);
  static void set_bits(const Node& node, std::span<std::uint64_t> bits);
  bool is_in_plain_rule(const Configurations& configurations) const;
  void walk(const TokenTrie& trie, std::uint32_t top, const Pushdown::Mark& base, Node& out);
  void walk_rule(const TokenTrie& trie, std::uint32_t top, StateId state, Node& out);
  std::uint16_t loops(StateId state);
  void pack(Node& node) const;

  const GrammarPtr grammar_;
  const std::shared_ptr<const TokenTable> table_;
  const std::size_t bytes_max_;
  mutable std::mutex lock_;
  Layer layers_[2];
  std::size_t bytes_ = 0;
  std::once_flag shortest_once_;
  std::unique_ptr<const Shortest> shortest_;
  // State of the walk and the fill in progress.
  Pushdown walker_;
  std::vector<Configurations> levels_;
  std::vector<Pushdown::Mark> marks_;
  std::vector<StateId> path_;
  std::vector<std::uint32_t> loops_;  // by state, kNone: unknown yet
  std::uint64_t steps_ = 0;
  std::unordered_set<std::uint64_t> visited_;
};

}  // namespace holdfast::grammar
