#pragma once
// The interface between the engine and a device. Memory that lives as long as the engine (weights,
// KV page pool, scratch) is taken once, in load(); forward() never allocates, neither on the device
// nor on the heap.

#include <cstdint>
#include <functional>

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
  /// Constant while the executor lives.
  virtual const Capabilities& capabilities() const = 0;
  /// Runs the program over the batch, which stays as it is, with what it points at, until the next
  /// forward. The bits of a result depend only on the tokens before it in its own sequence, and on
  /// whether that is prefill-heavy. Errors: kNumericsNan (a result is not finite; `what` names the
  /// segment), kUnsupported (logits, where Capabilities::no_logits says why not), kModelFailed (the
  /// device failed: its contents are lost, and it must not be called again).
  virtual Result<StepResult> forward(const Batch& batch) = 0;
  /// Runs forward() without giving results: the first passes of a load, so that every kernel has
  /// run when the first request comes. May leave out layers that are like others. Errors as
  /// forward's.
  virtual Result<void> rehearse(const Batch& batch) {
    HOLDFAST_CHECKED(forward(batch));
    return {};
  }
  /// Computes whole rows of logits of tokens [first, first + n) of the last forward's batch, as
  /// rows 0 to n, in the memory of the rows that it gave: so the logits of a whole chunk need
  /// memory for a small number of rows. Their bits are those that forward() would have given. The
  /// tokens are of segments with Wants::deferred_logits; n is at most Limits::logit_rows. Errors as
  /// forward's.
  virtual Result<StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) = 0;
  /// Runs work(i) once on each of Capabilities::workers threads, 0 being the caller's; between two
  /// forwards alone.
  virtual void on_workers(const std::function<void(int)>& work) { work(0); }
  virtual Memory memory() const = 0;
  virtual ExecutorCounters counters() const = 0;
};

}  // namespace holdfast::backend
