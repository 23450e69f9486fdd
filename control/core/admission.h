#pragma once
// Whether a request may enter: pure arithmetic over numbers, each refusal with the figures that
// would help.

#include <cstdint>
#include <optional>
#include <vector>

#include "control/core/census.h"
#include "control/core/config.h"
#include "control/core/rows.h"

namespace holdfast::core {

/// Bound of Sampling::extra: a gateway's body and as much again.
inline constexpr std::size_t kExtraBytesMax = 2 << 20;

/// A number of the configuration with its name, for the refusal to say. 0 = no bound.
struct NamedBound {
  std::int64_t value = 0;
  std::string name;
};
/// The tightest that the whole, the tenant and the model set for one request.
struct TokenBounds {
  NamedBound prompt;  // tokens of each prompt
  NamedBound output;  // max_tokens
  NamedBound pages;   // KV pages of each choice
};
TokenBounds token_bounds(const Config& config, const std::string& tenant, const std::string& model);

/// prompt + max_tokens of every prompt must fit the context, the page pool and the bounds alone.
/// `max_tokens` absent: what these leave. On success the resolved max_tokens.
struct ContextVerdict {
  std::optional<wire::Refusal>
      refusal;  // kContextExceeded: needed, largest = prompt + tokens that fit
  std::int64_t max_tokens = 0;
};
ContextVerdict admit_context(const std::vector<std::int64_t>& prompt_tokens,
                             std::optional<std::int64_t> max_tokens, std::int64_t context,
                             std::int64_t pool_tokens, const TokenBounds& bounds = {});

/// Bytes of the log-probabilities of a prompt with so many alternatives of each token, before they
/// are made text (shared/wire/prompt_scores.h).
constexpr std::int64_t prompt_score_bytes(std::int64_t tokens, std::int32_t top) {
  return tokens * (12 + 8 * std::int64_t{top});
}
/// kInvalidRequest if the log-probabilities of its prompts are more bytes than a request may have.
std::optional<wire::Refusal> check_scores(const wire::Submit& submit,
                                          const std::vector<std::int64_t>& prompt_tokens,
                                          const Config& config);

/// How much there may be at once of one subject. 0 = no bound.
struct Bounds {
  std::int64_t requests = 0;
  std::int64_t waiting = 0;
  std::int64_t bytes = 0;
};
Bounds bounds_of(const SubjectConfig& subject);
/// kQueueFull if one more request with so many bytes is more than `bounds` has room for beside
/// `now`. `whose` is for people; `knobs` is what the names of the bounds begin with.
std::optional<wire::Refusal> check_full(const std::string& whose, const std::string& knobs,
                                        const Bounds& bounds, const Tally& now, std::int64_t bytes);
/// `needed` of something of which `bound` are allowed: "WHAT; NAME is BOUND", and the numbers.
wire::Refusal refuse_over(Errc code, const std::string& what, const std::string& name,
                          std::int64_t needed, std::int64_t bound);

/// Bytes of prompts and meta.
std::int64_t payload_bytes(const wire::Submit& submit);
/// The part of payload_bytes() that stands beside the prompts.
std::int64_t text_bytes(const std::string& meta, const wire::Sampling& sampling,
                        const std::vector<std::string>& stops);

/// Fields of the message alone (counts, ranges, lengths). kInvalidRequest says which and what was
/// expected.
std::optional<wire::Refusal> check_submit(const wire::Submit& submit, const Config& config);

wire::Refusal refuse(Errc code, std::string message);

}  // namespace holdfast::core
