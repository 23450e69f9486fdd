#include "control/core/admission.h"

#include <algorithm>
#include <cmath>

#include "shared/base/bytes.h"

namespace holdfast::core {
namespace {

bool good_id(std::string_view id) {
  return id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

std::optional<std::string> check_sampling(const wire::Sampling& s) {
  const auto in = [](float v, float low, float high) {
    return std::isfinite(v) && v >= low && v <= high;
  };
  if (!in(s.temperature, 0, 100)) return "temperature: expected 0 to 100";
  if (s.top_k < 0) return "top_k: expected 0 or more";
  if (!in(s.top_p, 0, 1)) return "top_p: expected 0 to 1";
  if (!in(s.min_p, 0, 1)) return "min_p: expected 0 to 1";
  if (s.min_tokens < 0) return "min_tokens: expected 0 or more";
  if (s.logprobs < -1 || s.logprobs > 64) return "logprobs: expected -1 to 64";
  if (!in(s.repetition_penalty, 0.0001f, 100))
    return "repetition_penalty: expected above 0, to 100";
  if (!in(s.presence_penalty, -100, 100)) return "presence_penalty: expected -100 to 100";
  if (!in(s.frequency_penalty, -100, 100)) return "frequency_penalty: expected -100 to 100";
  if (s.extra.size() > 262'144) return "sampling extra: expected at most 262144 bytes";
  return std::nullopt;
}

std::optional<std::string> check_prompts(const wire::Submit& submit, const Config& config) {
  if (submit.prompts.empty()) return "prompts: expected at least one";
  const auto prompts = static_cast<std::int64_t>(submit.prompts.size());
  if (prompts > config.request_prompts_max) {
    return "prompts: expected at most " + std::to_string(config.request_prompts_max);
  }
  if (submit.n < 1 || submit.n > config.request_choices_max / prompts) {
    return "n: expected 1 to " + std::to_string(config.request_choices_max / prompts);
  }
  for (const wire::Prompt& prompt : submit.prompts) {
    const int given = (prompt.text ? 1 : 0) + (prompt.ids ? 1 : 0) + (prompt.messages_json ? 1 : 0);
    if (given != 1) return "prompt: expected exactly one of text, ids, messages";
    if (prompt.ids && prompt.ids->empty()) return "prompt ids: expected at least one token";
  }
  return std::nullopt;
}

}  // namespace

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
  if (!good_id(submit.request_id)) {
    return invalid("request_id: expected at most 64 characters of A-Z a-z 0-9 - _");
  }
  if (submit.tenant.size() > 128) return invalid("tenant: expected at most 128 bytes");
  if (submit.idem_key.size() > 256) return invalid("idempotency key: expected at most 256 bytes");
  if (submit.model.empty()) return invalid("model: expected a name");
  if (const auto why = check_prompts(submit, config)) return invalid(*why);
  if (submit.max_tokens && (*submit.max_tokens < 0 || *submit.max_tokens > 1'000'000'000)) {
    return invalid("max_tokens: expected 0 or more");
  }
  if (submit.stops.size() > 64) return invalid("stop: expected at most 64 strings");
  for (const std::string& stop : submit.stops) {
    if (stop.empty() || stop.size() > 1024) return invalid("stop: expected 1 to 1024 bytes each");
  }
  if (const auto why = check_sampling(submit.sampling)) return invalid(*why);
  if (submit.queue_timeout_ms < 0 || submit.total_timeout_ms < 0) {
    return invalid("timeouts: expected 0 (none) or more milliseconds");
  }
  if (submit.priority > PriorityClass::kBatch) return invalid("priority: expected 0, 1 or 2");
  if (static_cast<std::int64_t>(submit.meta.size()) > config.request_meta_bytes_max) {
    return invalid("meta: expected at most " + std::to_string(config.request_meta_bytes_max) +
                   " bytes");
  }
  return std::nullopt;
}

ContextVerdict admit_context(const std::vector<std::int64_t>& prompt_tokens,
                             std::optional<std::int64_t> max_tokens, std::int64_t context,
                             std::int64_t pool_tokens) {
  const std::int64_t room = std::min(context, pool_tokens);
  const std::int64_t longest =
      prompt_tokens.empty() ? 0 : *std::max_element(prompt_tokens.begin(), prompt_tokens.end());
  const std::int64_t wanted = max_tokens.value_or(1);
  ContextVerdict verdict;
  if (longest + wanted > room) {
    verdict.refusal =
        refuse(Errc::kContextExceeded,
               "prompt of " + std::to_string(longest) + " tokens + " +
                   (max_tokens ? "max_tokens " + std::to_string(wanted) : std::string("1 token")) +
                   " = " + std::to_string(longest + wanted) + " do not fit the context of " +
                   std::to_string(room) + " tokens; at most " +
                   std::to_string(std::max<std::int64_t>(room - longest, 0)) +
                   " can be generated after this prompt");
    verdict.refusal->needed = longest + wanted;
    verdict.refusal->largest = room;
    verdict.refusal->free = std::max<std::int64_t>(room - longest, 0);
    return verdict;
  }
  verdict.max_tokens = max_tokens.value_or(room - longest);
  return verdict;
}

}  // namespace holdfast::core
