// Which tokens a forward computes: those of its segments, and in its last operations those alone
// that somebody wants something of.

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
  state_book_.begin();
  logit_tokens_.clear();
  kept_.clear();
  hidden_wanted_ = false;
  writing_ = 0;
  bad_token_.store(-1, std::memory_order_relaxed);
  for (auto& ticket : tickets_) ticket.store(0, std::memory_order_relaxed);
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(segments.size()); ++s) {
    const backend::Segment& segment = segments[static_cast<std::size_t>(s)];
    CHECK(segment.n > 0 && segment.start >= 0 && segment.n_logits <= segment.n);
    CHECK(segment.start + segment.n <= limits_.context);
    CHECK(shape_.causal || (segment.start == 0 && segment.n_logits == 0));
    CHECK(!segment.hidden || segment.hidden_at < segment.n);
    hidden_wanted_ |= segment.hidden;
    const auto first = static_cast<std::int32_t>(tokens_.size());
    CHECK(first + segment.n <= limits_.batch_tokens);
    segment_first_.push_back(first);
    if (!state_book_.empty()) halves_.push_back(state_book_.plan(segment));
    const bool apart = segment.reads && reads_apart();
    if (!apart) {
      CHECK(writing_ == first);  // those that read come last
      writing_ += segment.n;
    }
    for (std::int32_t i = 0; i < segment.n; ++i) {
      CHECK(segment.tokens[i] >= 0 && segment.tokens[i] < shape_.vocab);
      tokens_.push_back({segment.tokens[i], s, segment.start + i});
      const bool logits = i >= segment.n - segment.n_logits;
      if (logits) logit_tokens_.push_back(first + i);
      if (logits || segment.wants_hidden(i) || segment.more) kept_.push_back(first + i);
    }
    for (std::int64_t p = 0; p <= (segment.start + segment.n - 1) / kPageTokens; ++p) {
      CHECK(segment.pages[p] >= 0 && segment.pages[p] < limits_.pages);
    }
    plan_runs(s, first, segment.n);
  }
  CHECK(static_cast<std::int32_t>(logit_tokens_.size()) <= limits_.logit_rows);
  few_wanted_ = for_all_ > 0 && for_all_ < ops_.size() && kept_.size() < tokens_.size();
}

/// Attention's work for `n` tokens of segment `s`, the first being the batch's `first`.
void CpuExecutor::plan_runs(std::int32_t s, std::int32_t first, std::int32_t n) {
  const bool apart = (*segments_)[static_cast<std::size_t>(s)].reads && reads_apart();
  for (HeadKind& kind : kinds_) {
    if (kind.kv_heads == 0) continue;
    const auto group = static_cast<std::int32_t>(shape_.heads / kind.kv_heads);
    const std::int32_t per_run =
        std::max(1, (apart ? reading_ : kernels_).attention_queries / group);
    // Late runs see most tokens: handing them out first keeps the end of the pass short.
    for (std::int32_t at = (n - 1) / per_run * per_run; at >= 0; at -= per_run) {
      kind.runs.push_back({first + at, std::min(per_run, n - at), s});
    }
  }
}

/// From here on the batch is the tokens that something is wanted of: every token's keys, values and
/// states are where they belong. The others' last layer would be thrown away (and all of the layers
/// at the end that make no keys, where a model has such). By one thread, the others wait.
void CpuExecutor::keep_wanted() {
  const FloatRows live[] = {
      {x_, x_stride_}, {q_, q_stride_}, {a_, a_stride_}, {z_, a_stride_}, {p_, p_stride_}};
  writing_ = std::lower_bound(kept_.begin(), kept_.end(), writing_) - kept_.begin();
  for (std::int32_t& token : logit_tokens_) token = row_of(token);
  std::int32_t n = 0;
  for (const std::int32_t from : kept_) {
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

/// Where token `i` of the batch is behind its last layer.
std::int32_t CpuExecutor::row_of(std::int32_t i) const {
  if (!few_wanted_) return i;
  const auto at = std::lower_bound(kept_.begin(), kept_.end(), i);
  CHECK(at != kept_.end() && *at == i);  // something of it was wanted
  return static_cast<std::int32_t>(at - kept_.begin());
}

}  // namespace holdfast::cpu
