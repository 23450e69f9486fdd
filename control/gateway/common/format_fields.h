#pragma once
// The format that the text of an answer must have. Servers have many names for it; each of them is
// read here, so that no such option is ignored silently.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/http/body_budget.h"
#include "shared/base/json_fields.h"
#include "shared/grammar/request.h"

namespace holdfast::gateway {

/// Returns the format that a body asks for; nullopt if it asks for none or has an error. Two that
/// differ are an error that names both. What is only a hint to other servers is named in `ignored`.
std::optional<grammar::GrammarRequest> read_format(Fields& fields, BodyBudget& budget,
                                                   std::vector<std::string>* ignored);

}  // namespace holdfast::gateway
