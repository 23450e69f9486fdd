#pragma once
// The interface between the engine and a device. Memory that lives as long as the engine (weights,
// KV page pool, scratch) is taken once, in load(); forward() never allocates, neither on the device
// nor on the heap.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "shared/weight_cache/client.h"
#include "worker/backend/api/logit_row.h"
#include "worker/model/program.h"

namespace holdfast::backend {

/// A run of consecutive tokens of one sequence. Positions [start, start + n) are computed and
/// written to the sequence's pages; earlier positions are read from them.
struct Segment {
  const std::int32_t* tokens = nullptr;  // [n]
  std::int32_t n = 0;
  std::int64_t start = 0;
  const std::int32_t* pages = nullptr;  // page table: position p lives in pages[p / 64], row p % 64
  std::int32_t n_logits = 0;            // of the last n_logits tokens (0 = none, n = all)
  /// Asks for hidden() of these tokens after the forward. A model without a causal mask (an
  /// encoder) computes a sequence in one segment and gives nothing else: start and n_logits are 0.
  bool hidden = false;
  /// The sequence is prefill-heavy: an Executor that has_prefill_kernels() computes it with other
  /// kernels, with other bits. The same in every segment of a sequence; in a batch such segments
  /// come last.
  bool prefill_heavy = false;
  /// Asks only for the token of the greatest logit of each of its logit rows: best() tells it, and
  /// the contents of the rows themselves are undefined. Only for an Executor that gives_best().
  bool best = false;
  /// Allows compute_deferred_logits() for its tokens.
  bool deferred_logits = false;
  /// Above 0, and not with `best`: asks only for this many of the greatest logits of each of its
  /// logit rows. top() tells them, and the contents of the rows themselves are undefined. At most
  /// the Executor's top_most(), and the vocabulary.
  std::int32_t top = 0;
  /// The place of the sequence's state, for a model with recurrent layers: below Limits::states,
  /// and no other segment's of the batch. The state begins anew where `start` is 0; otherwise it
  /// goes on from where the last forward with it ended, a failed one included.
  std::int32_t state = 0;
  /// The state to go on from, in place of `state`, which then holds the result; -1: `state` itself.
  std::int32_t from = -1;
  /// Above 0: the state after the first `snapshot_after` tokens is stored as `snapshot_state`,
  /// which no sequence of the batch uses.
  std::int32_t snapshot_after = 0;
  std::int32_t snapshot_state = -1;
  /// With `hidden`, and not negative: hidden() is asked for this token of the segment alone,
  /// counted from its first; the rows of the others are undefined.
  std::int32_t hidden_at = -1;
  bool wants_hidden(std::int32_t i) const { return hidden && (hidden_at < 0 || hidden_at == i); }
  std::int32_t begins_at() const { return from >= 0 ? from : state; }
};

/// A logit and its token.
struct Ranked {
  float logit = 0;
  std::int32_t id = 0;
};

/// The sizes for which load() takes memory; every forward stays within them.
struct Limits {
  std::int64_t context = 0;       // tokens of the longest sequence
  std::int32_t pages = 0;         // KV pages in the pool
  std::int32_t batch_tokens = 0;  // most tokens in one forward (all segments)
  std::int32_t batch_segments = 0;
  std::int32_t logit_rows = 0;  // most logit rows in one forward
  std::string kv_type = "f16";  // "f32", "f16", "bf16", "int8", "fp8"
  std::int32_t states = 0;      // sequence states, where layers carry one; 0 = batch_segments
};

struct Memory {  // exact bytes of what was taken
  std::uint64_t weights = 0;
  std::uint64_t kv = 0;
  std::uint64_t scratch = 0;
  bool found_packed = false;  // the weights came from the weight cache, packed by another process
  bool on_device = false;     // the memory is a device's, not this process's
};

/// A model on a device. Not thread-safe: one engine thread drives it (it may use a pool inside).
class Executor {
 public:
  virtual ~Executor() = default;
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
  /// True if Segment::best is possible: a caller that takes the greatest logit need not see them
  /// all.
  virtual bool gives_best() const { return false; }
  /// The id of the greatest logit in row `row` of the last forward, the lowest of equals. Only for
  /// segments with `best`.
  virtual std::int32_t best(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor that gives_best()");
    return -1;
  }
  /// The largest possible Segment::top; 0: it is not possible.
  virtual std::int32_t top_most() const { return 0; }
  /// The greatest Segment::top logits of row `row` of the last forward, by falling logit, ties by
  /// rising id. Valid until the next forward. Only for segments with `top`.
  virtual const Ranked* top(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor with a top_most()");
    return nullptr;
  }
  virtual Memory memory() const = 0;
  /// Prompt tokens for each token that may be generated from which on Segment::prefill_heavy is
  /// worth it for a sequence. 0: it makes no difference.
  virtual std::int64_t prefill_heavy_ratio() const { return 0; }
  bool has_prefill_kernels() const { return prefill_heavy_ratio() > 0; }
  /// The number of threads that the engine may use between two calls; on_workers() runs work(i)
  /// once on each of them, 0 being the caller's.
  virtual int workers() const { return 1; }
  virtual void on_workers(const std::function<void(int)>& work) { work(0); }
  /// "cpu/avx512/r1": backend, family and kernels revision.
  virtual std::string class_prefix() const = 0;
  /// The number of times that the threads of its forwards have waited for each other, modulo 2^32;
  /// 0: it has no threads.
  virtual std::uint32_t barriers() const { return 0; }
  /// Allocations on the device and of engine memory since the process started.
  virtual std::uint64_t allocations() const = 0;
};

/// Options of a load besides the model.
struct LoadOptions {
  Limits limits;
  std::int32_t threads = 1;
  std::string kernels;                   // forced family, empty = best that runs here
  std::function<void(double)> progress;  // 0..1, may be empty
  weight_cache::Client* weight_cache =
      nullptr;                   // holds packed weights, outlives the executor; null: none
  std::string weight_cache_key;  // names the model's content; empty: weights are not cached
  std::string cache_dir;         // folder of built kernels; empty: they are not cached
};

/// "cpu": packs the weights for the kernel family and takes all memory. Errors: kUnsupported
/// (forced family cannot run here, weight type unknown), kFileInvalid (NaN or infinity in a tensor:
/// names it), kMemoryExhausted (needed and free bytes). "opencl:N": worker/backend/api/opencl.h.
Result<std::unique_ptr<Executor>> load(std::string_view device, const model::Program& program,
                                       const LoadOptions& options);

/// Families that run on this machine, best first, e.g. {"avx512+amx", "avx512", "amx", "scalar"}.
std::vector<std::string> cpu_families();

}  // namespace holdfast::backend
