#pragma once
// The abilities of an executor.

#include <cstdint>
#include <string>

namespace holdfast::backend {

/// Constant properties of an Executor. A caller reads them as often as it likes.
struct Capabilities {
  /// Begins its numerics class, as "cpu/avx512/r1": backend, family and kernels revision.
  std::string class_prefix;
  /// Wants::greatest is possible: a caller that takes the greatest logit need not see them all.
  bool greatest = false;
  std::int32_t top_max = 0;  // the most logits of a Wants::top; 0: it is not possible
  /// Prompt tokens for each token that may be generated from which on Segment::prefill_heavy is
  /// worth it for a sequence. 0: it makes no difference.
  std::int64_t prefill_heavy_ratio = 0;
  int workers = 1;  // threads that the engine may use between two calls (Executor::on_workers)
  /// Why it gives vectors alone and no logits, and what to do, to be put after the name of what was
  /// requested; empty: it gives both.
  std::string no_logits = {};

  bool has_prefill_kernels() const { return prefill_heavy_ratio > 0; }
};

}  // namespace holdfast::backend
