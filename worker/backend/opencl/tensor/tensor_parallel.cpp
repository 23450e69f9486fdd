#include "worker/backend/opencl/tensor/tensor_parallel.h"

#include <algorithm>

#include "shared/base/progress.h"
#include "worker/backend/opencl/single/loader.h"
#include "worker/backend/opencl/tensor/group.h"

namespace holdfast::opencl {
namespace {

class TensorParallelExecutor final : public Group {
 public:
  TensorParallelExecutor(Parts&& parts, std::vector<Staging>&& host, const backend::Limits& limits,
                         std::int64_t vocab, bool causal)
      : Group(std::move(parts), std::move(host), sends_most(limits, parts.size())), vocab_(vocab) {
    capabilities_.class_prefix = class_prefix();
    if (causal) {
      logits_.resize(static_cast<std::size_t>(std::max(limits.logit_rows, 1)) *
                     static_cast<std::size_t>(vocab));
    }
    hidden_.resize(static_cast<std::size_t>(limits.batch_tokens) *
                   static_cast<std::size_t>(parts_[0]->scratch().x.stride));
  }

  Result<backend::StepResult> forward(const backend::Batch& batch) override {
    ++step_;
    batch_ = &batch;
    begin(batch);
    if (parts_[0]->batch_rows() == 0) return result();
    run(0, parts_[0]->operations().size());
    return finish();
  }
  Result<backend::StepResult> compute_deferred_logits(std::int32_t first, std::int32_t n) override {
    ++step_;
    for (const auto& part : parts_) part->begin_deferred_logits(first, n);
    const std::size_t operations = parts_[0]->operations().size();
    run(operations - 1, operations);
    return finish();
  }

 private:
  /// The class of one device if all are alike, else the classes of all: then it matters which
  /// device has which rows.
  std::string class_prefix() const {
    std::string all = parts_[0]->capabilities().class_prefix;
    if (alike()) return all;
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      all += "*" + parts_[i]->capabilities().class_prefix.substr(7);  // "opencl/"
    }
    return all;
  }

  /// The most sends at once: a row of the embedding for each token, or a run of columns for each
  /// device.
  static std::size_t sends_most(const backend::Limits& l, std::size_t devices) {
    return std::max(static_cast<std::size_t>(l.batch_tokens), devices);
  }

  void run(std::size_t first, std::size_t end) {
    for (std::size_t op = first; op < end; ++op) {
      for (const auto& part : parts_) part->run(op, op + 1);
      all_gather_result(op);
    }
  }

  /// The rows of an operation's result; null: no other device has a part of it.
  static const Rows* result_of(const OpenclExecutor& part, const DeviceOp& op) {
    const Scratch& s = part.scratch();
    switch (op.kind) {
      case model::OpKind::kEmbed:
      case model::OpKind::kExpertDownAdd:
        return &s.x;
      case model::OpKind::kOutAdd:
      case model::OpKind::kDownAdd:
        return op.to_h ? &s.h : &s.x;
      case model::OpKind::kAttention:
        return &s.a;
      case model::OpKind::kNormGateUp:
        return op.in_shared_rows ? &s.s : &s.f;
      case model::OpKind::kExpertGateUp:
        return &s.e;
      default:
        return nullptr;
    }
  }

  void all_gather_result(std::size_t op) {
    const DeviceOp& first = parts_[0]->operations()[op];
    if (first.columns == 0 || result_of(*parts_[0], first) == nullptr) return;
    rows_.clear();
    sends_.clear();
    for (const auto& part : parts_) {
      rows_.push_back(result_of(*part, part->operations()[op])->at());
    }
    if (first.kind == model::OpKind::kEmbed) {
      send_looked_up(op);
    } else {
      send_columns(op);
    }
    communicator_.run(rows_, sends_);
  }

  void send_columns(std::size_t op) {
    const std::int64_t rows = parts_[0]->result_rows(op);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const DeviceOp& mine = parts_[p]->operations()[op];
      sends_.push_back({static_cast<int>(p), Send::kOthers, {0, rows, mine.column, mine.columns}});
    }
  }

  /// Sends rows of the embedding from the device that has the token's row of the table.
  void send_looked_up(std::size_t op) {
    std::int64_t row = 0;
    for (const backend::Segment& s : batch_->segments) {
      for (std::int32_t i = 0; i < s.n; ++i, ++row) {
        const int owner = owner_of(op, s.tokens[i]);
        if (!sends_.empty() && sends_.back().from == owner) {
          ++sends_.back().block.rows;
        } else {
          sends_.push_back({owner, Send::kOthers, {row, 1, 0, parts_[0]->width()}});
        }
      }
    }
  }

  int owner_of(std::size_t op, std::int32_t token) const {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const DeviceOp& embed = parts_[p]->operations()[op];
      if (token < embed.column + embed.columns) return static_cast<int>(p);
    }
    CHECK_MSG(false, "a token without a device");
    return 0;
  }

  /// Reads each device's columns of the logits into whole rows, and checks them.
  Result<backend::StepResult> finish() {
    HOLDFAST_CHECKED(settle());
    const std::size_t op = parts_[0]->operations().size() - 1;
    for (const auto& part : parts_) {
      const DeviceOp& mine = part->operations()[op];
      const Block block{0, part->logit_row_count(), 0, mine.columns};
      part->queue().read_block(part->scratch().logits.at(), block, logits_.data() + mine.column,
                               vocab_);
    }
    OpenclExecutor& one = *parts_[0];
    if (one.hidden_requested()) {
      const RowsAt x = one.scratch().x.at();
      one.queue().read_block(x, {0, one.batch_rows(), 0, one.width()}, hidden_.data(), x.stride);
    }
    for (const auto& part : parts_) part->queue().finish();
    HOLDFAST_CHECKED(settle());
    note_progress();
    HOLDFAST_CHECKED(one.check_results(logits_.data(), vocab_, hidden_.data()));
    return result();
  }

  backend::StepResult result() const {
    const OpenclExecutor& one = *parts_[0];
    backend::ResultViews views;
    views.logit_rows = one.logit_row_count();
    views.logits = {logits_.data(), vocab_};
    if (one.hidden_requested()) {
      views.hidden = {hidden_.data(), one.scratch().x.stride};
      views.hidden_rows = one.batch_rows();
    }
    return {views, step_};
  }

  const std::int64_t vocab_;
  std::uint64_t step_ = 0;
  const backend::Batch* batch_ = nullptr;
  std::vector<float> logits_;  // [logit_rows][vocab]
  std::vector<float> hidden_;  // [batch][x stride]
};

}  // namespace

Result<std::unique_ptr<backend::Executor>> load_tensor_parallel(const std::vector<Device>& devices,
                                                                const model::Program& program,
                                                                const backend::LoadOptions& options,
                                                                cpu::KvType kv_type) {
  const auto n = static_cast<int>(devices.size());
  HOLDFAST_TRY(const DeviceContexts device_contexts, DeviceContexts::open(devices));
  Group::Parts parts;
  for (int i = 0; i < n; ++i) {
    HOLDFAST_TRY(const RowsPart part, rows_part(program, i, n));
    HOLDFAST_TRY(auto executor,
                 Loader::open(device_contexts.all[static_cast<std::size_t>(i)], part,
                              options_of_part(options, parts.size(), devices.size()), kv_type));
    parts.push_back(std::move(executor));
  }
  std::uint64_t bytes = 0;
  const Scratch& s = parts[0]->scratch();
  for (const Rows* rows : {&s.x, &s.h, &s.a, &s.f, &s.s, &s.e}) {
    bytes = std::max(bytes, rows->buffer.bytes());
  }
  HOLDFAST_TRY(auto host, take_host(parts, device_contexts.peers, bytes));
  return std::unique_ptr<backend::Executor>(
      std::make_unique<TensorParallelExecutor>(std::move(parts), std::move(host), options.limits,
                                               program.shape.vocab, program.shape.causal));
}

}  // namespace holdfast::opencl
