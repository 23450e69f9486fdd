#pragma once
// The pages of sequences, and the prefixes that they share.
//
// Full pages stay in the prefix cache (prefix_cache.h) for sequences that begin alike.
//
// Where layers carry a state, a prefix that was computed is of use only as far as there is a
// snapshot of its state: after the last full page of each prompt, after the last one of the
// generated text, and where another sequence turns out to go on differently (PrefixState::marks).

#include <cstdint>

#include "worker/engine/model_engine_config.h"
#include "worker/engine/page_pool.h"
#include "worker/engine/prefix_cache.h"
#include "worker/engine/slot.h"
#include "worker/engine/step_plan.h"

namespace holdfast::engine {

/// Gives sequences pages of the pool, those of cached prefixes included, and says which states are
/// stored as snapshots. All memory is taken in the constructor. Not thread-safe: the engine's
/// thread alone.
class SequencePages {
 public:
  explicit SequencePages(const ModelEngineConfig& config);

  std::int32_t total() const { return pool_.total(); }
  /// Pages that take() could give, one after the other: what the cache alone holds can be evicted.
  std::int32_t available() const { return pool_.free() + cache_.evictable(); }
  /// Takes a page for the end of a sequence; false if there is none.
  bool take(Slot& slot);
  /// Takes all pages from a sequence, which is to be computed again from its beginning.
  void give_back(Slot& slot);

  /// True if the sequence reads cached pages and caches its own.
  bool shares_prefix(const Slot& slot) const;
  /// The number of pages with the same tokens that two sequences begin with.
  static std::int32_t common_pages(const Slot& a, const Slot& b);
  /// Pages of its prefix that others may have computed. Its last token is computed all the same:
  /// its logits are needed, and so are those of all tokens that have no score yet.
  static std::int32_t prefix_pages(const Slot& slot);
  /// The number of its first `most` pages that need not be computed.
  std::int32_t reusable_pages(const Slot& slot, std::int32_t most) const;
  /// Takes the pages of its prefix that are cached.
  void find_prefix(Slot& slot);
  /// Inserts pages that have become full into the prefix cache. A page of the same content that
  /// another sequence made meanwhile replaces its own.
  void insert_prefix(Slot& slot);

  /// True if there are states, and snapshots of them in the cache.
  bool caches_states() const { return config_.recurrent && config_.prefix_cache; }
  /// Asks for the state after so many pages, if it is still to come.
  static void mark(Slot& slot, std::int32_t pages);
  /// A segment saves one state: of the next n tokens it takes those up to the second mark.
  static std::int64_t to_second_mark(const Slot& slot, std::int64_t n);
  /// Plans which state of this segment is saved as a snapshot, and as what. Of generated text only
  /// the last snapshot stays: it moves on with the text.
  void plan_snapshot(Planned& planned);
  /// Frees the snapshot of a segment that came to nothing.
  void drop_snapshot(const Planned& planned);
  /// Ends the use of the cache's state that the sequence went on from.
  void unpin_origin(Slot& slot);
  /// Caches what a segment that was run has made: full pages, and its snapshot.
  void insert(const Planned& planned);

 private:
  static void forget_marks(Slot& slot);
  static std::int64_t snapshot_position(Planned& planned);
  void insert_snapshot(const Planned& planned);

  const ModelEngineConfig& config_;
  PagePool pool_;
  PrefixCache cache_;
};

}  // namespace holdfast::engine
