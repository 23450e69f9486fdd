#pragma once
// What the engine needs of a device. Engine-lifetime memory (weights, KV page pool, scratch) is
// taken once, in load(); forward() never allocates, neither on the device nor on the heap.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "shared/images/client.h"
#include "worker/backend/logit_row.h"
#include "worker/model/program.h"

namespace holdfast::backend {

/// A run of consecutive tokens of one sequence. Positions [start, start + n) are computed and
/// written to the sequence's pages; earlier positions are read from them.
struct Segment {
  const std::int32_t* tokens = nullptr;  // [n]
  std::int32_t n = 0;
  std::int64_t start = 0;
  const std::int32_t* pages = nullptr;  // page table: position p lives in pages[p / 64], row p % 64
  std::int32_t n_logits = 0;  // logits are wanted for the last n_logits tokens (0 = none, n = all)
  /// hidden() has these tokens' rows after the forward. A model without a causal mask (an encoder)
  /// computes a sequence in one segment and gives nothing else: start and n_logits are 0.
  bool hidden = false;
  /// Its sequence is one of those that read much and write little, for which an Executor that
  /// reads_apart() has other kernels, with other bits. The same in every segment of a sequence; in
  /// a batch such segments come last.
  bool reads = false;
  /// Of the rows that it wants only the token of the greatest logit is wanted: best() tells that,
  /// and what the logits have in their place is not said. Not asked of an Executor that cannot
  /// give_best().
  bool best = false;
  /// more_logits() may be asked for its tokens.
  bool more = false;
  /// Above 0, and not `best`: of the rows that it wants only so many of the greatest logits are
  /// wanted, top() tells them, and what the logits have in their place is not said. At most the
  /// Executor's top_most(), and the vocabulary.
  std::int32_t top = 0;
  /// Of a model with recurrent layers, where the sequence's state is: below Limits::states, and no
  /// other segment's of the batch. It begins anew where `start` is 0, and goes on from where the
  /// last forward with it ended elsewhere; a forward that failed counts.
  std::int32_t state = 0;
  /// It goes on from this state in place of its own, which becomes its own; -1: no.
  std::int32_t from = -1;
  /// Above 0: behind its first `keep` tokens the state is kept as `keep_as`, which is nobody's.
  std::int32_t keep = 0;
  std::int32_t keep_as = -1;
  /// Where it is `hidden` and this is not negative: hidden() is asked for that token of it alone,
  /// counted from its first, and of what the others have there nothing is said.
  std::int32_t hidden_at = -1;
  bool wants_hidden(std::int32_t i) const { return hidden && (hidden_at < 0 || hidden_at == i); }
  std::int32_t begins_at() const { return from >= 0 ? from : state; }
};

/// A logit and its token.
struct Ranked {
  float logit = 0;
  std::int32_t id = 0;
};

struct Limits {
  std::int64_t context = 0;       // longest sequence
  std::int32_t pages = 0;         // KV pages in the pool
  std::int32_t batch_tokens = 0;  // most tokens in one forward (all segments)
  std::int32_t batch_segments = 0;
  std::int32_t logit_rows = 0;  // most logit rows in one forward
  std::string kv_type = "f16";  // "f32", "f16", "bf16", "int8", "fp8"
  std::int32_t states = 0;      // of sequences, where layers carry one; 0 = batch_segments
};

struct Memory {  // bytes, exactly what was taken
  std::uint64_t weights = 0;
  std::uint64_t kv = 0;
  std::uint64_t scratch = 0;
  bool found_packed = false;  // the weights were kept from another process
  bool on_device = false;     // it is a device's, not this process's
};

/// A model on a device. Not thread-safe: one engine thread drives it (it may use a pool inside).
class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs the program over the segments. logits: [sum of n_logits][vocab] float32 in segment order;
  /// valid until the next forward. The bits of a row depend only on the tokens before it in its own
  /// sequence, and on whether that `reads`. Errors: kNumericsNan (a result is not finite; `what`
  /// names the segment), kModelFailed (the device failed: nothing that it holds counts any more,
  /// and it is not to be asked again).
  virtual Result<const float*> forward(const std::vector<Segment>& segments) = 0;
  /// As forward(), of whose results nobody wants anything but that they can be computed: it may
  /// leave out layers that are like others. A load's first passes, so that every kernel has run
  /// when the first request comes.
  virtual Result<void> rehearse(const std::vector<Segment>& segments) {
    HF_CHECKED(forward(segments));
    return {};
  }
  /// Logits of tokens [first, first + n) of the last forward's batch (segments in order), in the
  /// place of those that it gave: [n][vocab]. So rows of a whole chunk need room for a few; their
  /// bits are those that forward() would have given. n is at most Limits::logit_rows. Only for
  /// batches with a segment that says `more`, and not for segments that want `hidden`. Errors as
  /// forward's.
  virtual Result<const float*> more_logits(std::int32_t first, std::int32_t n) = 0;
  /// Of row `row` of what forward() or more_logits() gave last: LogitRow::maxima. Null: who makes
  /// them does not know.
  virtual const float* maxima(std::int32_t /*row*/) const { return nullptr; }
  /// What the last layer gave for token `i` of the batch (segments in order), behind the output
  /// norm if there is one: [width], valid until the next forward. Only of segments that want it.
  virtual const float* hidden(std::int32_t i) const = 0;
  /// Whether Segment::best is possible: what picks the greatest logit need not see them all.
  virtual bool gives_best() const { return false; }
  /// Of row `row` of the last forward's logits, the lowest of the ids with the greatest one. Only
  /// of segments that want it.
  virtual std::int32_t best(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor that gives_best()");
    return -1;
  }
  /// The most that Segment::top may be; 0: it is not possible.
  virtual std::int32_t top_most() const { return 0; }
  /// Of row `row` of the last forward's logits the first Segment::top by falling logit, ties by
  /// rising id. Valid until the next forward.
  virtual const Ranked* top(std::int32_t /*row*/) const {
    CHECK_MSG(false, "not an executor with a top_most()");
    return nullptr;
  }
  virtual Memory memory() const = 0;
  /// Segment::reads is worth it for sequences with so many tokens of prompt, or more, for each that
  /// may be generated. 0: it makes no difference.
  virtual std::int64_t read_for_written() const { return 0; }
  bool reads_apart() const { return read_for_written() > 0; }
  /// Threads that the engine may use between two calls, and work(i) once on each of them, 0 being
  /// the caller's.
  virtual int workers() const { return 1; }
  virtual void on_workers(const std::function<void(int)>& work) { work(0); }
  /// "cpu/avx512/r1": backend, family and kernels revision.
  virtual std::string class_prefix() const = 0;
  /// How often the threads of its forwards have waited for each other, modulo 2^32. 0: there are
  /// none.
  virtual std::uint32_t barriers() const { return 0; }
  /// Allocations on the device and of engine memory since the process started.
  virtual std::uint64_t allocations() const = 0;
};

struct LoadOptions {
  Limits limits;
  std::int32_t threads = 1;
  std::string kernels;                   // forced family, empty = best that runs here
  std::function<void(double)> progress;  // 0..1, may be empty
  images::Client* images = nullptr;      // who keeps packed weights, outlives the executor; or none
  std::string image_key;                 // names the model's content; empty: nothing is kept
  std::string cache_dir;                 // folder of built kernels; empty: none is kept
};

/// "cpu": packs the weights for the kernel family and takes all memory. Errors: kUnsupported
/// (forced family cannot run here, weight type unknown), kFileInvalid (NaN or infinity in a tensor:
/// names it), kMemoryExhausted (needed and free bytes). "opencl:N": worker/backend/opencl.h.
Result<std::unique_ptr<Executor>> load(std::string_view device, const model::Program& program,
                                       const LoadOptions& options);

/// Families that run on this machine, best first, e.g. {"avx512+amx", "avx512", "amx", "scalar"}.
std::vector<std::string> cpu_families();

}  // namespace holdfast::backend
