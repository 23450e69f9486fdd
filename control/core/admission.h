#pragma once
// Admission: decides whether a request may enter. Pure arithmetic over numbers; each refusal
// carries the figures that would help.

#include <cstdint>
#include <optional>
#include <vector>

#include "control/core/config.h"
#include "control/core/rows.h"
#include "control/core/usage_tracker.h"

namespace holdfast::core {

/// Largest Sampling::extra in bytes: a gateway's body and as much again.
inline constexpr std::size_t kExtraBytesMax = 2 << 20;

/// A bound with its name in the configuration, for the refusal to tell. 0 = no bound.
struct NamedBound {
  std::int64_t value = 0;
  std::string name;
};
/// The tightest bounds on one request among those for all, for the tenant and for the model.
struct TokenBounds {
  NamedBound prompt;  // tokens of each prompt
  NamedBound output;  // max_tokens
  NamedBound pages;   // KV pages of each choice
};

/// Returns the bounds that hold for a tenant and a model together: of each kind the tighter one,
/// with the name of the knob that sets it.
TokenBounds token_bounds(const Config& config, const std::string& tenant, const std::string& model);

/// The answer of admit_context().
struct ContextVerdict {
  std::optional<wire::Refusal>
      refusal;  // kContextExceeded: needed, largest = prompt + tokens that fit
  std::int64_t max_tokens = 0;
};
/// Checks each prompt by itself: prompt + max_tokens must fit the context, the page pool (both in
/// tokens) and the bounds. Without `max_tokens` a choice gets what these leave. On success the
/// verdict holds the resolved max_tokens.
ContextVerdict admit_context(const std::vector<std::int64_t>& prompt_tokens,
                             std::optional<std::int64_t> max_tokens, std::int64_t context,
                             std::int64_t pool_tokens, const TokenBounds& bounds = {});

/// Bytes of the log-probabilities of a prompt, with `top` alternatives of each token, before they
/// are made text (shared/wire/prompt_scores.h).
constexpr std::int64_t prompt_score_bytes(std::int64_t tokens, std::int32_t top) {
  return tokens * (12 + 8 * std::int64_t{top});
}
/// Returns kInvalidRequest if the log-probabilities of the prompts are more bytes than a request
/// may have.
std::optional<wire::Refusal> check_scores(const wire::Submit& submit,
                                          const std::vector<std::int64_t>& prompt_tokens,
                                          const Config& config);

/// Bounds on how much one subject may have at once. 0 = no bound.
struct Bounds {
  std::int64_t requests = 0;
  std::int64_t waiting = 0;
  std::int64_t bytes = 0;
};

/// Returns the bounds of requests, waiting ones and bytes that the knobs of a tenant or model set.
Bounds bounds_of(const SubjectConfig& subject);
/// Returns kQueueFull if one more request of `bytes` bytes exceeds `bounds` on top of `now`.
/// `whose` is for people; `knobs` is the prefix of the bounds' names.
std::optional<wire::Refusal> check_full(const std::string& whose, const std::string& knobs,
                                        const Bounds& bounds, const UsageCounters& now,
                                        std::int64_t bytes);
/// Makes the refusal of `needed` of something of which `bound` are allowed: "WHAT; NAME is BOUND",
/// and both numbers.
wire::Refusal refuse_over(Errc code, const std::string& what, const std::string& name,
                          std::int64_t needed, std::int64_t bound);

/// Bytes of prompts, meta, sampling extra and stop sequences.
std::int64_t payload_bytes(const wire::Submit& submit);
/// The part of payload_bytes() without the prompts.
std::int64_t text_bytes(const std::string& meta, const wire::Sampling& sampling,
                        const std::vector<std::string>& stops);

/// Checks the fields of the message by themselves (counts, ranges, lengths). kInvalidRequest says
/// which field and what was expected.
std::optional<wire::Refusal> check_submit(const wire::Submit& submit, const Config& config);

/// Returns a refusal without further fields.
wire::Refusal refuse(Errc code, std::string message);

}  // namespace holdfast::core
