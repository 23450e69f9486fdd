#pragma once
// A POST that generates: its body is parsed, submitted and shown.

#include <functional>
#include <memory>

#include "control/gateway/common/context.h"
#include "control/gateway/common/params.h"
#include "control/gateway/common/render.h"

namespace holdfast::gateway {

/// Parses a body into what is submitted, as the functions of params.h do.
using ParseBody = bool (*)(const nlohmann::ordered_json&, const ParamLimits&, Generation*,
                           FieldError*);
/// Makes the document in which an accepted request is shown.
using MakeWhole = std::function<std::shared_ptr<WholeAnswer>(const wire::RequestInfo&)>;

/// Answers a POST: checks headers and body, submits the request or finds the one that the same POST
/// made before, and shows it. `whole`: a document other than that of the request's shape.
void post_generation(Context& context, const ExchangePtr& exchange, ParseBody parse,
                     MakeWhole whole = {});

}  // namespace holdfast::gateway
