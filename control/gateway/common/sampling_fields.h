#pragma once
// The sampling parameters of a body, by the rows of shared/sampling/parameters.h.

#include <string>
#include <string_view>

#include "shared/base/json_fields.h"
#include "shared/sampling/parameters.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Returns the range of a parameter over HTTP: OpenAI's where its API has the parameter, so that
/// what is an error there is one here, else that of the table. It lies within the table's.
sampling::Range http_range(const sampling::Parameter& parameter);

/// Reads the parameters that are members of wire::Sampling, but for those with a reader of their
/// own.
void read_plain_sampling(Fields& fields, wire::Sampling* sampling);

/// Reads the others, which become wire::Sampling::extra. `grammar_extra` is the extra that the
/// grammar made, or empty. Returns the extra, empty if no field is set. Token ids are checked
/// later, where the vocabulary is known; logit_bias may have `bias_ids_max` of them.
std::string read_sampling_extra(Fields& fields, const std::string& grammar_extra,
                                std::size_t bias_ids_max);

/// Reads a number of alternatives whose log-probabilities are to be told.
bool read_logprobs(Fields& fields, std::string_view name, std::int64_t* out);

}  // namespace holdfast::gateway
