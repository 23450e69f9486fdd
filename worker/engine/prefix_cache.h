#pragma once
// KV pages whose content is known, for sequences that begin with the same tokens. A full page holds
// nothing but what its tokens and those before it make of it, bit for bit (numerics contract), so
// whoever begins with them may read it; it is never written again.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/engine/page_pool.h"

namespace holdfast::engine {

/// Trees of pages: a page's parent holds the tokens before its own. There are two roots, for
/// sequences whose pages have other bits (backend::Segment::reads). The cache is one of the holders of each of its pages, and gives pages back, the longest unused first, when the pool has
/// none left. All memory is taken in the constructor. Not thread-safe.
class PrefixCache {
 public:
  using TokenId = std::int32_t;

  explicit PrefixCache(PagePool& pool);

  /// What stands in place of a parent for the first page of a sequence.
  static constexpr std::int32_t root(bool reads) { return reads ? -2 : -1; }

  /// The pages of the longest beginning of `tokens` known behind `root`, at most `most`; the caller
  /// becomes a holder of each.
  void find(std::int32_t root, std::span<const TokenId> tokens, std::int32_t most,
            std::vector<std::int32_t>& out);
  /// As find() without taking them.
  std::int32_t known(std::int32_t root, std::span<const TokenId> tokens, std::int32_t most) const;
  /// Page `page`, held by the caller, is full of `tokens` (a page's worth) behind page `parent`, or
  /// a root, which is in the cache and held by the caller. Returns the page that the cache has
  /// for them: `page`, or another one of the same content that was there before.
  std::int32_t keep(std::span<const TokenId> tokens, std::int32_t parent, std::int32_t page);
  /// Gives back one page that nobody else holds; false if there is none.
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
  };
  std::size_t bucket(std::span<const TokenId> tokens, std::int32_t parent) const;
  std::int32_t look_up(std::span<const TokenId> tokens, std::int32_t parent) const;
  void remove(std::int32_t page);
  std::span<const TokenId> tokens_of(std::int32_t page) const;

  PagePool& pool_;
  std::vector<Entry> entries_;         // by page
  std::vector<TokenId> tokens_;        // [page][kPageTokens]
  std::vector<std::int32_t> buckets_;  // first page of each
  std::uint64_t now_ = 0;
};

}  // namespace holdfast::engine
