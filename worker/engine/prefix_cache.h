#pragma once
// KV pages whose content is known, for sequences that begin with the same tokens. A full page holds
// nothing but what its tokens and those before it make of it, bit for bit (numerics contract), so
// any sequence that begins with them may read it; it is never written again.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "worker/engine/page_pool.h"

namespace holdfast::engine {

/// The name of a tree of pages. Sequences of different roots never share a page, so that how long a
/// prompt takes tells nothing of the prompts of other sharing groups.
struct PrefixRoot {
  /// Bytes that the daemon derives from the sharing group under a secret; all zero: one group.
  std::array<std::uint64_t, 2> scope{};
  bool prefill_heavy = false;  // pages have other bits for these (backend::Segment)
  bool operator==(const PrefixRoot&) const = default;

  /// Makes a root of at most 16 bytes of `scope`; kInvalidRequest for more.
  static Result<PrefixRoot> from(std::string_view scope);
};

/// Trees of pages: a page's parent holds the tokens before its own. Each root has a tree of its own
/// (PrefixRoot): no lookup finds a page below another root. The cache is one of the holders of each
/// of its pages, and gives pages back, the longest unused first, when the pool has none left. All
/// memory is taken in the constructor. Not thread-safe.
///
/// Where layers carry a state, a cached prefix is of use only up to a page after which there is a
/// state snapshot. States are numbers, too, of which the cache has some: take_state() gives one to
/// be written, and set_state() says what it has become.
class PrefixCache {
 public:
  using TokenId = std::int32_t;

  /// States [first_state, first_state + states) are the cache's.
  explicit PrefixCache(PagePool& pool, std::int32_t first_state = 0, std::int32_t states = 0);

  /// Stands in place of a parent for the first page of a sequence.
  static constexpr std::int32_t kNoParent = -1;

  /// Appends to `out` the pages of the longest prefix of `tokens` that is cached under `root`, at
  /// most `most`; the caller becomes a holder of each.
  void find(const PrefixRoot& root, std::span<const TokenId> tokens, std::int32_t most,
            std::vector<std::int32_t>& out);
  /// Does the same up to the last of these pages after which there is a state, which is pinned and
  /// returned; -1 if there is none.
  std::int32_t find_state(const PrefixRoot& root, std::span<const TokenId> tokens,
                          std::int32_t most, std::vector<std::int32_t>& out);
  /// Returns how many pages find_state() would give.
  std::int32_t match_state_pages(const PrefixRoot& root, std::span<const TokenId> tokens,
                                 std::int32_t most) const;
  /// Returns a state without content, pinned: a free one, else the longest unused one that is not
  /// pinned; -1 if there is none.
  std::int32_t take_state();
  /// Takes the state after `page` away from it and pins it; -1 if there is none, or it is pinned.
  std::int32_t take_state_of(std::int32_t page);
  /// Makes a pinned state the one after `page`, which is in the cache. False if the page has one:
  /// the state is free then.
  bool set_state(std::int32_t page, std::int32_t state);
  /// Frees a pinned state that nothing came of.
  void drop_state(std::int32_t state);
  /// Ends one pin of a state: its reader is done.
  void unpin(std::int32_t state);

  /// Returns how many pages find() would give.
  std::int32_t match_pages(const PrefixRoot& root, std::span<const TokenId> tokens,
                           std::int32_t most) const;
  /// Inserts page `page`, held by the caller and full of `tokens` (a page's worth), after page
  /// `parent`, which is in the cache and held by the caller, or under `root` (kNoParent). Returns
  /// the page that the cache has for them: `page`, or another one of the same content that was
  /// there before.
  std::int32_t insert(const PrefixRoot& root, std::span<const TokenId> tokens, std::int32_t parent,
                      std::int32_t page);
  /// Gives back one page that has no other holder; false if there is none.
  bool evict();
  /// Pages that evict() could give back, one after the other.
  std::int32_t evictable() const;

 private:
  struct Entry {
    bool used = false;
    std::int32_t parent = -1;
    std::int32_t next = -1;  // in its bucket
    std::int32_t children = 0;
    std::uint64_t last_use = 0;
    std::int32_t state = -1;
    PrefixRoot root;  // of a first page; the others' follows from their parents
  };
  struct State {
    std::int32_t page = -1;  // after which it comes; -1: none
    std::int32_t pins = 0;
    std::uint64_t last_use = 0;
  };
  State& state_at(std::int32_t state) {
    return states_[static_cast<std::size_t>(state - first_state_)];
  }
  std::int32_t deepest_state(const PrefixRoot& root, std::span<const TokenId> tokens,
                             std::int32_t most, std::int32_t& page) const;
  std::size_t bucket(const PrefixRoot& root, std::span<const TokenId> tokens,
                     std::int32_t parent) const;
  std::int32_t look_up(const PrefixRoot& root, std::span<const TokenId> tokens,
                       std::int32_t parent) const;
  void remove(std::int32_t page);
  std::span<const TokenId> tokens_of(std::int32_t page) const;

  PagePool& pool_;
  std::vector<Entry> entries_;         // by page
  std::vector<TokenId> tokens_;        // [page][kPageTokens]
  std::vector<std::int32_t> buckets_;  // first page of each
  std::int32_t first_state_;
  std::vector<State> states_;
  std::uint64_t now_ = 0;
};

}  // namespace holdfast::engine
