#pragma once
// Sampling options of wire::Sampling::extra beyond the plain fields: one JSON object that is stored
// with the request and sent to the worker unchanged. Read at acceptance, so that unsupported
// options are refused, and again by the worker. The names are those of llama-server.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/chat/thinking.h"

namespace holdfast::sampling {

using TokenId = std::int32_t;

/// One step of the sampler chain, in the default order.
enum class Step : std::uint8_t {
  kPenalties,    // repetition, presence, frequency
  kDry,          // penalizes repeated sequences
  kTopNSigma,    // logits within n standard deviations of the greatest
  kTemperature,  // later steps use the probabilities after it
  kTopK,
  kTypical,
  kTopP,
  kMinP,
  kXtc,  // excludes top choices, sometimes
};
/// Returns "penalties", "dry", "top_n_sigma", "temperature", "top_k", "typ_p", "top_p", "min_p",
/// "xtc".
std::string_view step_name(Step step);

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
struct SamplingExtra {
  std::optional<EmbeddingOptions> embedding;
  std::optional<ThinkingBudget> thinking;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::int64_t repeat_last_n = -1;  // tokens that the repetition penalty covers; -1 = all
  float typical_p = 1.0F;           // 1 = off
  float top_n_sigma = -1.0F;        // <= 0: off
  float dry_multiplier = 0.0F;      // 0 = off
  float dry_base = 1.75F;
  std::int64_t dry_allowed_length = 2;
  std::int64_t dry_penalty_last_n = -1;  // -1 = all
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  float xtc_probability = 0.0F;  // 0 = off
  float xtc_threshold = 0.1F;    // above 0.5: off
  std::int32_t mirostat = 0;     // 0 or 2
  float mirostat_tau = 5.0F;
  float mirostat_eta = 0.1F;
  std::vector<std::string> banned_strings;  // never part of the generated text
  std::vector<Step> order;                  // empty: the default order

  /// Returns true if plain sampling (top_k, top_p, min_p after the temperature) is not enough.
  bool needs_sampler_chain() const;
};

/// Parses the options; an empty text has none. Ignores the member "grammar" and null members.
/// kInvalidRequest for bad JSON, types, ranges or ids outside [0, vocab); kUnsupported for an
/// unknown member.
Result<SamplingExtra> parse_extra(std::string_view json, std::int32_t vocab);

}  // namespace holdfast::sampling
