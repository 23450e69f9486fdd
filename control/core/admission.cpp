#include "control/core/admission.h"

#include <algorithm>

#include "control/core/workers.h"
#include "shared/base/bytes.h"
#include "shared/sampling/parameters.h"
#include "shared/wire/bounds.h"

namespace holdfast::core {
namespace {

bool good_id(std::string_view id) {
  return id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

std::optional<std::string> check_sampling(const wire::Sampling& s) {
  if (auto wrong = sampling::check(s)) return wrong;
  // The grammar of a required tool call holds all tools, as a text in a text.
  if (s.extra.size() > kExtraBytesMax) {
    return "sampling extra: expected at most " + std::to_string(kExtraBytesMax) + " bytes";
  }
  return std::nullopt;
}

std::optional<std::string> check_prompts(const wire::Submit& submit) {
  if (submit.prompts.empty()) return "prompts: expected at least one";
  if (submit.n < 1) return "n: expected at least 1";
  for (const wire::Prompt& prompt : submit.prompts) {
    const int given = (prompt.text ? 1 : 0) + (prompt.ids ? 1 : 0) + (prompt.messages_json ? 1 : 0);
    if (given != 1) return "prompt: expected exactly one of text, ids, messages";
    if (prompt.ids && prompt.ids->empty()) return "prompt ids: expected at least one token";
  }
  return std::nullopt;
}

void tighten(NamedBound& bound, std::int64_t value, const std::string& name) {
  if (value > 0 && (bound.value == 0 || value < bound.value)) bound = {value, name};
}

void tighten(TokenBounds& bounds, const SubjectConfig& subject, const std::string& of) {
  tighten(bounds.prompt, subject.max_prompt_tokens, of + ".max_prompt_tokens");
  tighten(bounds.output, subject.max_output_tokens, of + ".max_output_tokens");
  tighten(bounds.pages, subject.max_pages, of + ".max_pages");
}

/// Refuses what is over the bounds on one request, but for those on its tokens, which are not known
/// yet.
std::optional<wire::Refusal> check_counts(const wire::Submit& submit, const Config& config) {
  const auto over = [](const char* what, const char* name, std::int64_t needed,
                       std::int64_t bound) {
    return refuse_over(Errc::kInvalidRequest, std::to_string(needed) + " " + what, name, needed,
                       bound);
  };
  const auto prompts = static_cast<std::int64_t>(submit.prompts.size());
  if (prompts > config.request_max_prompts) {
    return over("prompts", "request.max_prompts", prompts, config.request_max_prompts);
  }
  const std::int64_t choices = prompts * submit.n;
  if (choices > config.request_max_choices) {
    return over("choices (prompts x n)", "request.max_choices", choices,
                config.request_max_choices);
  }
  const auto meta = static_cast<std::int64_t>(submit.meta.size());
  if (meta > config.request_max_meta_bytes) {
    return over("bytes of meta", "request.max_meta_bytes", meta, config.request_max_meta_bytes);
  }
  const std::int64_t bytes = payload_bytes(submit);
  if (config.request_max_bytes > 0 && bytes > config.request_max_bytes) {
    return over("bytes of prompts and meta", "request.max_bytes", bytes, config.request_max_bytes);
  }
  return std::nullopt;
}

/// Checks ids and names. Returns what is wrong.
std::optional<std::string> check_names(const wire::Submit& submit) {
  if (!good_id(submit.request_id)) {
    return "request_id: expected at most 64 characters of A-Z a-z 0-9 - _";
  }
  if (submit.tenant.size() > 128) return "tenant: expected at most 128 bytes";
  if (submit.api_key.size() > 128) return "api_key: expected at most 128 bytes";
  if (submit.idem_key.size() > 256) return "idempotency key: expected at most 256 bytes";
  if (submit.model.empty()) return "model: expected a name";
  return std::nullopt;
}

std::optional<std::string> check_max_tokens(const wire::Submit& submit) {
  const std::int64_t tokens = submit.max_tokens.value_or(0);
  if (tokens >= 0 && tokens <= wire::kMaxTokens.high) return std::nullopt;
  return "max_tokens is " + std::to_string(tokens) + "; expected 0 to " +
         std::to_string(wire::kMaxTokens.high);
}

std::optional<std::string> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > 64) return "stop: expected at most 64 strings";
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > 1024) return "stop: expected 1 to 1024 bytes each";
  }
  return std::nullopt;
}

}  // namespace

std::optional<wire::Refusal> check_scores(const wire::Submit& submit,
                                          const std::vector<std::int64_t>& prompt_tokens,
                                          const Config& config) {
  const std::int32_t top = submit.sampling.prompt_logprobs;
  if (top < 0) return std::nullopt;
  std::int64_t bytes = 0;
  for (const std::int64_t tokens : prompt_tokens) {
    bytes += submit.n * prompt_score_bytes(tokens, top);
  }
  if (bytes <= config.request_max_score_bytes) return std::nullopt;
  return refuse_over(Errc::kInvalidRequest,
                     std::to_string(bytes) + " bytes of log-probabilities of the prompt",
                     "request.max_score_bytes", bytes, config.request_max_score_bytes);
}

std::int64_t text_bytes(const std::string& meta, const wire::Sampling& sampling,
                        const std::vector<std::string>& stops) {
  std::size_t bytes = meta.size() + sampling.extra.size();
  for (const std::string& stop : stops) bytes += stop.size();
  return static_cast<std::int64_t>(bytes);
}

std::int64_t payload_bytes(const wire::Submit& submit) {
  std::size_t bytes = 0;
  for (const wire::Prompt& prompt : submit.prompts) {
    if (prompt.text) bytes += prompt.text->size();
    if (prompt.messages_json) bytes += prompt.messages_json->size();
    if (prompt.ids) bytes += prompt.ids->size() * sizeof(TokenId);
  }
  return static_cast<std::int64_t>(bytes) + text_bytes(submit.meta, submit.sampling, submit.stops);
}

wire::Refusal refuse_over(Errc code, const std::string& what, const std::string& name,
                          std::int64_t needed, std::int64_t bound) {
  wire::Refusal refusal = refuse(code, what + "; " + name + " is " + std::to_string(bound));
  refusal.needed = needed;
  refusal.largest = bound;
  return refusal;
}

Bounds bounds_of(const SubjectConfig& subject) {
  return {subject.max_requests, subject.max_waiting, subject.max_bytes};
}

std::optional<wire::Refusal> check_full(const std::string& whose, const std::string& knobs,
                                        const Bounds& bounds, const UsageCounters& now,
                                        std::int64_t bytes) {
  const auto over = [&](std::int64_t have, std::int64_t more, std::int64_t bound, const char* knob,
                        const char* what) -> std::optional<wire::Refusal> {
    if (bound == 0 || have + more <= bound) return std::nullopt;
    wire::Refusal refusal =
        refuse_over(Errc::kQueueFull, whose + " has " + std::to_string(have) + " " + what,
                    knobs + "." + knob, have + more, bound);
    refusal.free = std::max<std::int64_t>(bound - have, 0);
    return refusal;
  };
  if (auto full = over(now.requests, 1, bounds.requests, "max_requests", "requests")) return full;
  if (auto full = over(now.waiting, 1, bounds.waiting, "max_waiting", "waiting requests")) {
    return full;
  }
  return over(now.bytes, bytes, bounds.bytes, "max_bytes", "bytes of prompts");
}

TokenBounds token_bounds(const Config& config, const std::string& tenant,
                         const std::string& model) {
  TokenBounds bounds;
  tighten(bounds.prompt, config.request_max_prompt_tokens, "request.max_prompt_tokens");
  tighten(bounds.output, config.request_max_output_tokens, "request.max_output_tokens");
  tighten(bounds.pages, config.queue_max_pages, "queue.max_pages");
  tighten(bounds, config.tenant(tenant), "tenant." + tenant);
  tighten(bounds, config.model(model), "model." + model);
  return bounds;
}

wire::Refusal refuse(Errc code, std::string message) {
  wire::Refusal refusal;
  refusal.code = code;
  refusal.message = std::move(message);
  return refusal;
}

std::optional<wire::Refusal> check_submit(const wire::Submit& submit, const Config& config) {
  const auto invalid = [](std::string why) {
    return refuse(Errc::kInvalidRequest, std::move(why));
  };
  if (const auto why = check_names(submit)) return invalid(*why);
  if (const auto why = check_prompts(submit)) return invalid(*why);
  if (const auto why = check_max_tokens(submit)) return invalid(*why);
  if (const auto why = check_stops(submit.stops)) return invalid(*why);
  if (const auto why = check_sampling(submit.sampling)) return invalid(*why);
  if (submit.queue_timeout_ms < 0 || submit.total_timeout_ms < 0) {
    return invalid("timeouts: expected 0 (none) or more milliseconds");
  }
  if (submit.priority > PriorityClass::kBatch) return invalid("priority: expected 0, 1 or 2");
  return check_counts(submit, config);
}

ContextVerdict admit_context(const std::vector<std::int64_t>& prompt_tokens,
                             std::optional<std::int64_t> max_tokens, std::int64_t context,
                             std::int64_t pool_tokens, const TokenBounds& bounds) {
  const auto at = std::max_element(prompt_tokens.begin(), prompt_tokens.end());
  const std::int64_t longest = prompt_tokens.empty() ? 0 : *at;
  std::string which = "prompt";
  if (prompt_tokens.size() > 1) which += "[" + std::to_string(at - prompt_tokens.begin()) + "]";
  ContextVerdict verdict;
  const auto over = [&](const char* what, const NamedBound& bound, std::int64_t needed) {
    verdict.refusal = refuse_over(Errc::kContextExceeded, what + std::to_string(needed), bound.name,
                                  needed, bound.value);
    return verdict;
  };
  if (bounds.prompt.value > 0 && longest > bounds.prompt.value) {
    return over("tokens of the prompt: ", bounds.prompt, longest);
  }
  if (bounds.output.value > 0 && max_tokens.value_or(0) > bounds.output.value) {
    return over("max_tokens: ", bounds.output, *max_tokens);
  }
  const std::int64_t output_tokens = max_tokens.value_or(1);
  std::int64_t token_limit = std::min(context, pool_tokens);
  if (longest + output_tokens > token_limit) {
    verdict.refusal = refuse(
        Errc::kContextExceeded,
        which + " of " + std::to_string(longest) + " tokens + " +
            (max_tokens ? "max_tokens " + std::to_string(output_tokens) : std::string("1 token")) +
            " = " + std::to_string(longest + output_tokens) + " do not fit the context of " +
            std::to_string(token_limit) + " tokens; at most " +
            std::to_string(std::max<std::int64_t>(token_limit - longest, 0)) +
            " can be generated after this prompt");
    verdict.refusal->needed = longest + output_tokens;
    verdict.refusal->largest = token_limit;
    verdict.refusal->free = std::max<std::int64_t>(token_limit - longest, 0);
    return verdict;
  }
  if (bounds.pages.value > 0) {
    const std::int64_t pages = pages_for(longest + output_tokens, kPageTokens);
    if (pages > bounds.pages.value) return over("KV pages of a choice: ", bounds.pages, pages);
    token_limit = std::min(token_limit, bounds.pages.value * kPageTokens);
  }
  verdict.max_tokens = max_tokens.value_or(token_limit - longest);
  if (bounds.output.value > 0)
    verdict.max_tokens = std::min(verdict.max_tokens, bounds.output.value);
  return verdict;
}

}  // namespace holdfast::core
