// Selects the tokens that a forward computes: all of its segments', and in the last operations only
// the tokens that have a result.

#include <algorithm>
#include <cstring>

#include "worker/backend/cpu/executor.h"

namespace holdfast::cpu {
namespace {

bool follows(const Token& token, const Token& before) {
  return token.segment == before.segment && token.position == before.position + 1;
}

}  // namespace

void CpuExecutor::plan_batch(const std::vector<backend::Segment>& segments) {
  CHECK(static_cast<std::int32_t>(segments.size()) <= limits_.batch_segments);
  segments_ = &segments;
  tokens_.clear();
  for (HeadKind& kind : kinds_) kind.runs.clear();
  segment_first_.clear();
  halves_.clear();
  state_table_.begin();
  logit_tokens_.clear();
  output_tokens_.clear();
  hidden_requested_ = false;
  decode_heavy_rows_ = 0;
  bad_token_.store(-1, std::memory_order_relaxed);
  for (auto& ticket : tickets_) ticket.store(0, std::memory_order_relaxed);
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(segments.size()); ++s) {
    const backend::Segment& segment = segments[static_cast<std::size_t>(s)];
    CHECK(segment.n > 0 && segment.start >= 0 && segment.n_logits <= segment.n);
    CHECK(segment.start + segment.n <= limits_.context);
    CHECK(shape_.causal || (segment.start == 0 && segment.n_logits == 0));
    CHECK(!segment.hidden || segment.hidden_at < segment.n);
    hidden_requested_ |= segment.hidden;
    const auto first = static_cast<std::int32_t>(tokens_.size());
    CHECK(first + segment.n <= limits_.batch_tokens);
    segment_first_.push_back(first);
    if (!state_table_.empty()) halves_.push_back(state_table_.plan(segment));
    const bool use_prefill_kernels = segment.prefill_heavy && has_prefill_kernels();
    if (!use_prefill_kernels) {
      CHECK(decode_heavy_rows_ == first);  // prefill-heavy segments come last
      decode_heavy_rows_ += segment.n;
    }
    for (std::int32_t i = 0; i < segment.n; ++i) {
      CHECK(segment.tokens[i] >= 0 && segment.tokens[i] < shape_.vocab);
      tokens_.push_back({segment.tokens[i], s, segment.start + i});
      const bool logits = i >= segment.n - segment.n_logits;
      if (logits) logit_tokens_.push_back(first + i);
      if (logits || segment.wants_hidden(i) || segment.deferred_logits)
        output_tokens_.push_back(first + i);
    }
    for (std::int64_t p = 0; p <= (segment.start + segment.n - 1) / kPageTokens; ++p) {
      CHECK(segment.pages[p] >= 0 && segment.pages[p] < limits_.pages);
    }
    plan_runs(s, first, segment.n);
  }
  CHECK(static_cast<std::int32_t>(logit_tokens_.size()) <= limits_.logit_rows);
  compacts_rows_ = for_all_ > 0 && for_all_ < ops_.size() && output_tokens_.size() < tokens_.size();
}

/// Plans attention's work items for `n` tokens of segment `s`, the first of which is the batch's
/// `first`.
void CpuExecutor::plan_runs(std::int32_t s, std::int32_t first, std::int32_t n) {
  const bool use_prefill_kernels =
      (*segments_)[static_cast<std::size_t>(s)].prefill_heavy && has_prefill_kernels();
  for (HeadKind& kind : kinds_) {
    if (kind.kv_heads == 0) continue;
    const auto group = static_cast<std::int32_t>(shape_.heads / kind.kv_heads);
    const std::int32_t per_run =
        std::max(1, (use_prefill_kernels ? prefill_kernels_ : kernels_).attention_queries / group);
    // Late runs see most tokens: handing them out first keeps the end of the pass short.
    for (std::int32_t at = (n - 1) / per_run * per_run; at >= 0; at -= per_run) {
      kind.runs.push_back({first + at, std::min(per_run, n - at), s});
    }
  }
}

/// Reduces the batch to the tokens that have a result: keys, values and states of every token are
/// stored by now. The others' last layer would be thrown away (and every last layer without keys of
/// its own, where a model has such). Run by one thread while the others wait.
void CpuExecutor::compact_batch() {
  const FloatRows live[] = {
      {x_, x_stride_}, {q_, q_stride_}, {a_, a_stride_}, {z_, a_stride_}, {p_, p_stride_}};
  decode_heavy_rows_ =
      std::lower_bound(output_tokens_.begin(), output_tokens_.end(), decode_heavy_rows_) -
      output_tokens_.begin();
  for (std::int32_t& token : logit_tokens_) token = row_of(token);
  std::int32_t n = 0;
  for (const std::int32_t from : output_tokens_) {
    const std::int32_t to = n++;
    if (to == from) continue;
    for (const FloatRows& rows : live) {
      if (rows.at == nullptr) continue;
      std::memcpy(rows.at + to * rows.stride, rows.at + from * rows.stride,
                  static_cast<std::size_t>(rows.stride) * sizeof(float));
    }
    tokens_[static_cast<std::size_t>(to)] = tokens_[static_cast<std::size_t>(from)];
  }
  tokens_.erase(tokens_.begin() + n, tokens_.end());
  for (HeadKind& kind : kinds_) kind.runs.clear();
  for (std::int32_t first = 0, end = 0; first < n; first = end) {
    for (end = first + 1; end < n && follows(tokens_[static_cast<std::size_t>(end)],
                                             tokens_[static_cast<std::size_t>(end - 1)]);) {
      ++end;
    }
    plan_runs(tokens_[static_cast<std::size_t>(first)].segment, first, end - first);
  }
}

/// The row of the batch's token `i` after the last layer.
std::int32_t CpuExecutor::row_of(std::int32_t i) const {
  if (!compacts_rows_) return i;
  const auto at = std::lower_bound(output_tokens_.begin(), output_tokens_.end(), i);
  CHECK(at != output_tokens_.end() && *at == i);  // it has a result
  return static_cast<std::int32_t>(at - output_tokens_.begin());
}

}  // namespace holdfast::cpu
