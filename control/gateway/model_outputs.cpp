#include "control/gateway/model_outputs.h"

namespace holdfast::gateway {

std::optional<std::string> ModelOutputs::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= until_) return std::nullopt;
  const auto found = known_.find(name);
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

void ModelOutputs::put(const std::vector<wire::ModelInfo>& models) {
  const std::lock_guard lock(mutex_);
  known_.clear();
  for (const wire::ModelInfo& model : models) known_[model.name] = model.output;
  until_ = std::chrono::steady_clock::now() + kFresh;
}

}  // namespace holdfast::gateway
