#pragma once
// The plan of a step: made by the scheduler, read by the others.

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/backend/api/batch.h"
#include "worker/backend/api/logit_row.h"
#include "worker/engine/engine.h"
#include "worker/engine/ranking.h"
#include "worker/engine/slot.h"
#include "worker/engine/step_time_model.h"

namespace holdfast::engine {

/// The part of a step that one sequence has.
struct Planned {
  Slot* slot;
  backend::Segment segment;
  std::int32_t drafts = 0;     // draft tokens at the end of the segment
  bool trails = false;         // its snapshot is after generated tokens
  LogitRow sampled_from = {};  // the row that `sampled` was sampled from, in parallel
  std::optional<TokenId> sampled = std::nullopt;

  bool caches_snapshot() const {
    return segment.states.snapshot.has_value() && drafts == 0;
  }  // the segment makes a snapshot for the prefix cache
};

/// A whole step; the batch's segments are those of `planned`, in the same order.
struct StepPlan {
  std::vector<Planned> planned;
  backend::Batch batch;
};

/// The rest of what the step that is being planned may take.
struct StepBudget {
  std::int64_t tokens = 0;   // of prefill
  std::int32_t rows = 0;     // beyond one for each sequence: of probes and drafts
  std::int32_t drafts = 0;   // draft tokens
  StepTimeModel::Work work;  // what it has so far
};

}  // namespace holdfast::engine
