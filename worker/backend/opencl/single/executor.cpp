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

backend::Memory OpenclExecutor::memory() const {
  return model_.memory;
}

void OpenclExecutor::begin(const backend::Batch& batch) {
  ++step_;
  batch_.plan(model_, batch);
  layer_ = kNoLayer;
  launcher_.begin_step();
  begun_at_ = Clock::now();
  if (batch_.tokens.empty()) return;
  if (!batch_.state_table.empty()) batch_.plan_states();
  send_inputs();
}

/// The end of the operations that the batch needs. A part of a prompt whose logits nobody requests
/// ends with the last layer's keys and values (which attention writes where it finishes heads).
std::size_t OpenclExecutor::last_needed() const {
  if (model_.for_all == 0 || model_.for_all == model_.ops.size()) return model_.ops.size();
  if (batch_.wants_results()) return model_.ops.size();
  return model_.for_all + (batch_.short_segments && model_.ops[model_.for_all].may_finish ? 1 : 0);
}

/// True if the watchdog is told when the device comes to this layer: to every layer of a step that
/// may be long, and to few of one that is not, because marks cost the host time.
bool OpenclExecutor::marks(std::int32_t layer) const {
  if (layer == layer_) return false;
  const bool is_short = batch_.short_segments && batch_rows() <= kShortStepRows && quick_;
  return !is_short || layer_ == kNoLayer || (layer > 0 && layer % kMarkedLayers == 0);
}

void OpenclExecutor::run(std::size_t first, std::size_t end) {
  end = std::min(end, last_needed());
  for (std::size_t i = first; i < end; ++i) {
    const DeviceOp& op = model_.ops[i];
    if (marks(op.layer)) model_.queue.mark();
    layer_ = op.layer;
    model_.queue.begin_operation(i);
    launcher_.run(op);
  }
  model_.queue.end_operations();
}

std::int64_t OpenclExecutor::result_rows(std::size_t op) const {
  const bool slots = model_.ops[op].kind == model::OpKind::kExpertGateUp;
  return batch_rows() * (slots ? model_.shape.experts_used : 1);
}

std::size_t OpenclExecutor::leading() const {
  std::size_t n = 0;
  while (n < model_.ops.size() && model_.ops[n].layer < 0 &&
         model_.ops[n].kind != model::OpKind::kNormLogits)
    ++n;
  return n;
}

/// kUnsupported: a segment requests logits that this load does not give.
Result<void> OpenclExecutor::check_wants(const backend::Batch& batch) const {
  if (capabilities_.no_logits.empty()) return {};
  for (const backend::Segment& s : batch.segments) {
    if (s.wants.logit_rows() == 0 && !s.wants.is_deferred()) continue;
    return Error{Errc::kUnsupported, "forward: logits are requested; " + capabilities_.no_logits};
  }
  return {};
}

Result<backend::StepResult> OpenclExecutor::forward(const backend::Batch& batch) {
  HOLDFAST_CHECKED(check_wants(batch));
  begin(batch);
  if (batch_.tokens.empty()) return result();
  run(0, model_.ops.size());
  return finish();
}

/// Runs few layers of each kind: on a slow device the first passes would take longer than the load.
Result<void> OpenclExecutor::rehearse(const backend::Batch& batch) {
  HOLDFAST_CHECKED(check_wants(batch));
  begin(batch);
  std::vector<std::size_t> kinds;  // first operation of a layer of each kind
  std::vector<int> runs;           // layers of each kind
  for (std::size_t at = 0, end = 0; at < model_.ops.size(); at = end) {
    for (end = at; end < model_.ops.size() && model_.ops[end].layer == model_.ops[at].layer;) ++end;
    std::size_t kind = 0;
    while (kind < kinds.size() && !alike(model_.ops, kinds[kind], at, end)) ++kind;
    if (kind == kinds.size()) kinds.push_back(at), runs.push_back(0);
    if (++runs[kind] <= kRehearsed) run(at, end);
  }
  HOLDFAST_CHECKED(finish());
  quick_ = false;  // a whole step takes longer
  return {};
}

void OpenclExecutor::begin_deferred_logits(std::int32_t first, std::int32_t n) {
  ++step_;
  begun_at_ = Clock::now();
  batch_.plan_deferred_logits(model_, first, n);
  send_logit_rows();
}

Result<backend::StepResult> OpenclExecutor::compute_deferred_logits(std::int32_t first,
                                                                    std::int32_t n) {
  begin_deferred_logits(first, n);
  // The last operation gives the logits; the loader checks that.
  run(model_.ops.size() - 1, model_.ops.size());
  return finish();
}

Result<void> OpenclExecutor::settle() {
  const cl_int status = model_.queue.wait();
  if (status != CL_SUCCESS) {
    return Error{Errc::kModelFailed,
                 "forward on " + model_.device_context->device().name + ": " + status_text(status)};
  }
  if (const std::optional<Error>& failure = launcher_.failure()) {
    return Error{Errc::kModelFailed,
                 "forward on " + model_.device_context->device().name + ": " + failure->what};
  }
  if (batch_.short_segments) quick_ = Clock::now() - begun_at_ < kQuickStep;
  if (!saved_) model_.device_context->programs().save();
  saved_ = true;
  return {};
}

/// Reads the rows whose logits are requested, and the results of read_top(). On the host, `first`
/// rows lie before them.
void OpenclExecutor::read_logits(std::int32_t first) {
  read_top(first);
  float* logits = logits_.data() + static_cast<std::int64_t>(first) * model_.shape.vocab;
  for (std::int32_t row = 0, end = 0; row < batch_.logit_row_count; row = end + 1) {
    end = row;
    while (end < batch_.logit_row_count && batch_.is_whole(end)) ++end;
    model_.queue.read_block(model_.scratch.logits.at(), {row, end - row, 0, model_.shape.vocab},
                            logits, model_.shape.vocab);
  }
}

/// Reads the results of rows of which the greatest logits, or the greatest one's index, suffice.
void OpenclExecutor::read_top(std::int32_t first) {
  if (batch_.greatest_n > 0) {
    model_.queue.read_block({model_.scratch.best.get(), batch_.logit_row_count},
                            {0, 1, 0, batch_.logit_row_count}, greatest_.data() + first,
                            batch_.logit_row_count);
  }
  if (batch_.top_n == 0) return;
  const std::int32_t most = *std::max_element(batch_.top_counts.begin(), batch_.top_counts.end());
  static_assert(sizeof(backend::Ranked) == 2 * sizeof(float));
  model_.queue.read_block(model_.scratch.top.at(), {0, batch_.logit_row_count, 0, 2 * most},
                          top_.data() + static_cast<std::size_t>(first) * kTopMost,
                          model_.scratch.top.stride);
}

Result<void> OpenclExecutor::check_top() const {
  for (std::int32_t i = 0; i < batch_.logit_row_count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t index = batch_.top_counts[at] == backend::Wants::kGreatest ? greatest_[at]
                               : batch_.top_counts[at] > 0 ? top_[at * kTopMost].id
                                                           : 0;
    if (index >= 0) continue;
    return batch_.bad_row(batch_.token_of(i));
  }
  return {};
}

/// Reads and checks the results.
Result<backend::StepResult> OpenclExecutor::finish() {
  read_logits(0);
  if (batch_.hidden_requested) {
    const RowsAt x = model_.scratch.x.at();
    model_.queue.read_block(x, {0, batch_rows(), 0, x.stride}, hidden_.data(), x.stride);
  }
  return checked();
}

Result<backend::StepResult> OpenclExecutor::conclude(const backend::Batch& batch) {
  ++step_;
  batch_.plan(model_, batch);
  return checked();
}

Result<backend::StepResult> OpenclExecutor::checked() {
  HOLDFAST_CHECKED(settle());
  note_progress();
  HOLDFAST_CHECKED(check_top());
  HOLDFAST_CHECKED(check_results(logits_.data(), model_.shape.vocab, hidden_.data()));
  return result();
}

backend::StepResult OpenclExecutor::result() const {
  backend::ResultViews views;
  views.logit_rows = batch_.logit_row_count;
  views.top_counts = batch_.top_counts.data();
  views.logits = {logits_.data(), model_.shape.vocab};
  views.greatest = greatest_.data();
  views.top = {top_.data(), kTopMost};
  if (batch_.hidden_requested) {
    views.hidden = {hidden_.data(), model_.scratch.x.stride};
    views.hidden_rows = batch_rows();
  }
  return {views, step_};
}

RowsAt OpenclExecutor::inbox() const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(model_.limits.batch_tokens) *
                              static_cast<std::uint64_t>(model_.scratch.x.stride) * sizeof(float);
  const Buffer& buffer = model_.scratch.qkv.buffer;
  return {buffer.bytes() < bytes ? nullptr : buffer.get(), model_.scratch.x.stride};
}

Result<void> OpenclExecutor::check_results(const float* logits, std::int64_t vocab,
                                           const float* hidden) const {
  for (std::int32_t i = 0; i < batch_.logit_row_count; ++i) {
    if (!batch_.is_whole(i)) continue;
    if (all_finite(logits + i * vocab, vocab)) continue;
    return batch_.bad_row(batch_.token_of(i));
  }
  if (!batch_.hidden_requested) return {};
  std::int32_t token = 0;
  for (const backend::Segment& s : batch_.given->segments) {
    for (const std::int32_t end = token + s.n; token < end; ++token) {
      const float* row = hidden + static_cast<std::int64_t>(token) * model_.scratch.x.stride;
      if (s.wants.is_hidden() && !all_finite(row, model_.shape.width)) return batch_.bad_row(token);
    }
  }
  return {};
}

}  // namespace holdfast::opencl
