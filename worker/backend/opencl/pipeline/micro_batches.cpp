#include "worker/backend/opencl/pipeline/micro_batches.h"

#include <algorithm>

namespace holdfast::opencl {
namespace {

/// Tokens [first, first + n) of a segment, and its rows of logits that are theirs.
backend::Segment part_of(const backend::Segment& segment, std::int32_t first, std::int32_t n) {
  backend::Segment part = segment;
  part.tokens += first;
  part.n = n;
  part.start += first;
  const std::int32_t rows = segment.wants.logit_rows();
  if (rows == 0) return part;
  part.wants = segment.wants.with_rows(std::max(0, first + n - std::max(first, segment.n - rows)));
  return part;
}

}  // namespace

MicroBatches::MicroBatches(const backend::Limits& limits, std::size_t most) : most_(most) {
  CHECK(most > 0);
  micro_batches_.reserve(most);
  spare_.resize(most);
  for (MicroBatch& micro_batch : spare_) {
    micro_batch.batch.segments.reserve(static_cast<std::size_t>(limits.batch_segments));
  }
}

/// Begins a micro-batch whose first row of logits is the batch's `first_logit`.
void MicroBatches::begin(std::int32_t first_logit) {
  micro_batches_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  micro_batches_.back().batch.segments.clear();
  micro_batches_.back().rows = 0;
  micro_batches_.back().first_logit = first_logit;
}

void MicroBatches::clear() {
  while (!micro_batches_.empty()) {
    spare_.push_back(std::move(micro_batches_.back()));
    micro_batches_.pop_back();
  }
}

const std::vector<MicroBatch>& MicroBatches::cut(const backend::Batch& batch, std::int32_t rows) {
  clear();
  std::int32_t left = 0;
  bool whole = false;
  for (const backend::Segment& s : batch.segments) {
    left += s.n;
    whole |= s.wants.is_hidden() || s.wants.is_deferred();
  }
  std::int32_t micro_batches =
      whole ? 1 : std::clamp(left / rows, 1, static_cast<std::int32_t>(most_));
  std::int32_t free_rows = 0, logits = 0;
  for (const backend::Segment& s : batch.segments) {
    for (std::int32_t first = 0; first < s.n;) {
      if (free_rows == 0) {
        begin(logits);
        free_rows = (left + micro_batches - 1) / micro_batches;
        --micro_batches;
      }
      const std::int32_t n = std::min(free_rows, s.n - first);
      MicroBatch& last = micro_batches_.back();
      last.batch.segments.push_back(part_of(s, first, n));
      last.rows += n;
      logits += last.batch.segments.back().wants.logit_rows();
      first += n;
      free_rows -= n;
      left -= n;
    }
  }
  return micro_batches_;
}

}  // namespace holdfast::opencl
