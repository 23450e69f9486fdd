#include "worker/engine/stop_condition.h"

#include <algorithm>

#include "shared/plan/plan.h"
#include "shared/sampling/parameters.h"

namespace holdfast::engine {

namespace {

Error refuse(Errc code, const SequenceSpec& spec, const std::string& cause) {
  return {code, "add sequence " + std::to_string(spec.key) + ": " + cause};
}

Result<void> check_ids(const SequenceSpec& spec, const std::vector<TokenId>& ids,
                       std::int32_t vocab, const char* what) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return refuse(Errc::kInvalidRequest, spec,
                  std::string(what) + " token " + std::to_string(i) + " is " +
                      std::to_string(ids[i]) + "; expected 0 to " + std::to_string(vocab - 1));
  }
  return {};
}

Result<void> check_numbers(const SequenceSpec& spec) {
  const auto bad = [&](const std::string& cause) {
    return refuse(Errc::kInvalidRequest, spec, cause);
  };
  if (const auto wrong = sampling::check(spec.sampling)) return bad(*wrong);
  if (spec.max_tokens < 0) return bad("max_tokens out of range; expected 0 or more");
  if (spec.choice < 0) return bad("choice out of range; expected 0 or more");
  return {};
}

}  // namespace

StopCondition::StopCondition(const Vocabulary* vocabulary, std::vector<std::string> stops,
                             std::int64_t total_max, bool ignore_eos)
    : vocabulary_(vocabulary),
      has_stops_(!stops.empty()),
      ignore_eos_(ignore_eos),
      total_max_(total_max) {
  if (has_stops_) releaser_ = text::Releaser(std::move(stops));
}

wire::FinishReason StopCondition::start() const {
  return total_max_ <= 0 ? wire::FinishReason::kLength : wire::FinishReason::kNone;
}

wire::FinishReason StopCondition::feed(TokenId id) {
  ++count_;
  if (!ignore_eos_ && vocabulary_->is_end(id)) return wire::FinishReason::kStop;
  if (has_stops_) {
    releaser_.feed(vocabulary_->tokenizer->token_bytes(id));
    if (releaser_.stopped()) return wire::FinishReason::kStop;
  }
  return count_ >= total_max_ ? wire::FinishReason::kLength : wire::FinishReason::kNone;
}

std::int32_t pages_for(std::int64_t n) {
  return static_cast<std::int32_t>((n + plan::kPageTokens - 1) / plan::kPageTokens);
}

bool wants_scores(const SequenceSpec& spec) {
  return spec.sampling.prompt_logprobs >= 0 && spec.committed.empty();
}

bool is_prefill_heavy(const SequenceSpec& spec, std::int64_t prefill_heavy_ratio) {
  if (prefill_heavy_ratio == 0) return false;
  const auto n = static_cast<std::int64_t>(spec.prompt.size());
  const bool scored = spec.sampling.prompt_logprobs >= 0;
  return !scored && n >= kPrefillHeavyPromptMin && n / prefill_heavy_ratio >= spec.max_tokens;
}

std::int64_t generated_max(const SequenceSpec& spec, std::int64_t context) {
  return std::min(spec.max_tokens, context - static_cast<std::int64_t>(spec.prompt.size()));
}

Result<void> check_spec(const SequenceSpec& spec, const Vocabulary& vocabulary, std::int32_t vocab,
                        std::int64_t context, std::int32_t pages_total) {
  HOLDFAST_CHECKED(check_numbers(spec));
  if (spec.prompt.empty()) {
    return refuse(Errc::kInvalidRequest, spec, "the prompt has no token; expected at least one");
  }
  HOLDFAST_CHECKED(check_ids(spec, spec.prompt, vocab, "prompt"));
  HOLDFAST_CHECKED(check_ids(spec, spec.committed, vocab, "committed"));
  if (!spec.stops.empty() && !vocabulary.tokenizer) {
    return refuse(Errc::kUnsupported, spec, "stop strings need a model file with a tokenizer");
  }
  const auto prompt = static_cast<std::int64_t>(spec.prompt.size());
  if (prompt > context || (prompt == context && spec.max_tokens > 0)) {
    return refuse(Errc::kContextExceeded, spec,
                  "prompt of " + std::to_string(prompt) +
                      " tokens leaves no room in a context of " + std::to_string(context));
  }
  const std::int64_t most = std::max<std::int64_t>(generated_max(spec, context), 0);
  if (static_cast<std::int64_t>(spec.committed.size()) > most) {
    return refuse(Errc::kInvalidRequest, spec,
                  std::to_string(spec.committed.size()) + " committed tokens; expected at most " +
                      std::to_string(most));
  }
  // The last token of a choice is never fed back, so it needs no KV row.
  const std::int64_t computed = most > 0 ? prompt + most - 1 : wants_scores(spec) ? prompt : 0;
  const std::int32_t needed = pages_for(computed);
  if (needed > pages_total) {
    return refuse(Errc::kMemoryExhausted, spec,
                  "needs " + std::to_string(needed) + " KV pages, the pool has " +
                      std::to_string(pages_total) + "; lower max_tokens");
  }
  return {};
}

}  // namespace holdfast::engine
