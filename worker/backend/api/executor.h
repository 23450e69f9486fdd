#pragma once
// The interface between the engine and a device. Memory that lives as long as the engine (weights,
// KV page pool, scratch) is taken once, in load(); forward() never allocates, neither on the device
// nor on the heap.

#include <cstdint>
#include <functional>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "worker/backend/api/batch.h"
#include "worker/backend/api/capabilities.h"
#include "worker/backend/api/step_result.h"

namespace holdfast::backend {

/// Exact bytes of what a load took.
struct Memory {
  std::uint64_t weights = 0;
  std::uint64_t kv = 0;
  std::uint64_t scratch = 0;
  bool found_packed = false;  // the weights came from the weight cache, packed by another process
  bool on_device = false;     // the memory is a device's, not this process's
};

/// Counts since a load.
struct ExecutorCounters {
  /// Times that the threads of its forwards have waited for each other, modulo 2^32; 0: it has no
  /// threads.
  std::uint32_t barriers = 0;
  /// Allocations on the device and of engine memory since the process started.
  std::uint64_t allocations = 0;
};

/// A model on a device. Not thread-safe: one engine thread drives it (it may use a pool inside).
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const Capabilities& capabilities() const = 0;
  /// Runs the program over the segments. Returns logits: [sum of n_logits][vocab] float32 in
  /// segment order, valid until the next forward. The bits of a row depend only on the tokens
  /// before it in its own sequence, and on whether that is `prefill_heavy`. Errors: kNumericsNan (a
  /// result is not finite; `what` names the segment), kModelFailed (the device failed: its contents
  /// are lost, and it must not be called again).
  virtual Result<const float*> forward(const std::vector<Segment>& segments) = 0;
  /// Runs forward() without giving results: the first passes of a load, so that every kernel has
  /// run when the first request comes. May leave out layers that are like others. Errors as
  /// forward's.
  virtual Result<void> rehearse(const std::vector<Segment>& segments) {
    HOLDFAST_CHECKED(forward(segments));
    return {};
  }
  /// Computes logits of tokens [first, first + n) of the last forward's batch (segments in order),
  /// in the memory of those that it gave: [n][vocab]. So the logits of a whole chunk need memory
  /// for a few rows; their bits are those that forward() would have given. n is at most
  /// Limits::logit_rows. Only for batches with a segment that says `deferred_logits`, and not for
  /// segments with `hidden`. Errors as forward's.
  virtual Result<const float*> compute_deferred_logits(std::int32_t first, std::int32_t n) = 0;
  /// LogitRow::maxima of row `row` of what forward() or compute_deferred_logits() gave last; null:
  /// this executor does not compute them.
  virtual const float* maxima(std::int32_t /*row*/) const { return nullptr; }
  /// The last layer's output for token `i` of the batch (segments in order), after the output norm
  /// if there is one: [width], valid until the next forward. Only for tokens that asked for it.
  virtual const float* hidden(std::int32_t i) const = 0;
  /// The id of the greatest logit in row `row` of the last forward, the lowest of equals. Only for
  /// segments with `best`.
  virtual std::int32_t best(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor that gives the greatest");
    return -1;
  }
  /// The greatest Segment::top logits of row `row` of the last forward, by falling logit, ties by
  /// rising id. Valid until the next forward. Only for segments with `top`.
  virtual const Ranked* top(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor with a top_max");
    return nullptr;
  }
  virtual Memory memory() const = 0;
  /// Runs work(i) once on each of Capabilities::workers threads, 0 being the caller's; between two
  /// forwards alone.
  virtual void on_workers(const std::function<void(int)>& work) { work(0); }
  virtual ExecutorCounters counters() const = 0;
};

}  // namespace holdfast::backend
