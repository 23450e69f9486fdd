#pragma once
// Samples a token id from a row of logits. A pure function of the row, the parameters, the ids
// before and (seed, choice, index), so a resumed choice samples what the first one would have
// sampled.
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
//  5. a Philox number in [0, 1) selects by cumulated weight, in the total order, or in the order of
//     ids when nothing was cut off.
// As in vLLM, cuts see the probabilities after the temperature. Where a request has one of the
// steps of sampler_chain.h, or another order, the chain does 3 to 5.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/sampling/extra.h"
#include "shared/wire/prompt_scores.h"
#include "worker/engine/dry.h"
#include "worker/engine/engine.h"
#include "worker/engine/ranking.h"
#include "worker/engine/sampler_chain.h"

namespace holdfast::engine {

using sampling::SamplingExtra;

/// The input of the sampler for one token. Pointers are valid during the call.
struct SampleInput {
  const wire::Sampling* sampling = nullptr;
  const SamplingExtra* extra = nullptr;  // may be null
  std::int32_t choice = 0;
  const TokenId* tokens = nullptr;  // prompt, then generated
  std::int64_t prompt_n = 0;
  std::int64_t generated_n = 0;         // = index of the token to sample
  std::span<const std::uint64_t> mask;  // bit i of word i / 64: token i may come; empty: all may
  bool only_end = false;                // the mask leaves nothing but end tokens
  std::span<const TokenId> excluded;    // may not come, in addition to the mask
  std::span<const TokenId> breakers;    // of dry: breaker_tokens()
  float* mirostat_mu = nullptr;         // state of mirostat, begins as first_mu()
  TokenId forced = -1;                  // sampled before: only the state is moved
};

/// The state of mirostat before the first token.
inline float first_mu(const SamplingExtra& extra) {
  return 2 * extra.mirostat_tau;
}

/// Samples tokens of one vocabulary. Takes its memory once. Not thread-safe.
class Sampler {
 public:
  Sampler(std::int32_t vocab, std::vector<TokenId> end_ids);
  /// Samples a token; nullopt if a logit is NaN or infinite. If all is excluded: an end token where
  /// the model has one (a text that may not go on), else nullopt. Where the row's maxima are known,
  /// only some of its logits are looked at, unless all of them have a share in the token.
  std::optional<TokenId> sample(const LogitRow& row, const SampleInput& input);
  /// True if sample() would take the lowest id with the greatest logit of the row as it is,
  /// whatever the row, from the token of index `generated_n` on; nothing of it is masked or
  /// excluded.
  bool takes_greatest(const wire::Sampling& sampling, const SamplingExtra* extra,
                      std::int64_t generated_n) const;
  /// The number of first ids of the total order that sample() would look at, whatever the row, from
  /// the token of index `generated_n` on; 0: at others too, or it takes_greatest().
  std::int32_t candidate_count(const wire::Sampling& sampling, const SamplingExtra* extra,
                               std::int64_t generated_n) const;
  /// Does what sample() does with a row of which these are the first candidate_count(), in the
  /// total order.
  TokenId sample_candidates(std::span<const Candidate> first, const SampleInput& input);
  /// Returns {"logprob":x,"top":[[id,lp],…]} of the unmodified logits (natural logarithm), `top` in
  /// the total order. The logits must be finite.
  std::string logprobs_json(const LogitRow& row, TokenId id, std::int32_t top);
  /// Adds what a row of finite logits says of the token that came next: as logprobs_json, with its
  /// rank in the total order and the first scores.top of that.
  void score(const LogitRow& row, TokenId id, wire::PromptScores& scores);
  /// Returns log sum e^logit of a row of finite logits.
  double log_sum_exp(const LogitRow& row);

 private:
  bool takes_as_is(const wire::Sampling& sampling, const SamplingExtra* extra,
                   std::int64_t generated_n) const;
  LogitRow with_maxima(const LogitRow& row);
  bool may_not_end(const SampleInput& input) const;
  LogitRow adjust(const LogitRow& row, const SampleInput& input);
  float& adjusted(TokenId id);
  void renew_maxima();
  void exclude(std::span<const std::uint64_t> mask);
  void penalise(const SampleInput& input);
  std::size_t cut(const LogitRow& row, float max, const wire::Sampling& s);
  std::optional<std::size_t> cut_candidates(float max, const wire::Sampling& s, double all);
  TokenId draw_all(const LogitRow& row, float max, float temperature, double unit);
  std::optional<TokenId> draw_near(double target, double all) const;
  TokenId draw_candidates(std::size_t n, double unit) const;
  static constexpr std::int32_t kSumIds = 1024;
  double weigh_all(const LogitRow& row, float max, float temperature);

  std::int32_t vocab_;
  std::int32_t blocks_;  // of a LogitRow
  std::vector<TokenId> end_ids_;
  std::vector<float> maxima_;           // [blocks], of a row that came without
  std::vector<float> adjusted_;         // [vocab]
  std::vector<float> adjusted_maxima_;  // [blocks]
  std::vector<std::uint8_t> stale_;     // [blocks]: of adjusted_maxima_; zero between calls
  std::vector<float> weights_;          // [vocab] by id
  std::vector<double> weight_sums_;     // of weights_, kSumIds each
  std::vector<Candidate> candidates_;   // capacity vocab
  std::vector<float> ranked_weights_;   // of candidates_; capacity vocab
  std::vector<std::int32_t> counts_;    // [vocab], zero between calls
  Ranking ranking_;
  SamplerChain sampler_chain_;
  Dry dry_;
};

}  // namespace holdfast::engine
