#pragma once
// What the text of an answer must look like. Servers have many names for it; each of them is read
// here, so that no such wish is left out in silence.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/body_budget.h"
#include "control/gateway/json_fields.h"
#include "shared/grammar/request.h"

namespace holdfast::gateway {

/// The one wish of a body, nullopt if it has none or a wrong one. Two that differ are an error that
/// names both. What is only a hint to other servers is named in `ignored`.
std::optional<grammar::GrammarRequest> read_format(Fields& fields, BodyBudget& budget,
                                                   std::vector<std::string>* ignored);

}  // namespace holdfast::gateway
