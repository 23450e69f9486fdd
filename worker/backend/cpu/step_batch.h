#pragma once
// The running batch: its tokens, those that have a result, and attention's work items.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/backend/api/batch.h"
#include "worker/backend/api/load.h"
#include "worker/backend/api/states.h"
#include "worker/backend/cpu/buffers.h"

namespace holdfast::cpu {

/// A token of the running batch.
struct Token {
  std::int32_t id;
  std::int32_t segment;
  std::int64_t position;
};

/// A work item of attention: consecutive tokens of one segment.
struct AttentionRun {
  std::int32_t first;  // index in the batch
  std::int32_t count;
  std::int32_t segment;
};

/// Layers differ in their heads in at most two kinds.
inline constexpr int kHeadKinds = 2;

/// The most tokens of a work item of attention, by kernel class; 0: there are no such heads.
struct RunTokens {
  std::int32_t decode_heavy = 0;
  std::int32_t prefill_heavy = 0;
};

/// Limits that all batches of a load have in common.
struct BatchLimits {
  backend::Limits limits;
  std::int64_t vocab = 0;
  bool causal = true;
  bool has_prefill_kernels = false;
  bool drops_rows = false;  // the last operations compute only tokens that have a result
  RunTokens run_tokens[kHeadKinds];
};

/// The tokens that a forward computes: all of its segments', and in the last operations only those
/// that have a result. One thread plans and compacts while no other looks; all may read.
class StepBatch {
 public:
  /// Takes the memory of every batch of the load. `states`: sequence states, 0 where layers carry
  /// none.
  void reserve(const BatchLimits& limits, std::int32_t states);

  /// Begins with this batch, which must outlive the step; CHECKs that it is within limits.
  void plan(const backend::Batch& batch);
  /// Reduces the batch to the tokens that have a result, and `live` rows with it.
  void compact(std::span<const FloatRows> live);
  /// Returns true if compact() is due after the operations that every token needs.
  bool compacts_rows() const { return compacts_rows_; }
  bool has_outputs() const { return !output_tokens_.empty(); }
  /// Returns the row of the batch's token `i` after the last layer; CHECKs that it has a result.
  std::int32_t row_of(std::int32_t i) const;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens_.size()); }
  const Token& token(std::int64_t i) const { return tokens_[static_cast<std::size_t>(i)]; }
  /// Returns the number of tokens before those of prefill-heavy segments.
  std::int64_t decode_heavy_rows() const { return decode_heavy_rows_; }
  const std::vector<AttentionRun>& runs(std::int32_t kind) const { return runs_[kind]; }

  std::int64_t segments() const { return static_cast<std::int64_t>(given_->segments.size()); }
  const backend::Segment& segment(std::int64_t s) const {
    return given_->segments[static_cast<std::size_t>(s)];
  }
  /// Returns the index of a segment's first token in the batch.
  std::int64_t first_of(std::int64_t s) const {
    return segment_first_[static_cast<std::size_t>(s)];
  }
  const backend::StateTable::Halves& halves(std::int64_t s) const {
    return halves_[static_cast<std::size_t>(s)];
  }

  /// The index of each row of logits in the batch, rising.
  const std::vector<std::int32_t>& logit_tokens() const { return logit_tokens_; }
  bool hidden_requested() const { return hidden_requested_; }
  /// The tokens that are left after compact(), rising; empty where the batch is not compacted.
  std::span<const std::int32_t> tokens_left() const {
    return compacts_rows_ ? std::span(output_tokens_) : std::span<const std::int32_t>();
  }
  /// Makes rows [first, first + n) those whose logits are computed next; no row is finished as
  /// hidden results any more.
  void request_logits(std::int32_t first, std::int32_t n);

  /// Notes a token with a result that is not finite; any thread may.
  void note_bad(std::int32_t token) { bad_token_.store(token, std::memory_order_relaxed); }
  /// Returns such a token, or -1.
  std::int32_t bad_token() const { return bad_token_.load(std::memory_order_relaxed); }

 private:
  void begin(const backend::Batch& batch);
  void check(const backend::Segment& segment) const;
  void add_segment(std::int32_t s);
  void add_token(const backend::Segment& segment, std::int32_t s, std::int32_t i);
  void add_runs(std::int32_t s, std::int32_t first, std::int32_t n);
  void plan_runs_anew();
  bool takes_prefill_kernels(const backend::Segment& segment) const {
    return segment.prefill_heavy && limits_.has_prefill_kernels;
  }

  BatchLimits limits_;
  const backend::Batch* given_ = nullptr;
  std::vector<Token> tokens_;
  std::int64_t decode_heavy_rows_ = 0;
  std::vector<AttentionRun> runs_[kHeadKinds];
  std::vector<std::int64_t> segment_first_;
  backend::StateTable state_table_;
  std::vector<backend::StateTable::Halves> halves_;  // of the batch's segments
  std::vector<std::int32_t> logit_tokens_;
  std::vector<std::int32_t> output_tokens_;  // tokens that have a result, rising
  bool hidden_requested_ = false;
  bool compacts_rows_ = false;
  std::atomic<std::int32_t> bad_token_{-1};
};

}  // namespace holdfast::cpu
