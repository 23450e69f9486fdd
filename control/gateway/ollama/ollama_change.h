#pragma once
// Changes of the models by Ollama's endpoints, which are an operator's.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "control/gateway/common/context.h"

namespace holdfast::gateway {

/// True if the caller may change models; otherwise it was answered why not.
bool may_change_models(Context& context, const ExchangePtr& exchange);

/// Reads the body of a change of the models: others than operators are refused. Returns nullopt if
/// it was answered.
std::optional<nlohmann::ordered_json> read_model_change(Context& context,
                                                        const ExchangePtr& exchange);

/// Has the daemon do an operator's verb; answers its refusal, else goes on with its result.
void change_models(Context& context, const ExchangePtr& exchange, const std::string& verb,
                   const nlohmann::ordered_json& args,
                   std::function<void(std::string result)> then);

/// Registers a further name for the file of the model `from`, with its settings and its profile.
/// `change`, if there is one, alters these arguments of models.add. Goes on once it is there.
void add_name(Context& context, const ExchangePtr& exchange, const std::string& from,
              const std::string& name, std::function<void(nlohmann::ordered_json& args)> change,
              std::function<void()> then);

}  // namespace holdfast::gateway
