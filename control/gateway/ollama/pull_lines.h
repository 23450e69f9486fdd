#pragma once
// Ollama's lines about a pull, until its end.

#include <string>
#include <vector>

#include "control/gateway/common/context.h"

namespace holdfast::gateway {

/// Tells of the pull of `name` on the exchange: with `stream` a line of JSON for every change,
/// after those of `notes`; else one document at its end. The pull goes on when the client leaves.
void tell_of_pull(Context& context, const ExchangePtr& exchange, const std::string& name,
                  bool stream, const std::vector<std::string>& notes = {});

}  // namespace holdfast::gateway
