#include "control/gateway/common/model_outputs.h"

namespace holdfast::gateway {

std::optional<std::string> ModelOutputs::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= until_) return std::nullopt;
  const auto found = cached_.find(name);
  if (found == cached_.end()) return std::nullopt;
  return found->second;
}

void ModelOutputs::put(const std::vector<wire::ModelInfo>& models) {
  const std::lock_guard lock(mutex_);
  cached_.clear();
  for (const wire::ModelInfo& model : models) cached_[model.name] = model.output;
  until_ = std::chrono::steady_clock::now() + kFresh;
}

void find_output(ModelOutputs& outputs, client::Client& client, const std::string& model,
                 std::function<void(client::Answer<std::string>)> done) {
  if (auto cached = outputs.find(model)) return done(std::move(*cached));
  client.models_async(client::AllTenants::local(),
                      [&outputs, model, done = std::move(done)](
                          client::Answer<std::vector<wire::ModelInfo>> answer) {
                        if (auto* failure = std::get_if<client::Failure>(&answer))
                          return done(std::move(*failure));
                        outputs.put(std::get<0>(answer));
                        done(outputs.find(model).value_or(""));
                      });
}

}  // namespace holdfast::gateway
