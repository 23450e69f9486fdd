#pragma once
// The slots of the engine, by the keys of the sequences in them.

#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/result.h"
#include "worker/engine/model_engine_config.h"
#include "worker/engine/slot.h"

namespace holdfast::engine {

/// Finds sequences and gives slots to new ones. All memory of a slot that grows with its sequence's
/// length is taken in the constructor. Not thread-safe: the engine's thread alone.
class SlotTable {
 public:
  explicit SlotTable(const ModelEngineConfig& config);

  /// Returns the sequence of this key, or null.
  Slot* find(SequenceKey key);
  /// Gives a free slot to a new sequence, which waits and is younger than all others. kConflict:
  /// the key is in use; kRateLimited: no slot is free.
  Result<Slot*> claim(SequenceKey key);
  std::span<Slot> all() { return slots_; }
  std::span<const Slot> all() const { return slots_; }

 private:
  std::vector<Slot> slots_;
  std::uint64_t ages_ = 0;
};

}  // namespace holdfast::engine
