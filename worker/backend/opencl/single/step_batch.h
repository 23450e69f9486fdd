#pragma once
// The batch of the running step, as the kernels read it: tokens, page tables, runs of recurrent
// layers, and the rows whose logits are wanted.

#include <cstdint>
#include <vector>

#include "worker/backend/api/batch.h"
#include "worker/backend/api/states.h"
#include "worker/backend/opencl/single/device_model.h"

namespace holdfast::opencl {

/// A token as the kernels read it (Scratch::tokens).
struct Token {
  std::int32_t id, position, table, end;
};

/// A segment as kernels/delta.cl reads it (its struct Run).
struct StateRun {
  std::int32_t first, tokens, fresh, from, from_second, state, state_second, snapshot_after,
      snapshot_state, pad;
};

/// Plans steps. Its capacity is reserved at load. Not thread-safe.
struct StepBatch {
  /// Takes the batch, which must outlive the step, and what is requested of its segments.
  void plan(const DeviceModel& model, const backend::Batch& batch);
  /// Plans which states the segments read and write, for a model that has some.
  void plan_states();
  /// Keeps the batch with other rows of logits: `n` from `first` on.
  void plan_deferred_logits(const DeviceModel& model, std::int32_t first, std::int32_t n);
  /// Forgets the batch.
  void clear();

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  /// True if a row's logits or output are wanted, now or later.
  bool wants_results() const {
    return logit_row_count > 0 || hidden_requested || deferred_logits_requested;
  }
  /// True if row `row` of the logits is requested as a whole.
  bool is_whole(std::int32_t row) const {
    return top_counts[static_cast<std::size_t>(row)] == backend::Wants::kWholeRow;
  }
  /// Returns the error of a row whose results are not finite.
  Error bad_row(std::int32_t token) const;
  /// Returns the row of the batch that row `i` of the logits is of.
  std::int32_t token_of(std::int32_t logit_row) const {
    return tables[static_cast<std::size_t>(logit_rows_at) + static_cast<std::size_t>(logit_row)];
  }

  std::vector<Token> tokens;
  std::vector<StateRun> runs;
  std::vector<std::int32_t> tables;  // page tables, batch rows of the logits, their top_counts
  std::int32_t logit_rows_at = 0, logit_row_count = 0;
  const backend::Batch* given = nullptr;
  bool hidden_requested = false;
  bool deferred_logits_requested = false;  // backend::Wants::deferred_logits
  std::vector<std::int32_t> top_counts;    // by row: backend::Wants::top_count
  std::int32_t greatest_n = 0, top_n = 0;  // rows with kGreatest, and rows with a number
  bool short_segments = false;             // all segments are short (kShortSegmentTokens)
  backend::StateTable state_table;         // empty: no layer carries a state

 private:
  void add(const DeviceModel& model, const backend::Segment& segment);
  void plan_logit_rows(const DeviceModel& model);
};

}  // namespace holdfast::opencl
