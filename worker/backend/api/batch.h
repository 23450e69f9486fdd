#pragma once
// The input of a forward.

#include <cstdint>

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
  /// The sequence is prefill-heavy: an Executor with prefill kernels (Capabilities) computes it
  /// with other kernels, with other bits. The same in every segment of a sequence; in a batch such
  /// segments come last.
  bool prefill_heavy = false;
  /// Asks only for the token of the greatest logit of each of its logit rows: best() tells it, and
  /// the contents of the rows themselves are undefined. Only with Capabilities::greatest.
  bool best = false;
  /// Allows compute_deferred_logits() for its tokens.
  bool deferred_logits = false;
  /// Above 0, and not with `best`: asks only for this many of the greatest logits of each of its
  /// logit rows. top() tells them, and the contents of the rows themselves are undefined. At most
  /// Capabilities::top_max, and the vocabulary.
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

}  // namespace holdfast::backend
