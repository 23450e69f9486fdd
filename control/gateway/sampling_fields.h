#pragma once
// The sampling fields that go into wire::Sampling::extra.

#include <string>

#include "control/gateway/json_fields.h"

namespace holdfast::gateway {

/// Reads the fields of docs/sampling.md that are no plain ones; `grammar_extra` is what the grammar
/// has put there already (an extra, or empty). Returns the extra, empty if nothing was asked for.
/// Token ids are checked later, by who knows the vocabulary; there may be `bias_ids_max` of them.
std::string read_sampling_extra(Fields& fields, const std::string& grammar_extra,
                                std::size_t bias_ids_max);

}  // namespace holdfast::gateway
