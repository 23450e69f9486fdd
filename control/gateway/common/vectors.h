#pragma once
// The answer of /v1/embeddings.

#include <vector>

#include "control/gateway/common/render.h"

namespace holdfast::gateway {

/// Gathers the vector of each choice; choices are the inputs in their order. Not thread-safe.
class VectorCollector final : public WholeAnswer {
 public:
  VectorCollector(const Shape& shape, wire::RequestInfo info);
  void update(const wire::RequestInfo& info) override { info_ = info; }
  void on_event(const wire::Event& event) override;
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  Shape shape_;
  wire::RequestInfo info_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace holdfast::gateway
