#pragma once
// The output of a forward: views of an executor's memory.

#include <algorithm>
#include <cstdint>
#include <span>

#include "shared/base/check.h"
#include "worker/backend/api/batch.h"
#include "worker/backend/api/logit_row.h"

namespace holdfast::backend {

/// A logit and its token.
struct Ranked {
  float logit = 0;
  std::int32_t id = 0;
};

/// Rows of an executor's memory, `stride` elements from one to the next.
template <class T>
struct ResultRows {
  const T* at = nullptr;  // null: there are none
  std::int64_t stride = 0;

  const T* row(std::int64_t i) const {
    CHECK(at != nullptr);
    return at + i * stride;
  }
};

/// The places of a step's results. Those that nobody requested may be null.
struct ResultViews {
  std::int32_t logit_rows = 0;
  /// [logit_rows], Wants::top_count() of each; null: all rows are whole.
  const std::int32_t* top_counts = nullptr;
  ResultRows<float> logits;                // [logit_rows][vocab]
  ResultRows<float> maxima;                // [logit_rows][logit_blocks(vocab)]; null: not computed
  const std::int32_t* greatest = nullptr;  // [logit_rows]
  ResultRows<Ranked> top;                  // [logit_rows][top count]
  ResultRows<float> hidden;                // [hidden_rows][width]
  std::int64_t hidden_rows = 0;
  /// The tokens that `hidden` has rows of, rising; empty: of each token of the batch.
  std::span<const std::int32_t> hidden_tokens;
};

/// The results of a step. Views: valid until the executor's next forward or deferred logits, which
/// every call CHECKs, and as long as the executor lives. Rows and tokens are the batch's (Batch); a
/// call for something that was not requested of a row CHECKs. Nothing is allocated.
class StepResult {
 public:
  /// `step`: the number of the executor's running step, which changes with each one.
  StepResult(const ResultViews& views, const std::uint64_t& step)
      : views_(views), step_(&step), step_of_views_(step) {}

  std::int32_t logit_rows() const { return views_.logit_rows; }
  /// Row `row`: [vocab], all of them finite, with the maxima of its blocks if the executor computes
  /// these.
  LogitRow logits(std::int32_t row) const {
    check(row, Wants::kWholeRow);
    return {views_.logits.row(row), views_.maxima.at == nullptr ? nullptr : views_.maxima.row(row)};
  }
  /// The id of the greatest logit of row `row`, the lowest of equals.
  std::int32_t greatest(std::int32_t row) const {
    check(row, Wants::kGreatest);
    CHECK(views_.greatest != nullptr);
    return views_.greatest[row];
  }
  /// The greatest logits of row `row`, as many as were requested, by falling logit, ties by rising
  /// id.
  std::span<const Ranked> top(std::int32_t row) const {
    const std::int32_t k = top_count(row);
    CHECK(k > 0);
    check(row, k);
    return {views_.top.row(row), static_cast<std::size_t>(k)};
  }
  /// The last layer's output for token `token`, after the output norm if there is one: [width].
  const float* hidden(std::int32_t token) const {
    CHECK(*step_ == step_of_views_);
    const std::int64_t row = hidden_row(token);
    CHECK(row >= 0 && row < views_.hidden_rows);
    return views_.hidden.row(row);
  }

 private:
  std::int32_t top_count(std::int32_t row) const {
    CHECK(row >= 0 && row < views_.logit_rows);
    return views_.top_counts == nullptr ? Wants::kWholeRow : views_.top_counts[row];
  }
  std::int64_t hidden_row(std::int32_t token) const {
    const std::span<const std::int32_t> tokens = views_.hidden_tokens;
    if (tokens.empty()) return token;
    const auto at = std::lower_bound(tokens.begin(), tokens.end(), token);
    CHECK(at != tokens.end() && *at == token);
    return at - tokens.begin();
  }
  void check(std::int32_t row, std::int32_t count) const {
    CHECK(*step_ == step_of_views_);
    CHECK(top_count(row) == count);
  }

  ResultViews views_;
  const std::uint64_t* step_;
  std::uint64_t step_of_views_;
};

}  // namespace holdfast::backend
