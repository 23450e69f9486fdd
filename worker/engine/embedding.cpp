#include "worker/engine/embedding.h"

#include <cmath>

#include "shared/base/check.h"
#include "worker/engine/model_engine.h"

namespace holdfast::engine {

Pooler::Pooler(plan::Pooling pooling, bool normalize, std::int64_t width)
    : pooling_(pooling), normalize_(normalize), width_(width) {}

void Pooler::restart() {
  rows_ = 0;
  values_.clear();
}

void Pooler::want(backend::Segment& segment, bool last) const {
  segment.hidden = true;
  if (pooling_ == plan::Pooling::kCls) {
    segment.hidden = segment.start == 0;
    segment.hidden_at = 0;
  } else if (pooling_ == plan::Pooling::kLast) {
    segment.hidden = last;
    segment.hidden_at = segment.n - 1;
  }
}

void Pooler::take(const backend::Executor& executor, const backend::Segment& segment,
                  std::int32_t first) {
  if (segment.start == 0) restart();
  for (std::int32_t i = 0; i < segment.n; ++i) {
    if (segment.wants_hidden(i)) take_row(executor.hidden(first + i));
  }
}

void Pooler::take_row(const float* row) {
  const auto width = static_cast<std::size_t>(width_);
  if (rows_++ == 0 || pooling_ == plan::Pooling::kNone) {
    values_.insert(values_.end(), row, row + width);
    return;
  }
  CHECK(pooling_ == plan::Pooling::kMean);
  for (std::size_t i = 0; i < width; ++i) values_[i] += static_cast<double>(row[i]);
}

void Pooler::append(const double* sum, double divisor, std::vector<float>& out) const {
  double squares = 0;
  for (std::int64_t i = 0; i < width_; ++i) squares += (sum[i] / divisor) * (sum[i] / divisor);
  const double length = normalize_ && squares > 0 ? std::sqrt(squares) : 1;
  for (std::int64_t i = 0; i < width_; ++i) {
    out.push_back(static_cast<float>(sum[i] / divisor / length));
  }
}

void Pooler::finish(Produced& out) const {
  CHECK(rows_ > 0);
  const double divisor = pooling_ == plan::Pooling::kMean ? static_cast<double>(rows_) : 1;
  out.embedding.reserve(values_.size());
  for (std::size_t at = 0; at < values_.size(); at += static_cast<std::size_t>(width_)) {
    append(values_.data() + at, divisor, out.embedding);
    ++out.vectors;
  }
}

Result<void> Engine::add_embedding(EmbedSpec spec) {
  return Error{Errc::kUnsupported,
               "add sequence " + std::to_string(spec.key) + ": this engine makes no embeddings"};
}

/// The pooling that other servers use: the last token of a decoder has seen the whole text.
plan::Pooling ModelEngine::usual_pooling() const {
  return config_.causal ? plan::Pooling::kLast : plan::Pooling::kMean;
}

Result<void> ModelEngine::add_embedding(EmbedSpec spec) {
  const std::string where = "add embedding " + std::to_string(spec.key) + ": ";
  const plan::Pooling pooling =
      spec.pooling ? *spec.pooling : config_.pooling.value_or(usual_pooling());
  SequenceSpec checked;
  checked.key = spec.key;
  checked.prompt = spec.tokens;
  HOLDFAST_CHECKED(
      check_spec(checked, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  const std::int32_t needed = pages_for(static_cast<std::int64_t>(spec.tokens.size()));
  if (needed > config_.pages) {
    return Error{Errc::kMemoryExhausted, where + "needs " + std::to_string(needed) +
                                             " KV pages, the pool has " +
                                             std::to_string(config_.pages)};
  }
  HOLDFAST_TRY(Slot * slot, claim(spec.key));
  slot->tokens.assign(spec.tokens.begin(), spec.tokens.end());
  slot->prompt_n = slot->length();
  slot->priority = spec.priority;
  slot->prefill_heavy = executor_->has_prefill_kernels();
  slot->pooler = std::make_unique<Pooler>(pooling, spec.normalize, config_.width);
  return {};
}

/// Adds a request for one vector, which was made before if anything of it is committed.
Result<void> ModelEngine::add_vector(SequenceSpec spec, const sampling::EmbeddingOptions& options) {
  if (!spec.committed.empty()) {
    HOLDFAST_TRY(Slot * slot, claim(spec.key));
    slot->tokens.assign(spec.committed.begin(), spec.committed.end());
    slot->finish = wire::FinishReason::kStop;
    return {};
  }
  EmbedSpec embed;
  embed.key = spec.key;
  embed.tokens = std::move(spec.prompt);
  embed.priority = spec.priority;
  embed.normalize = options.normalize;
  if (config_.pooling == plan::Pooling::kNone) embed.pooling = usual_pooling();
  if (options.pooling == "mean") embed.pooling = plan::Pooling::kMean;
  if (options.pooling == "cls") embed.pooling = plan::Pooling::kCls;
  if (options.pooling == "last") embed.pooling = plan::Pooling::kLast;
  return add_embedding(std::move(embed));
}

void ModelEngine::advance_embedding(Slot& slot, const backend::Segment& segment,
                                    std::int32_t first) {
  slot.pooler->take(*executor_, segment, first);
  if (slot.pending() > 0) return;
  Produced p;
  p.key = slot.key;
  p.finish = wire::FinishReason::kStop;
  slot.pooler->finish(p);
  produced_.push_back(std::move(p));
  release(slot);
}

}  // namespace holdfast::engine
