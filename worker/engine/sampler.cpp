#include "worker/engine/sampler.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "worker/engine/philox.h"
#include "worker/engine/row_passes.h"
#include "worker/model/exact_math.h"

namespace holdfast::engine {

namespace {

constexpr float kGreedyBelow = 1e-6f;
constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// True if the order of steps has this one.
bool has_step(const SamplingExtra* extra, sampling::Step step) {
  return extra == nullptr || extra->order.empty() ||
         std::find(extra->order.begin(), extra->order.end(), step) != extra->order.end();
}

// Changes of a row that come before sampling.
bool has_bias(const SamplingExtra* extra) {
  return extra != nullptr && !extra->logit_bias.empty();
}
bool has_penalties(const wire::Sampling& s, const SamplingExtra* extra) {
  return has_step(extra, sampling::Step::kPenalties) &&
         (s.repetition_penalty != 1.0f || s.presence_penalty != 0.0f ||
          s.frequency_penalty != 0.0f);
}
bool has_dry(const SamplingExtra* extra) {
  return extra != nullptr && extra->dry_multiplier > 0 && has_step(extra, sampling::Step::kDry);
}
bool is_greedy(const wire::Sampling& s, const SamplingExtra* extra) {
  return s.temperature < kGreedyBelow || (s.top_k == 1 && has_step(extra, sampling::Step::kTopK));
}

void append_number(std::string& out, double v) {
  char buffer[40];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v));
  out.append(buffer, r.ptr);
}

}  // namespace

Sampler::Sampler(std::int32_t vocab, std::vector<TokenId> end_ids)
    : vocab_(vocab),
      blocks_(backend::logit_blocks(vocab)),
      end_ids_(std::move(end_ids)),
      maxima_(static_cast<std::size_t>(blocks_)),
      adjusted_(static_cast<std::size_t>(vocab)),
      adjusted_maxima_(static_cast<std::size_t>(blocks_)),
      stale_(static_cast<std::size_t>(blocks_)),
      weights_(static_cast<std::size_t>(vocab)),
      weight_sums_(static_cast<std::size_t>((vocab + kSumIds - 1) / kSumIds)),
      counts_(static_cast<std::size_t>(vocab)),
      ranking_(vocab) {
  candidates_.reserve(static_cast<std::size_t>(vocab));
  ranked_weights_.reserve(static_cast<std::size_t>(vocab));
}

float& Sampler::adjusted(TokenId id) {
  stale_[static_cast<std::size_t>(id / backend::kBlockIds)] = 1;
  return adjusted_[static_cast<std::size_t>(id)];
}

void Sampler::penalise(const SampleInput& in) {
  const wire::Sampling& s = *in.sampling;
  if (s.repetition_penalty != 1.0f) {
    const std::int64_t n = in.prompt_n + in.generated_n;
    const std::int64_t last = in.extra == nullptr ? -1 : in.extra->repeat_last_n;
    const std::int64_t first = last < 0 ? 0 : std::max<std::int64_t>(0, n - last);
    for (std::int64_t i = first; i < n; ++i) {
      const auto id = static_cast<std::size_t>(in.tokens[i]);
      if (counts_[id]++ > 0) continue;
      float& l = adjusted(in.tokens[i]);
      l = l > 0 ? l / s.repetition_penalty : l * s.repetition_penalty;
    }
    for (std::int64_t i = first; i < n; ++i) counts_[static_cast<std::size_t>(in.tokens[i])] = 0;
  }
  if (s.presence_penalty == 0.0f && s.frequency_penalty == 0.0f) return;
  const TokenId* generated = in.tokens + in.prompt_n;
  for (std::int64_t i = 0; i < in.generated_n; ++i)
    ++counts_[static_cast<std::size_t>(generated[i])];
  for (std::int64_t i = 0; i < in.generated_n; ++i) {
    const auto id = static_cast<std::size_t>(generated[i]);
    if (counts_[id] == 0) continue;  // done at its first occurrence
    adjusted(generated[i]) -=
        s.presence_penalty + static_cast<float>(counts_[id]) * s.frequency_penalty;
    counts_[id] = 0;
  }
}

void Sampler::exclude(std::span<const std::uint64_t> mask) {
  const auto vocab = static_cast<std::size_t>(vocab_);
  for (std::size_t at = 0; at < vocab; at += 64) {
    const std::uint64_t word = at / 64 < mask.size() ? mask[at / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
    stale_[at / backend::kBlockIds] = 1;
    const std::size_t n = std::min<std::size_t>(64, vocab - at);
    if (word == 0) {
      std::fill_n(adjusted_.begin() + static_cast<std::ptrdiff_t>(at), n, kExcluded);
      continue;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if ((word >> i & 1) == 0) adjusted_[at + i] = kExcluded;
    }
  }
}

bool Sampler::takes_as_is(const wire::Sampling& s, const SamplingExtra* extra,
                          std::int64_t generated_n) const {
  const bool no_end = generated_n < s.min_tokens && !end_ids_.empty();
  return !has_bias(extra) && !has_penalties(s, extra) && !has_dry(extra) && !no_end;
}

bool Sampler::takes_greatest(const wire::Sampling& s, const SamplingExtra* extra,
                             std::int64_t generated_n) const {
  return is_greedy(s, extra) && takes_as_is(s, extra, generated_n);
}

std::int32_t Sampler::candidate_count(const wire::Sampling& s, const SamplingExtra* extra,
                                      std::int64_t generated_n) const {
  const bool chain = extra != nullptr && extra->needs_sampler_chain();
  const bool has_top_k = s.top_k > 0 && s.top_k < vocab_;
  return has_top_k && !chain && !is_greedy(s, extra) && takes_as_is(s, extra, generated_n) ? s.top_k
                                                                                           : 0;
}

/// The row with its maxima, which are computed here where the executor gave none.
LogitRow Sampler::with_maxima(const LogitRow& row) {
  if (row.maxima != nullptr) return row;
  block_maxima(row.at, vocab_, maxima_.data());
  return {row.at, maxima_.data()};
}

bool Sampler::may_not_end(const SampleInput& in) const {
  return in.generated_n < in.sampling->min_tokens && !end_ids_.empty() && !in.only_end;
}

/// The row itself when nothing changes it (most requests), else a changed copy.
LogitRow Sampler::adjust(const LogitRow& row, const SampleInput& in) {
  const wire::Sampling& s = *in.sampling;
  const bool biased = has_bias(in.extra), penalised = has_penalties(s, in.extra);
  const bool dry = has_dry(in.extra);
  const bool no_end = may_not_end(in);
  if (!biased && !penalised && !dry && !no_end && in.mask.empty() && in.excluded.empty()) {
    return row;
  }
  std::copy_n(row.at, vocab_, adjusted_.begin());
  std::copy_n(row.maxima, blocks_, adjusted_maxima_.begin());
  if (!in.mask.empty()) exclude(in.mask);
  for (const TokenId id : in.excluded) adjusted(id) = kExcluded;
  if (biased) {
    for (const auto& [id, bias] : in.extra->logit_bias) adjusted(id) += bias;
  }
  if (penalised) penalise(in);
  if (dry) {
    const auto n = static_cast<std::size_t>(in.prompt_n + in.generated_n);
    dry_.penalise({in.tokens, n}, *in.extra, in.breakers, adjusted_);
    std::fill(stale_.begin(), stale_.end(), std::uint8_t{1});
  }
  if (no_end) {
    for (const TokenId id : end_ids_) adjusted(id) = kExcluded;
  }
  renew_maxima();
  return {adjusted_.data(), adjusted_maxima_.data()};
}

void Sampler::renew_maxima() {
  for (std::int32_t block = 0; block < blocks_; ++block) {
    const auto at = static_cast<std::size_t>(block);
    if (stale_[at] == 0) continue;
    stale_[at] = 0;
    const std::int32_t first = block * backend::kBlockIds;
    adjusted_maxima_[at] =
        max_of(adjusted_.data() + first, std::min(backend::kBlockIds, vocab_ - first));
  }
}

/// Sets weights_ and returns their sum, by parts whose weights are added from the nearest cache.
double Sampler::weigh_all(const LogitRow& row, float max, float temperature) {
  Sum sum;
  TokenId id = 0;
  for (double& part : weight_sums_) {
    const std::int32_t n = std::min(kSumIds, vocab_ - id);
    float* weights = weights_.data() + id;
    model::exact_exp_array(row.at + id, max, temperature, weights, n);
    part = sum.add(weights, n);
    id += kSumIds;
  }
  return sum.total();
}

/// The id where the running sum of weights_ exceeds `target`. It is found from sums of parts, which
/// are rounded in another way than a sum from the first id on would be: nullopt where that might
/// matter.
std::optional<TokenId> Sampler::draw_near(double target, double all) const {
  const double unsure = 1e-9 * all;  // 2^18 additions are off by 2^-35 of all, at most
  double sum = 0;
  auto part = weight_sums_.begin();
  while (part != weight_sums_.end() && sum + *part <= target) sum += *part++;
  auto id = static_cast<TokenId>(part - weight_sums_.begin()) * kSumIds;
  for (const TokenId end = std::min(vocab_, id + kSumIds); id < end; ++id) {
    const double with = sum + static_cast<double>(weights_[static_cast<std::size_t>(id)]);
    if (with > target) {
      const bool sure = sum < target - unsure && with > target + unsure;
      return sure ? std::optional(id) : std::nullopt;
    }
    sum = with;
  }
  return std::nullopt;
}

TokenId Sampler::draw_all(const LogitRow& row, float max, float temperature, double unit) {
  const double all = weigh_all(row, max, temperature);
  const double target = unit * all;
  if (const auto id = draw_near(target, all)) return *id;
  double cumulated = 0;
  TokenId last = 0;
  for (TokenId id = 0; id < vocab_; ++id) {
    const float w = weights_[static_cast<std::size_t>(id)];
    if (w == 0) continue;
    last = id;
    cumulated += static_cast<double>(w);
    if (cumulated > target) return id;
  }
  return last;
}

TokenId Sampler::draw_candidates(std::size_t n, double unit) const {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(ranked_weights_[i]);
  const double target = unit * sum;
  double cumulated = 0;
  for (std::size_t i = 0; i < n; ++i) {
    cumulated += static_cast<double>(ranked_weights_[i]);
    if (cumulated > target) return candidates_[i].id;
  }
  return candidates_[n - 1].id;
}

/// Sets candidates_ and their weights for top_k, top_p and min_p; returns how many remain.
std::size_t Sampler::cut(const LogitRow& row, float max, const wire::Sampling& s) {
  if (s.top_k > 0 && s.top_k < vocab_) {
    ranking_.first(row, s.top_k, candidates_);
    return cut_candidates(max, s, 0).value_or(candidates_.size());
  }
  const double all = s.top_p < 1.0f ? weigh_all(row, max, s.temperature) : 0;
  constexpr std::int32_t kUsuallyEnough = 128;
  ranking_.first(row, kUsuallyEnough, candidates_);
  if (const auto remain = cut_candidates(max, s, all)) return *remain;
  float least = kExcluded;
  if (s.top_p < 1.0f) {
    const double target_mass = all * static_cast<double>(s.top_p);
    least = ranking_.least_for(row, weights_.data(), max, s.temperature, target_mass);
  }
  if (s.min_p > 0) {
    const auto far = static_cast<float>(-model::exact_log(static_cast<double>(s.min_p)));
    least = std::max(least, max - s.temperature * (far * 1.01f + 0.01f));
  }
  ranking_.at_least(row, least, candidates_);
  if (const auto remain = cut_candidates(max, s, all)) return *remain;
  // Nothing is cut off: these are all that have a weight, or the rounding error was too large.
  ranking_.at_least(row, kExcluded, candidates_);
  return cut_candidates(max, s, all).value_or(candidates_.size());
}

/// Sets ranked_weights_ of candidates_ and returns how many remain; nullopt: all, and others might
/// too. `all`: the weight of all ids, where top_k has not chosen the candidates.
std::optional<std::size_t> Sampler::cut_candidates(float max, const wire::Sampling& s, double all) {
  const std::size_t k = candidates_.size();
  ranked_weights_.clear();
  for (const Candidate& c : candidates_) ranked_weights_.push_back(c.logit);
  model::exact_exp_array(ranked_weights_.data(), max, s.temperature, ranked_weights_.data(),
                         static_cast<int>(k));
  double total = all;
  if (s.top_k > 0 && s.top_k < vocab_) {
    for (std::size_t i = 0; i < k; ++i) total += static_cast<double>(ranked_weights_[i]);
  }
  const double target_mass = s.top_p < 1.0f ? total * static_cast<double>(s.top_p)
                                            : std::numeric_limits<double>::infinity();
  double cumulated = 0;
  for (std::size_t i = 0; i < k; ++i) {
    const float w = ranked_weights_[i];
    if (w == 0 || w < s.min_p) return i;  // all later ones too
    cumulated += static_cast<double>(w);
    if (cumulated >= target_mass) return i + 1;
  }
  return std::nullopt;
}

TokenId Sampler::sample_candidates(std::span<const Candidate> first, const SampleInput& in) {
  const wire::Sampling& s = *in.sampling;
  candidates_.assign(first.begin(), first.end());
  const auto remain = cut_candidates(first.front().logit, s, 0);
  return draw_candidates(remain.value_or(first.size()),
                         random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kSample));
}

std::optional<TokenId> Sampler::sample(const LogitRow& raw, const SampleInput& in) {
  if (raw.maxima == nullptr && !all_finite(raw.at, vocab_)) return std::nullopt;
  const wire::Sampling& s = *in.sampling;
  const LogitRow row = adjust(with_maxima(raw), in);
  const float max = max_of(row.maxima, blocks_);
  if (max == kExcluded) return end_ids_.empty() ? std::nullopt : std::optional(end_ids_.front());
  if (is_greedy(s, in.extra)) return ranking_.first_with(row, max);
  const double unit = random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kSample);
  if (in.extra != nullptr && in.extra->needs_sampler_chain()) {
    const double xtc = random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kXtc);
    ranking_.at_least(row, SamplerChain::least(max, s.temperature), candidates_);
    return sampler_chain_.sample(candidates_, s, *in.extra, {unit, xtc}, in.mirostat_mu, in.forced);
  }
  const bool cuts = (s.top_k > 0 && s.top_k < vocab_) || s.top_p < 1.0f || s.min_p > 0.0f;
  if (!cuts) return draw_all(row, max, s.temperature, unit);
  return draw_candidates(cut(row, max, s), unit);
}

double Sampler::log_sum_exp(const LogitRow& raw) {
  const LogitRow row = with_maxima(raw);
  const float max = max_of(row.maxima, blocks_);
  return static_cast<double>(max) + model::exact_log(weigh_all(row, max, 1.0f));
}

std::string Sampler::logprobs_json(const LogitRow& raw, TokenId id, std::int32_t top) {
  const LogitRow row = with_maxima(raw);
  const double lse = log_sum_exp(row);
  std::string out = "{\"logprob\":";
  append_number(out, static_cast<double>(row.at[id]) - lse);
  out += ",\"top\":[";
  if (top > 0) {
    ranking_.first(row, std::min(top, vocab_), candidates_);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (i > 0) out += ',';
      out += '[' + std::to_string(candidates_[i].id) + ',';
      append_number(out, static_cast<double>(candidates_[i].logit) - lse);
      out += ']';
    }
  }
  return out + "]}";
}

void Sampler::score(const LogitRow& raw, TokenId id, wire::PromptScores& scores) {
  const LogitRow row = with_maxima(raw);
  const double lse = log_sum_exp(row);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - lse);
  };
  scores.scores.push_back({logprob(row.at[id]), rank_of(row.at, vocab_, id)});
  if (scores.top == 0) return;
  ranking_.first(row, scores.top, candidates_);
  for (const Candidate& c : candidates_) scores.alternatives.push_back({c.id, logprob(c.logit)});
}

}  // namespace holdfast::engine
