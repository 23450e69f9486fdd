#include "worker/engine/embedding.h"

#include <cmath>

#include "shared/base/check.h"

namespace holdfast::engine {

Pooler::Pooler(plan::Pooling pooling, bool normalize, std::int64_t width)
    : pooling_(pooling), normalize_(normalize), width_(width) {}

void Pooler::restart() {
  rows_ = 0;
  values_.clear();
}

backend::Wants Pooler::wants(std::int64_t start, std::int32_t n, bool last) const {
  using backend::Wants;
  if (pooling_ == plan::Pooling::kCls) return start == 0 ? Wants::hidden_of(0) : Wants();
  if (pooling_ == plan::Pooling::kLast) return last ? Wants::hidden_of(n - 1) : Wants();
  return Wants::hidden();
}

void Pooler::take(const backend::StepResult& result, const backend::Segment& segment,
                  std::int32_t first) {
  if (segment.start == 0) restart();
  for (std::int32_t i = 0; i < segment.n; ++i) {
    if (segment.wants.is_hidden_of(i)) take_row(result.hidden(first + i));
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

Result<void> Engine::add_embedding(const EmbedSpec& spec) {
  return Error{Errc::kUnsupported,
               "add sequence " + std::to_string(spec.key) + ": this engine makes no embeddings"};
}

}  // namespace holdfast::engine
