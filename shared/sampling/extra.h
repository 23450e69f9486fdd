#pragma once
// Sampling options of wire::Sampling::extra beyond the plain fields: one JSON object that is stored
// with the request and sent to the worker unchanged. Read at acceptance, so that unsupported
// options are refused, and again by the worker. Its members are the rows of kParameters
// (parameters.h) and a few that are not about sampling.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/chat/thinking.h"
#include "shared/sampling/parameters.h"

namespace holdfast::sampling {

/// The request is for the vector of the prompt instead of text (shared/wire/vector_text.h).
struct EmbeddingOptions {
  std::string pooling;    // "mean", "cls", "last"; empty: the model file's default
  bool normalize = true;  // to length 1
};

/// The limit of the model's reasoning.
struct ThinkingBudget {
  std::int64_t tokens = 0;
  bool open = false;  // the prompt has begun the reasoning
  chat::ThinkingMarks marks;
};

/// The parsed options of an `extra`.
struct SamplingExtra : SamplingOptions {
  std::optional<EmbeddingOptions> embedding;
  std::optional<ThinkingBudget> thinking;
};

/// Parses the options; an empty text has none. Ignores the member "grammar" and null members.
/// kInvalidRequest for bad JSON, types, ranges (out_of_range()) or ids outside [0, vocab);
/// kUnsupported for an unknown member.
Result<SamplingExtra> parse_extra(std::string_view json, std::int32_t vocab);

}  // namespace holdfast::sampling
