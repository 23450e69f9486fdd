#include "worker/backend/cpu/step_batch.h"

#include <algorithm>
#include <cstring>

namespace holdfast::cpu {
namespace {

bool follows(const Token& token, const Token& before) {
  return token.segment == before.segment && token.position == before.position + 1;
}

}  // namespace

void StepBatch::reserve(const BatchLimits& limits, std::int32_t states) {
  limits_ = limits;
  const auto tokens = static_cast<std::size_t>(limits.limits.batch_tokens);
  const auto segments = static_cast<std::size_t>(limits.limits.batch_segments);
  tokens_.reserve(tokens);
  output_tokens_.reserve(tokens);
  for (auto& runs : runs_) runs.reserve(tokens);
  segment_first_.reserve(segments);
  halves_.reserve(segments);
  logit_tokens_.reserve(static_cast<std::size_t>(std::max(limits.limits.logit_rows, 1)));
  if (states > 0) state_table_.resize(static_cast<std::size_t>(states));
}

void StepBatch::plan(const backend::Batch& batch) {
  begin(batch);
  const auto n = static_cast<std::int32_t>(segments());
  for (std::int32_t s = 0; s < n; ++s) add_segment(s);
  CHECK(static_cast<std::int32_t>(logit_tokens_.size()) <= limits_.limits.logit_rows);
  compacts_rows_ = limits_.drops_rows && output_tokens_.size() < tokens_.size();
}

void StepBatch::begin(const backend::Batch& batch) {
  CHECK(static_cast<std::int32_t>(batch.segments.size()) <= limits_.limits.batch_segments);
  given_ = &batch;
  tokens_.clear();
  for (auto& runs : runs_) runs.clear();
  segment_first_.clear();
  halves_.clear();
  state_table_.begin();
  logit_tokens_.clear();
  output_tokens_.clear();
  hidden_requested_ = false;
  decode_heavy_rows_ = 0;
  note_bad(-1);
}

void StepBatch::check(const backend::Segment& segment) const {
  const backend::Limits& l = limits_.limits;
  const backend::Wants& wants = segment.wants;
  CHECK(segment.n > 0 && segment.start >= 0 && wants.fits(segment.n));
  CHECK(segment.start + segment.n <= l.context);
  CHECK(limits_.causal || (segment.start == 0 && wants.logit_rows() == 0));
  CHECK(wants.top_count() == backend::Wants::kWholeRow);  // other rows: not in its Capabilities
  CHECK(rows() + segment.n <= l.batch_tokens);
  for (std::int64_t p = 0; p <= (segment.start + segment.n - 1) / kPageTokens; ++p) {
    CHECK(segment.pages[p] >= 0 && segment.pages[p] < l.pages);
  }
}

void StepBatch::add_segment(std::int32_t s) {
  const backend::Segment& segment = this->segment(s);
  check(segment);
  hidden_requested_ |= segment.wants.is_hidden();
  const auto first = static_cast<std::int32_t>(tokens_.size());
  segment_first_.push_back(first);
  if (!state_table_.empty()) halves_.push_back(state_table_.plan(segment));
  if (!takes_prefill_kernels(segment)) {
    CHECK(decode_heavy_rows_ == first);  // prefill-heavy segments come last
    decode_heavy_rows_ += segment.n;
  }
  for (std::int32_t i = 0; i < segment.n; ++i) add_token(segment, s, i);
  add_runs(s, first, segment.n);
}

/// Adds token `i` of segment `s`.
void StepBatch::add_token(const backend::Segment& segment, std::int32_t s, std::int32_t i) {
  CHECK(segment.tokens[i] >= 0 && segment.tokens[i] < limits_.vocab);
  const auto at = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back({segment.tokens[i], s, segment.start + i});
  const backend::Wants& wants = segment.wants;
  const bool logits = i >= segment.n - wants.logit_rows();
  if (logits) logit_tokens_.push_back(at);
  if (logits || wants.is_hidden_of(i) || wants.is_deferred()) output_tokens_.push_back(at);
}

/// Plans attention's work items for `n` tokens of segment `s`, the first of which is the batch's
/// `first`.
void StepBatch::add_runs(std::int32_t s, std::int32_t first, std::int32_t n) {
  const bool prefill_kernels = takes_prefill_kernels(segment(s));
  for (int kind = 0; kind < kHeadKinds; ++kind) {
    const RunTokens& most = limits_.run_tokens[kind];
    const std::int32_t per_run = prefill_kernels ? most.prefill_heavy : most.decode_heavy;
    if (per_run == 0) continue;
    // Late runs see most tokens: handing them out first keeps the end of the pass short.
    for (std::int32_t at = (n - 1) / per_run * per_run; at >= 0; at -= per_run) {
      runs_[kind].push_back({first + at, std::min(per_run, n - at), s});
    }
  }
}

/// Reduces the batch to the tokens that have a result: keys, values and states of every token are
/// stored by now. The others' last layer would be thrown away (and every last layer without keys of
/// its own, where a model has such). Run by one thread while the others wait.
void StepBatch::compact(std::span<const FloatRows> live) {
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
      std::memcpy(rows.row(to), rows.row(from),
                  static_cast<std::size_t>(rows.stride) * sizeof(float));
    }
    tokens_[static_cast<std::size_t>(to)] = tokens_[static_cast<std::size_t>(from)];
  }
  tokens_.erase(tokens_.begin() + n, tokens_.end());
  plan_runs_anew();
}

/// Plans attention's work items for the tokens that are left.
void StepBatch::plan_runs_anew() {
  for (auto& runs : runs_) runs.clear();
  const auto n = static_cast<std::int32_t>(tokens_.size());
  for (std::int32_t first = 0, end = 0; first < n; first = end) {
    for (end = first + 1; end < n && follows(token(end), token(end - 1));) ++end;
    add_runs(token(first).segment, first, end - first);
  }
}

std::int32_t StepBatch::row_of(std::int32_t i) const {
  if (!compacts_rows_) return i;
  const auto at = std::lower_bound(output_tokens_.begin(), output_tokens_.end(), i);
  CHECK(at != output_tokens_.end() && *at == i);  // it has a result
  return static_cast<std::int32_t>(at - output_tokens_.begin());
}

void StepBatch::request_logits(std::int32_t first, std::int32_t n) {
  CHECK(first >= 0 && first + n <= rows());
  hidden_requested_ = false;
  logit_tokens_.clear();
  for (std::int32_t i = first; i < first + n; ++i) logit_tokens_.push_back(i);
  note_bad(-1);
}

}  // namespace holdfast::cpu
