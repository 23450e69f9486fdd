#pragma once
// The sampling fields that become wire::Sampling::extra.

#include <string>

#include "control/gateway/json_fields.h"

namespace holdfast::gateway {

/// Reads the fields of docs/use/sampling.md that have no member of their own. `grammar_extra` is
/// the extra that the grammar made, or empty. Returns the extra, empty if no field is set. Token
/// ids are checked later, where the vocabulary is known; logit_bias may have `bias_ids_max` of
/// them.
std::string read_sampling_extra(Fields& fields, const std::string& grammar_extra,
                                std::size_t bias_ids_max);

}  // namespace holdfast::gateway
