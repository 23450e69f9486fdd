#pragma once
// From a row of logits to a token id. A pure function of the row, the parameters, the ids before
// and (seed, choice, index), so a resumed choice picks what the first one would have picked.
//
// Order of the steps:
//  0. a mask of allowed tokens (structured output), and ids that would complete a banned text:
//     others are excluded, as if they had no logit;
//  1. logit_bias; repetition penalty (each id of the last repeat_last_n of prompt and generated
//     tokens, once: positive logits are divided by it, negative ones multiplied), then presence and
//     frequency penalties (generated tokens only: -presence - count * frequency), then dry (dry.h);
//  2. end tokens are excluded while fewer than min_tokens are generated (unless the mask leaves
//     nothing else);
//  3. temperature 0: the greatest logit, ties by lowest id; the rest does not apply. A temperature
//     below 1e-6 counts as 0;
//  4. ids in the total order (logit descending, id ascending), weights e^((logit - max) / T):
//     the first top_k; of those the shortest prefix that holds top_p of their weight (at least
//     one); of those the ones with at least min_p of the greatest weight;
//  5. a Philox number in [0, 1) picks by cumulated weight, in the total order, or in the order of
//     ids when nothing was cut off.
// As vLLM does it: cuts see the probabilities after the temperature. Where one of the steps of
// chain.h is asked for, or another order, 3 to 5 are done by it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/sampling/extra.h"
#include "shared/wire/prompt_scores.h"
#include "worker/engine/chain.h"
#include "worker/engine/dry.h"
#include "worker/engine/engine.h"

namespace holdfast::engine {

using sampling::SamplingExtra;

struct SampleInput {
  const wire::Sampling* sampling = nullptr;
  const SamplingExtra* extra = nullptr;  // may be null
  std::int32_t choice = 0;
  const TokenId* tokens = nullptr;  // prompt, then generated
  std::int64_t prompt_n = 0;
  std::int64_t generated_n = 0;         // = index of the token to pick
  std::span<const std::uint64_t> mask;  // bit i of word i / 64: token i may come; empty: all may
  bool only_end = false;                // the mask leaves nothing but end tokens
  std::span<const TokenId> excluded;    // may not come, beside the mask
  std::span<const TokenId> breakers;    // of dry: breaker_tokens()
  float* mirostat_mu = nullptr;         // state of mirostat, begins as first_mu()
  TokenId forced = -1;                  // picked before: only the state is moved
};

/// The state of mirostat before the first token.
inline float first_mu(const SamplingExtra& extra) {
  return 2 * extra.mirostat_tau;
}

/// Takes its memory once, for a vocabulary. Not thread-safe.
class Sampler {
 public:
  Sampler(std::int32_t vocab, std::vector<TokenId> end_ids);
  /// nullopt if a logit is NaN or infinite. If all is excluded: an end token where the model has
  /// one (a text that may not go on), else nullopt.
  std::optional<TokenId> pick(const float* logits, const SampleInput& input);
  /// Whether pick() would take the lowest id with the greatest logit of the row as it is, whatever
  /// the row, from the token of index `generated_n` on; nothing of it is masked or excluded.
  bool takes_greatest(const wire::Sampling& sampling, const SamplingExtra* extra,
                      std::int64_t generated_n) const;
  /// How many of the first ids of the total order pick() would look at, whatever the row, from the
  /// token of index `generated_n` on; 0: at others too, or it takes_greatest().
  std::int32_t candidates_wanted(const wire::Sampling& sampling, const SamplingExtra* extra,
                                 std::int64_t generated_n) const;
  /// pick() of a row of which these are the first candidates_wanted(), in the total order.
  TokenId pick_of(std::span<const Candidate> first, const SampleInput& input);
  /// {"logprob":x,"top":[[id,lp],…]} of the unmodified logits (natural logarithm), `top` in the
  /// total order. Wants finite logits.
  std::string logprobs_json(const float* logits, TokenId id, std::int32_t top);
  /// Adds what a row of finite logits says of the token that came next: as logprobs_json, with its
  /// rank in the total order and the first scores.top of that.
  void score(const float* logits, TokenId id, wire::PromptScores& scores);
  /// log sum e^logit of a row of finite logits.
  double log_sum_exp(const float* logits);

 private:
  bool takes_as_is(const wire::Sampling& sampling, const SamplingExtra* extra,
                   std::int64_t generated_n) const;
  const float* adjust(const float* logits, const SampleInput& input);
  void exclude(std::span<const std::uint64_t> mask);
  void penalise(const SampleInput& input);
  void select(const float* logits, std::int32_t k);
  std::size_t cut_top_p(const float* logits, float max, const wire::Sampling& s);
  std::optional<std::size_t> cut_candidates(float max, const wire::Sampling& s, double all);
  TokenId draw_all(const float* logits, float max, float temperature, double unit);
  TokenId draw_candidates(std::size_t n, double unit) const;
  double weigh_all(const float* logits, float max, float temperature);

  std::int32_t vocab_;
  std::vector<TokenId> end_ids_;
  std::vector<float> adjusted_;        // [vocab]
  std::vector<float> weights_;         // [vocab] by id, or by rank for candidates_
  std::vector<Candidate> candidates_;  // capacity vocab
  std::vector<std::int32_t> counts_;   // [vocab], zero between calls
  Chain chain_;
  Dry dry_;
};

}  // namespace holdfast::engine
