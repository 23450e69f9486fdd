#pragma once
// The input of a forward: tokens of sequences, and what is requested of each sequence.

#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/check.h"

namespace holdfast::backend {

/// The results that a segment requests of a forward: one kind of them.
class Wants {
 public:
  // Values of top_count() besides numbers of logits.
  static constexpr std::int32_t kWholeRow = 0, kGreatest = -1;

  /// Requests nothing: a part of a prompt.
  Wants() = default;
  /// Requests the whole rows of logits of the last `n` tokens.
  static Wants logits(std::int32_t n) { return rows_of(n, kWholeRow); }
  /// Requests the token of the greatest logit of each of the last `n` rows, and nothing else of
  /// them. Only with Capabilities::greatest.
  static Wants greatest(std::int32_t n) { return rows_of(n, kGreatest); }
  /// Requests the `k` greatest logits of each of the last `n` rows, and nothing else of them. `k`:
  /// 1 to Capabilities::top_max, and at most the vocabulary.
  static Wants top(std::int32_t k, std::int32_t n) {
    CHECK(k > 0);
    return rows_of(n, k);
  }
  /// Requests the last layer's output for each token. A model without a causal mask (an encoder)
  /// gives nothing else, and computes a sequence in one segment that starts at 0.
  static Wants hidden() { return Wants(Kind::kHidden, kEveryToken); }
  /// The same for token `i` of the segment alone, counted from its first.
  static Wants hidden_of(std::int32_t i) {
    CHECK(i >= 0);
    return Wants(Kind::kHidden, i);
  }
  /// Requests nothing of the forward, and logits of any tokens after it:
  /// Executor::compute_deferred_logits.
  static Wants deferred_logits() { return Wants(Kind::kDeferred, 0); }

  /// The number of rows of logits that are results, those of the last tokens.
  std::int32_t logit_rows() const { return rows_; }
  /// The part of each of these rows that is a result: kWholeRow, kGreatest, or so many of the
  /// greatest logits.
  std::int32_t top_count() const { return kind_ == Kind::kLogits ? of_ : kWholeRow; }
  bool is_hidden() const { return kind_ == Kind::kHidden; }
  /// True if the output for token `i` of the segment is a result.
  bool is_hidden_of(std::int32_t i) const {
    return is_hidden() && (of_ == kEveryToken || of_ == i);
  }
  bool is_deferred() const { return kind_ == Kind::kDeferred; }
  /// Requests the same of the last `n` rows. CHECKs that rows of logits are requested.
  Wants with_rows(std::int32_t n) const {
    CHECK(kind_ == Kind::kLogits);
    return rows_of(n, of_);
  }
  /// True if a segment of `n` tokens can have these results.
  bool fits(std::int32_t n) const { return rows_ <= n && (!is_hidden() || of_ < n); }

 private:
  enum class Kind : std::uint8_t { kNothing, kLogits, kHidden, kDeferred };
  static constexpr std::int32_t kEveryToken = -1;

  Wants(Kind kind, std::int32_t of) : kind_(kind), of_(of) {}
  static Wants rows_of(std::int32_t n, std::int32_t top_count) {
    CHECK(n >= 0);
    Wants wants(n > 0 ? Kind::kLogits : Kind::kNothing, top_count);
    wants.rows_ = n;
    return wants;
  }

  Kind kind_ = Kind::kNothing;
  std::int32_t rows_ = 0;
  std::int32_t of_ = 0;  // kLogits: top_count(); kHidden: the token, or kEveryToken
};

/// A copy of a sequence's state that a forward makes on its way.
struct StateSnapshot {
  std::int32_t after = 0;  // tokens of the segment, at least 1
  std::int32_t state = 0;  // the state that it becomes; no sequence of the batch uses that
};

/// The states of a sequence, for a model with recurrent layers. All are below Limits::states.
struct StateUse {
  /// The sequence's state, no other segment's of the batch. It begins anew where Segment::start is
  /// 0; otherwise it goes on from where the last forward with it ended, a failed one included.
  std::int32_t at = 0;
  /// The state to go on from, in place of `at`, which then holds the result; -1: `at` itself.
  std::int32_t from = -1;
  std::optional<StateSnapshot> snapshot = std::nullopt;

  /// The state that the segment goes on from.
  std::int32_t origin() const { return from >= 0 ? from : at; }
};

/// A run of consecutive tokens of one sequence. Positions [start, start + n) are computed and
/// written to the sequence's pages; earlier positions are read from them.
struct Segment {
  const std::int32_t* tokens = nullptr;  // [n]
  std::int32_t n = 0;
  std::int64_t start = 0;
  const std::int32_t* pages = nullptr;  // page table: position p lives in pages[p / 64], row p % 64
  Wants wants = {};
  StateUse states = {};
  /// The sequence is prefill-heavy: an Executor with prefill kernels (Capabilities) computes it
  /// with them, with other bits. The same in every segment of a sequence.
  bool prefill_heavy = false;
};

/// The segments of a forward; prefill-heavy ones come last. Tokens and rows of logits of a batch
/// are numbered through all of them, in order.
struct Batch {
  std::vector<Segment> segments;
};

}  // namespace holdfast::backend
