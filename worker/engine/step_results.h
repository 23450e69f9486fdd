#pragma once
// The results of a step.

#include <utility>
#include <vector>

#include "worker/engine/engine.h"
#include "worker/engine/sequence_pages.h"
#include "worker/engine/slot.h"

namespace holdfast::engine {

/// Collects the results of a step, counts, and frees the slots of sequences that end. Not
/// thread-safe: the engine's thread alone.
class StepResults {
 public:
  StepResults(const ModelEngineConfig& config, SequencePages& pages);

  /// Forgets the results of the last step.
  void clear() { produced_.clear(); }
  const std::vector<Produced>& produced() const { return produced_; }
  /// Adds a result of a sequence that goes on.
  void report(Produced produced) { produced_.push_back(std::move(produced)); }
  /// Adds the last result of a sequence and frees its slot.
  void end(Slot& slot, Produced last);
  /// Ends a sequence with an error.
  void fail(Slot& slot, const Error& error);
  /// Frees the slot of a sequence.
  void release(Slot& slot);
  /// The counters, to be counted up by whoever does what they count.
  Usage& usage() { return usage_; }
  const Usage& usage() const { return usage_; }

 private:
  SequencePages& pages_;
  std::vector<Produced> produced_;
  Usage usage_;
};

}  // namespace holdfast::engine
