#include "worker/backend/opencl/single/step_batch.h"

#include <algorithm>
#include <string>

#include "worker/backend/opencl/device/limits.h"

namespace holdfast::opencl {

void StepBatch::plan(const DeviceModel& model, const backend::Batch& batch) {
  CHECK(static_cast<std::int32_t>(batch.segments.size()) <= model.limits.batch_segments);
  given = &batch;
  tokens.clear();
  tables.clear();
  hidden_requested = deferred_logits_requested = false;
  short_segments = model.shape.causal;
  for (const backend::Segment& s : batch.segments) add(model, s);
  plan_logit_rows(model);
}

/// Adds the tokens and the page table of a segment; CHECKs that it is within limits.
void StepBatch::add(const DeviceModel& model, const backend::Segment& s) {
  CHECK(s.n > 0 && s.start >= 0 && s.wants.fits(s.n));
  CHECK(s.start + s.n <= model.limits.context);
  CHECK(model.shape.causal || (s.start == 0 && s.wants.logit_rows() == 0));
  CHECK(static_cast<std::int32_t>(tokens.size()) + s.n <= model.limits.batch_tokens);
  hidden_requested |= s.wants.is_hidden();
  deferred_logits_requested |= s.wants.is_deferred();
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

/// Puts the rows whose logits are requested after the page tables, then what is requested of each.
void StepBatch::plan_logit_rows(const DeviceModel& model) {
  logit_rows_at = static_cast<std::int32_t>(tables.size());
  std::int32_t end = 0;
  top_counts.clear();
  greatest_n = top_n = 0;
  for (const backend::Segment& s : given->segments) {
    const std::int32_t rows = s.wants.logit_rows(), top_count = s.wants.top_count();
    CHECK(top_count <= std::min(kTopMost, model.vocab));
    end += s.n;
    for (std::int32_t i = end - rows; i < end; ++i) tables.push_back(i);
    top_counts.insert(top_counts.end(), static_cast<std::size_t>(rows), top_count);
    if (top_count == backend::Wants::kGreatest) greatest_n += rows;
    if (top_count > 0) top_n += rows;
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
  greatest_n = top_n = 0;
  tables.resize(static_cast<std::size_t>(logit_rows_at));
  for (std::int32_t i = first; i < first + n; ++i) tables.push_back(i);
}

void StepBatch::plan_states() {
  runs.clear();
  state_table.begin();
  std::int32_t first = 0;
  for (const backend::Segment& s : given->segments) {
    const auto [reads_second, writes_second] = state_table.plan(s);
    const backend::StateSnapshot snapshot = s.states.snapshot.value_or(backend::StateSnapshot{});
    runs.push_back({first, s.n, s.start == 0 ? 1 : 0, s.states.origin(), reads_second ? 1 : 0,
                    s.states.at, writes_second ? 1 : 0, snapshot.after, snapshot.state, 0});
    first += s.n;
  }
}

void StepBatch::clear() {
  tokens.clear();
  given = nullptr;
}

Error StepBatch::bad_row(std::int32_t token) const {
  std::int32_t segment = 0, end = given->segments[0].n;
  while (end <= token) end += given->segments[static_cast<std::size_t>(++segment)].n;
  return {Errc::kNumericsNan, "forward: segment " + std::to_string(segment) + ", position " +
                                  std::to_string(tokens[static_cast<std::size_t>(token)].position) +
                                  ": a logit or an output is NaN or infinite"};
}

}  // namespace holdfast::opencl
