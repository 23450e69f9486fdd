#pragma once
// What wire::Sampling::extra asks for beyond the plain fields: one JSON object that is stored with
// the request and goes to the worker as it is. Read at acceptance, so that what cannot be honoured
// is refused, and again by the worker. Names are those of llama-server.

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

/// One step of the sampler, in the order in which they are done by default.
enum class Step : std::uint8_t {
  kPenalties,    // repetition, presence, frequency
  kDry,          // do not repeat long sequences
  kTopNSigma,    // logits within n standard deviations of the greatest
  kTemperature,  // later steps see the probabilities after it
  kTopK,
  kTypical,
  kTopP,
  kMinP,
  kXtc,  // exclude top choices, sometimes
};
/// "penalties", "dry", "top_n_sigma", "temperature", "top_k", "typ_p", "top_p", "min_p", "xtc".
std::string_view step_name(Step step);

/// The vector of the prompt is wanted instead of text (shared/wire/vector_text.h).
struct EmbeddingWish {
  std::string pooling;    // "mean", "cls", "last"; empty: what the model's file names
  bool normalize = true;  // to length 1
};

/// How long the model may reason.
struct ThinkingBudget {
  std::int64_t tokens = 0;
  bool open = false;  // the prompt has begun it
  chat::ThinkingMarks marks;
};

struct SamplingExtra {
  std::optional<EmbeddingWish> embedding;
  std::optional<ThinkingBudget> thinking;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::int64_t repeat_last_n = -1;  // tokens that the repetition penalty looks back at; -1 = all
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
  std::vector<std::string> banned_strings;  // the generated text never has one of them
  std::vector<Step> order;                  // empty: the default order

  /// Whether plain sampling (top_k, top_p, min_p after the temperature) is not enough.
  bool needs_chain() const;
};

/// Empty text is no extra. Members "grammar" and null ones are left alone. kInvalidRequest for bad
/// JSON, types, ranges or ids outside [0, vocab); kUnsupported for a member that nobody knows.
Result<SamplingExtra> parse_extra(std::string_view json, std::int32_t vocab);

}  // namespace holdfast::sampling
