// A forward pass, from segments to rows of logits.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "shared/base/progress.h"
#include "worker/backend/opencl/single/executor.h"

namespace holdfast::opencl {
namespace {

bool all_finite(const float* x, std::int64_t n) {
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) finite &= std::isfinite(x[i]);
  return finite;
}

// Layers of each kind that a rehearsal runs: two, because what precedes the first one differs.
constexpr int kRehearsed = 2;

using Clock = std::chrono::steady_clock;

// A short step: it has few rows, and the last such step was quick, so that even 32 times its time
// is far below what a watchdog waits for.
constexpr std::int64_t kShortStepRows = 32;
constexpr std::chrono::milliseconds kQuickStep{100};
constexpr std::int32_t kMarkedLayers = 8;  // one in so many layers of a short step is marked
constexpr std::int32_t kNoLayer = -2;      // nothing of the step was enqueued

bool alike(const std::vector<Product>& a, const std::vector<Product>& b) {
  const auto same = [](const Product& p, const Product& q) {
    return p.matrix.format == q.matrix.format && p.matrix.panels == q.matrix.panels &&
           p.matrix.spans == q.matrix.spans && p.matrix.extents.size() == q.matrix.extents.size();
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

/// Compares which kernels run, whatever the weights.
bool alike(const DeviceOp& a, const DeviceOp& b) {
  const auto key = [](const DeviceOp& op) {
    const auto there = [](std::int32_t at) { return at >= 0; };
    return std::tuple(op.kind, op.norm_kind, there(op.norm_at), there(op.norm_bias_at),
                      there(op.bias_at[0]), there(op.bias_at[1]), there(op.head_norm_at[0]),
                      there(op.head_norm_at[1]), there(op.gate_at), there(op.choice_at),
                      there(op.sinks_at), op.activate, op.gated, op.from_h, op.to_h, op.gate_rows,
                      op.row_norm, op.rope, op.window > 0, op.scale != 1, op.cap > 0,
                      op.norm_inside, there(op.next_norm_at), op.may_finish);
  };
  return key(a) == key(b) && alike(a.products, b.products);
}

/// True if operations [at, end), a layer, are like those of the layer that begins at `first`.
bool alike(const std::vector<DeviceOp>& ops, std::size_t first, std::size_t at, std::size_t end) {
  for (std::size_t i = at; i < end; ++i) {
    if (!alike(ops[first + i - at], ops[i])) return false;
  }
  const std::size_t next_layer_at = first + end - at;
  return next_layer_at == ops.size() || ops[next_layer_at].layer != ops[first].layer;
}

}  // namespace

const float* OpenclExecutor::hidden(std::int32_t i) const {
  CHECK(i >= 0 && i < static_cast<std::int32_t>(tokens_.size()));
  return hidden_.data() + static_cast<std::int64_t>(i) * scratch_.x.stride;
}

backend::Memory OpenclExecutor::memory() const {
  return memory_;
}

void OpenclExecutor::plan_batch(const std::vector<backend::Segment>& segments) {
  CHECK(static_cast<std::int32_t>(segments.size()) <= limits_.batch_segments);
  segments_ = &segments;
  tokens_.clear();
  tables_.clear();
  hidden_requested_ = extra_logits_requested_ = false;
  short_segments_ = shape_.causal;
  for (const backend::Segment& s : segments) {
    CHECK(s.n > 0 && s.start >= 0 && s.n_logits <= s.n);
    CHECK(s.start + s.n <= limits_.context);
    CHECK(shape_.causal || (s.start == 0 && s.n_logits == 0));
    CHECK(static_cast<std::int32_t>(tokens_.size()) + s.n <= limits_.batch_tokens);
    hidden_requested_ |= s.hidden;
    extra_logits_requested_ |= s.deferred_logits;
    short_segments_ &= s.n <= kShortSegmentTokens;
    const auto table = static_cast<std::int32_t>(tables_.size());
    for (std::int64_t p = 0; p <= (s.start + s.n - 1) / kPageTokens; ++p) {
      CHECK(s.pages[p] >= 0 && s.pages[p] < limits_.pages);
      tables_.push_back(s.pages[p]);
    }
    for (std::int32_t i = 0; i < s.n; ++i) {
      CHECK(s.tokens[i] >= 0 && s.tokens[i] < shape_.vocab);
      const auto position = static_cast<std::int32_t>(s.start) + i;
      tokens_.push_back({s.tokens[i], position, table, shape_.causal ? position + 1 : s.n});
    }
  }
  plan_logit_rows(segments);
}

/// Puts the rows whose logits are wanted after the page tables, then what is wanted of each.
void OpenclExecutor::plan_logit_rows(const std::vector<backend::Segment>& segments) {
  logit_rows_at_ = static_cast<std::int32_t>(tables_.size());
  std::int32_t end = 0;
  top_counts_.clear();
  best_n_ = top_n_ = 0;
  for (const backend::Segment& s : segments) {
    end += s.n;
    for (std::int32_t i = end - s.n_logits; i < end; ++i) {
      tables_.push_back(i);
      CHECK(s.top >= 0 && s.top <= std::min(kTopMost, vocab_) && (s.top == 0 || !s.best));
      top_counts_.push_back(s.best ? kBest : s.top);
      best_n_ += s.best ? 1 : 0;
      top_n_ += s.top > 0 ? 1 : 0;
    }
  }
  logit_row_count_ = static_cast<std::int32_t>(tables_.size()) - logit_rows_at_;
  CHECK(logit_row_count_ <= limits_.logit_rows);
  if (top_n_ > 0) tables_.insert(tables_.end(), top_counts_.begin(), top_counts_.end());
}

void OpenclExecutor::begin(const std::vector<backend::Segment>& segments) {
  plan_batch(segments);
  layer_ = kNoLayer;
  spread_for_ = -1;
  begun_at_ = Clock::now();
  if (tokens_.empty()) return;
  if (!state_table_.empty()) plan_states(segments);
  send_inputs();
}

/// The end of the operations that the batch needs. A part of a prompt whose logits nobody requests
/// ends with the last layer's keys and values (which attention writes where it finishes heads).
std::size_t OpenclExecutor::last_needed() const {
  if (for_all_ == 0 || for_all_ == ops_.size()) return ops_.size();
  if (logit_row_count_ > 0 || hidden_requested_ || extra_logits_requested_) return ops_.size();
  return for_all_ + (short_segments_ && ops_[for_all_].may_finish ? 1 : 0);
}

/// True if the watchdog is told when the device comes to this layer: to every layer of a step that
/// may be long, and to few of one that is not, because marks cost the host time.
bool OpenclExecutor::marks(std::int32_t layer) const {
  if (layer == layer_) return false;
  const bool is_short = short_segments_ && batch_rows() <= kShortStepRows && quick_;
  return !is_short || layer_ == kNoLayer || (layer > 0 && layer % kMarkedLayers == 0);
}

void OpenclExecutor::run(std::size_t first, std::size_t end) {
  end = std::min(end, last_needed());
  for (std::size_t i = first; i < end; ++i) {
    const DeviceOp& op = ops_[i];
    if (marks(op.layer)) queue_.mark();
    layer_ = op.layer;
    queue_.begin_operation(i);
    run_op(op);
  }
  queue_.end_operations();
}

std::int64_t OpenclExecutor::result_rows(std::size_t op) const {
  const bool slots = ops_[op].kind == model::OpKind::kExpertGateUp;
  return batch_rows() * (slots ? shape_.experts_used : 1);
}

std::size_t OpenclExecutor::leading() const {
  std::size_t n = 0;
  while (n < ops_.size() && ops_[n].layer < 0 && ops_[n].kind != model::OpKind::kNormLogits) ++n;
  return n;
}

Result<const float*> OpenclExecutor::forward(const std::vector<backend::Segment>& segments) {
  begin(segments);
  if (tokens_.empty()) return static_cast<const float*>(logits_.data());
  run(0, ops_.size());
  return finish();
}

/// Runs few layers of each kind: on a slow device the first passes would take longer than the load.
Result<void> OpenclExecutor::rehearse(const std::vector<backend::Segment>& segments) {
  begin(segments);
  std::vector<std::size_t> kinds;  // first operation of a layer of each kind
  std::vector<int> runs;           // layers of each kind
  for (std::size_t at = 0, end = 0; at < ops_.size(); at = end) {
    for (end = at; end < ops_.size() && ops_[end].layer == ops_[at].layer;) ++end;
    std::size_t kind = 0;
    while (kind < kinds.size() && !alike(ops_, kinds[kind], at, end)) ++kind;
    if (kind == kinds.size()) kinds.push_back(at), runs.push_back(0);
    if (++runs[kind] <= kRehearsed) run(at, end);
  }
  HOLDFAST_CHECKED(finish());
  quick_ = false;  // a whole step takes longer
  return {};
}

void OpenclExecutor::begin_deferred_logits(std::int32_t first, std::int32_t n) {
  CHECK(n > 0 && n <= limits_.logit_rows);
  CHECK(first >= 0 && first + n <= static_cast<std::int32_t>(tokens_.size()));
  begun_at_ = Clock::now();
  hidden_requested_ = false;  // those rows are finished
  logit_row_count_ = n;
  top_counts_.assign(static_cast<std::size_t>(n), 0);
  best_n_ = top_n_ = 0;
  tables_.resize(static_cast<std::size_t>(logit_rows_at_));
  for (std::int32_t i = first; i < first + n; ++i) tables_.push_back(i);
  send_logit_rows();
}

Result<const float*> OpenclExecutor::compute_deferred_logits(std::int32_t first, std::int32_t n) {
  begin_deferred_logits(first, n);
  run(ops_.size() - 1, ops_.size());  // the last operation gives the logits; the loader checks that
  return finish();
}

Error OpenclExecutor::bad_row(std::int32_t token) const {
  std::int32_t segment = 0, first = 0;
  for (; first + (*segments_)[static_cast<std::size_t>(segment)].n <= token; ++segment) {
    first += (*segments_)[static_cast<std::size_t>(segment)].n;
  }
  return {Errc::kNumericsNan,
          "forward: segment " + std::to_string(segment) + ", position " +
              std::to_string(tokens_[static_cast<std::size_t>(token)].position) +
              ": a logit or an output is NaN or infinite"};
}

Result<void> OpenclExecutor::settle() {
  const cl_int status = queue_.wait();
  if (status != CL_SUCCESS) {
    return Error{Errc::kModelFailed,
                 "forward on " + device_context_->device().name + ": " + status_text(status)};
  }
  if (short_segments_) quick_ = Clock::now() - begun_at_ < kQuickStep;
  if (!saved_) device_context_->programs().save();
  saved_ = true;
  return {};
}

/// Reads the rows whose logits are requested, and the results of read_top(). On the host, `first`
/// rows lie before them.
void OpenclExecutor::read_logits(std::int32_t first) {
  read_top(first);
  float* logits = logits_.data() + static_cast<std::int64_t>(first) * shape_.vocab;
  for (std::int32_t row = 0, end = 0; row < logit_row_count_; row = end + 1) {
    end = row;
    while (end < logit_row_count_ && top_counts_[static_cast<std::size_t>(end)] == 0) ++end;
    queue_.read_block(scratch_.logits.at(), {row, end - row, 0, shape_.vocab}, logits,
                      shape_.vocab);
  }
}

/// Reads the results of rows of which the greatest logits, or the greatest one's index, suffice.
void OpenclExecutor::read_top(std::int32_t first) {
  if (best_n_ > 0) {
    queue_.read_block({scratch_.best.get(), logit_row_count_}, {0, 1, 0, logit_row_count_},
                      best_.data() + first, logit_row_count_);
  }
  if (top_n_ == 0) return;
  const std::int32_t most = *std::max_element(top_counts_.begin(), top_counts_.end());
  static_assert(sizeof(backend::Ranked) == 2 * sizeof(float));
  queue_.read_block(scratch_.top.at(), {0, logit_row_count_, 0, 2 * most},
                    top_.data() + static_cast<std::size_t>(first) * kTopMost, scratch_.top.stride);
}

std::int32_t OpenclExecutor::best(std::int32_t row) const {
  CHECK(row >= 0 && row < logit_row_count_ && top_counts_[static_cast<std::size_t>(row)] == kBest);
  return best_[static_cast<std::size_t>(row)];
}

const backend::Ranked* OpenclExecutor::top(std::int32_t row) const {
  CHECK(row >= 0 && row < logit_row_count_ && top_counts_[static_cast<std::size_t>(row)] > 0);
  return top_.data() + static_cast<std::size_t>(row) * kTopMost;
}

Result<void> OpenclExecutor::check_top() const {
  for (std::int32_t i = 0; i < logit_row_count_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t index = top_counts_[at] == kBest ? best_[at]
                               : top_counts_[at] > 0    ? top_[at * kTopMost].id
                                                        : 0;
    if (index >= 0) continue;
    return bad_row(tables_[static_cast<std::size_t>(logit_rows_at_) + at]);
  }
  return {};
}

/// Reads and checks the results.
Result<const float*> OpenclExecutor::finish() {
  read_logits(0);
  if (hidden_requested_) {
    const RowsAt x = scratch_.x.at();
    queue_.read_block(x, {0, batch_rows(), 0, x.stride}, hidden_.data(), x.stride);
  }
  return checked();
}

Result<const float*> OpenclExecutor::conclude(const std::vector<backend::Segment>& segments) {
  plan_batch(segments);
  return checked();
}

Result<const float*> OpenclExecutor::checked() {
  HOLDFAST_CHECKED(settle());
  note_progress();
  HOLDFAST_CHECKED(check_top());
  HOLDFAST_CHECKED(check_results(logits_.data(), shape_.vocab, hidden_.data()));
  return static_cast<const float*>(logits_.data());
}

RowsAt OpenclExecutor::inbox() const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(limits_.batch_tokens) *
                              static_cast<std::uint64_t>(scratch_.x.stride) * sizeof(float);
  const Buffer& buffer = scratch_.qkv.buffer;
  return {buffer.bytes() < bytes ? nullptr : buffer.get(), scratch_.x.stride};
}

Result<void> OpenclExecutor::check_results(const float* logits, std::int64_t vocab,
                                           const float* hidden) const {
  for (std::int32_t i = 0; i < logit_row_count_; ++i) {
    if (top_counts_[static_cast<std::size_t>(i)] != 0) continue;
    if (all_finite(logits + i * vocab, vocab)) continue;
    return bad_row(tables_[static_cast<std::size_t>(logit_rows_at_) + static_cast<std::size_t>(i)]);
  }
  if (!hidden_requested_) return {};
  std::int32_t token = 0;
  for (const backend::Segment& s : *segments_) {
    for (const std::int32_t end = token + s.n; token < end; ++token) {
      const float* row = hidden + static_cast<std::int64_t>(token) * scratch_.x.stride;
      if (s.hidden && !all_finite(row, shape_.width)) return bad_row(token);
    }
  }
  return {};
}

}  // namespace holdfast::opencl
