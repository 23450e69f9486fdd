#include "worker/backend/opencl/pipeline/micro_batches.h"

#include <algorithm>

namespace holdfast::opencl {

MicroBatches::MicroBatches(const backend::Limits& limits, std::size_t most) : most_(most) {
  CHECK(most > 0);
  micro_batches_.reserve(most);
  spare_.resize(most);
  for (MicroBatch& micro_batch : spare_) {
    micro_batch.segments.reserve(static_cast<std::size_t>(limits.batch_segments));
  }
}

/// Appends tokens [first, first + n) of a segment to the last micro-batch.
void MicroBatches::add(const backend::Segment& segment, std::int32_t first, std::int32_t n) {
  backend::Segment part = segment;
  part.tokens += first;
  part.n = n;
  part.start += first;
  part.n_logits = std::max(0, first + n - std::max(first, segment.n - segment.n_logits));
  micro_batches_.back().segments.push_back(part);
  micro_batches_.back().rows += n;
}

const std::vector<MicroBatch>& MicroBatches::cut(const std::vector<backend::Segment>& segments,
                                                 std::int32_t rows) {
  while (!micro_batches_.empty()) {
    spare_.push_back(std::move(micro_batches_.back()));
    micro_batches_.pop_back();
  }
  std::int32_t left = 0;
  bool whole = false;
  for (const backend::Segment& s : segments) {
    left += s.n;
    whole |= s.hidden || s.deferred_logits;
  }
  std::int32_t micro_batches =
      whole ? 1 : std::clamp(left / rows, 1, static_cast<std::int32_t>(most_));
  std::int32_t free_rows = 0, logits = 0;
  for (const backend::Segment& s : segments) {
    for (std::int32_t first = 0; first < s.n;) {
      if (free_rows == 0) {
        micro_batches_.push_back(std::move(spare_.back()));
        spare_.pop_back();
        micro_batches_.back().segments.clear();
        micro_batches_.back().rows = 0;
        micro_batches_.back().first_logit = logits;
        free_rows = (left + micro_batches - 1) / micro_batches;
        --micro_batches;
      }
      const std::int32_t n = std::min(free_rows, s.n - first);
      add(s, first, n);
      logits += micro_batches_.back().segments.back().n_logits;
      first += n;
      free_rows -= n;
      left -= n;
    }
  }
  return micro_batches_;
}

}  // namespace holdfast::opencl
