#include "worker/backend/opencl/single/step_batch.h"

#include <algorithm>
#include <string>

#include "worker/backend/opencl/device/limits.h"

namespace holdfast::opencl {

void StepBatch::plan(const DeviceModel& model, const std::vector<backend::Segment>& from) {
  CHECK(static_cast<std::int32_t>(from.size()) <= model.limits.batch_segments);
  segments = &from;
  tokens.clear();
  tables.clear();
  hidden_requested = extra_logits_requested = false;
  short_segments = model.shape.causal;
  for (const backend::Segment& s : from) {
    CHECK(s.n > 0 && s.start >= 0 && s.n_logits <= s.n);
    CHECK(s.start + s.n <= model.limits.context);
    CHECK(model.shape.causal || (s.start == 0 && s.n_logits == 0));
    CHECK(static_cast<std::int32_t>(tokens.size()) + s.n <= model.limits.batch_tokens);
    hidden_requested |= s.hidden;
    extra_logits_requested |= s.deferred_logits;
    short_segments &= s.n <= kShortSegmentTokens;
    const auto table = static_cast<std::int32_t>(tables.size());
    for (std::int64_t p = 0; p <= (s.start + s.n - 1) / kPageTokens; ++p) {
      CHECK(s.pages[p] >= 0 && s.pages[p] < model.limits.pages);
      tables.push_back(s.pages[p]);
    }
    for (std::int32_t i = 0; i < s.n; ++i) {
      CHECK(s.tokens[i] >= 0 && s.tokens[i] < model.shape.vocab);
      const auto position = static_cast<std::int32_t>(s.start) + i;
      tokens.push_back({s.tokens[i], position, table, model.shape.causal ? position + 1 : s.n});
    }
  }
  plan_logit_rows(model);
}

/// Puts the rows whose logits are wanted after the page tables, then what is wanted of each.
void StepBatch::plan_logit_rows(const DeviceModel& model) {
  logit_rows_at = static_cast<std::int32_t>(tables.size());
  std::int32_t end = 0;
  top_counts.clear();
  best_n = top_n = 0;
  for (const backend::Segment& s : *segments) {
    end += s.n;
    for (std::int32_t i = end - s.n_logits; i < end; ++i) {
      tables.push_back(i);
      CHECK(s.top >= 0 && s.top <= std::min(kTopMost, model.vocab) && (s.top == 0 || !s.best));
      top_counts.push_back(s.best ? kBest : s.top);
      best_n += s.best ? 1 : 0;
      top_n += s.top > 0 ? 1 : 0;
    }
  }
  logit_row_count = static_cast<std::int32_t>(tables.size()) - logit_rows_at;
  CHECK(logit_row_count <= model.limits.logit_rows);
  if (top_n > 0) tables.insert(tables.end(), top_counts.begin(), top_counts.end());
}

void StepBatch::plan_deferred_logits(const DeviceModel& model, std::int32_t first, std::int32_t n) {
  CHECK(n > 0 && n <= model.limits.logit_rows);
  CHECK(first >= 0 && first + n <= static_cast<std::int32_t>(tokens.size()));
  hidden_requested = false;  // those rows are finished
  logit_row_count = n;
  top_counts.assign(static_cast<std::size_t>(n), 0);
  best_n = top_n = 0;
  tables.resize(static_cast<std::size_t>(logit_rows_at));
  for (std::int32_t i = first; i < first + n; ++i) tables.push_back(i);
}

void StepBatch::plan_states() {
  runs.clear();
  state_table.begin();
  std::int32_t first = 0;
  for (const backend::Segment& s : *segments) {
    const auto [reads_second, writes_second] = state_table.plan(s);
    runs.push_back({first, s.n, s.start == 0 ? 1 : 0, s.begins_at(), reads_second ? 1 : 0, s.state,
                    writes_second ? 1 : 0, s.snapshot_after, s.snapshot_state, 0});
    first += s.n;
  }
}

void StepBatch::clear() {
  tokens.clear();
  segments = nullptr;
}

Error StepBatch::bad_row(std::int32_t token) const {
  std::int32_t segment = 0, first = 0;
  for (; first + (*segments)[static_cast<std::size_t>(segment)].n <= token; ++segment) {
    first += (*segments)[static_cast<std::size_t>(segment)].n;
  }
  return {Errc::kNumericsNan, "forward: segment " + std::to_string(segment) + ", position " +
                                  std::to_string(tokens[static_cast<std::size_t>(token)].position) +
                                  ": a logit or an output is NaN or infinite"};
}

}  // namespace holdfast::opencl
