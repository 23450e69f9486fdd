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

/// Whether an order of steps leaves this one out.
bool has_step(const SamplingExtra* extra, sampling::Step step) {
  return extra == nullptr || extra->order.empty() ||
         std::find(extra->order.begin(), extra->order.end(), step) != extra->order.end();
}

// What changes a row before anything is picked.
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
      end_ids_(std::move(end_ids)),
      adjusted_(static_cast<std::size_t>(vocab)),
      weights_(static_cast<std::size_t>(vocab)),
      counts_(static_cast<std::size_t>(vocab)) {
  candidates_.reserve(static_cast<std::size_t>(vocab));
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
      float& l = adjusted_[id];
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
    adjusted_[id] -= s.presence_penalty + static_cast<float>(counts_[id]) * s.frequency_penalty;
    counts_[id] = 0;
  }
}

void Sampler::exclude(std::span<const std::uint64_t> mask) {
  const auto vocab = static_cast<std::size_t>(vocab_);
  for (std::size_t at = 0; at < vocab; at += 64) {
    const std::uint64_t word = at / 64 < mask.size() ? mask[at / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
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

std::int32_t Sampler::candidates_wanted(const wire::Sampling& s, const SamplingExtra* extra,
                                        std::int64_t generated_n) const {
  const bool chain = extra != nullptr && extra->needs_chain();
  const bool few = s.top_k > 0 && s.top_k < vocab_;
  return few && !chain && !is_greedy(s, extra) && takes_as_is(s, extra, generated_n) ? s.top_k : 0;
}

/// The row itself when nothing changes it (most requests), else a changed copy.
const float* Sampler::adjust(const float* logits, const SampleInput& in) {
  const wire::Sampling& s = *in.sampling;
  const bool biased = has_bias(in.extra), penalised = has_penalties(s, in.extra);
  const bool dry = has_dry(in.extra);
  const bool no_end = in.generated_n < s.min_tokens && !end_ids_.empty() && !in.only_end;
  if (!biased && !penalised && !dry && !no_end && in.mask.empty() && in.excluded.empty()) {
    return logits;
  }
  std::copy(logits, logits + vocab_, adjusted_.begin());
  if (!in.mask.empty()) exclude(in.mask);
  for (const TokenId id : in.excluded) adjusted_[static_cast<std::size_t>(id)] = kExcluded;
  if (biased) {
    for (const auto& [id, bias] : in.extra->logit_bias)
      adjusted_[static_cast<std::size_t>(id)] += bias;
  }
  if (penalised) penalise(in);
  if (dry) {
    const auto n = static_cast<std::size_t>(in.prompt_n + in.generated_n);
    dry_.penalise({in.tokens, n}, *in.extra, in.breakers, adjusted_);
  }
  if (no_end) {
    for (const TokenId id : end_ids_) adjusted_[static_cast<std::size_t>(id)] = kExcluded;
  }
  return adjusted_.data();
}

/// candidates_ = the first k ids of the total order, sorted.
void Sampler::select(const float* logits, std::int32_t k) {
  candidates_.clear();
  constexpr std::int32_t kHeapMax = 1024;
  if (k > kHeapMax) {
    for (TokenId id = 0; id < vocab_; ++id) candidates_.push_back({logits[id], id});
    if (k < vocab_) {
      std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), before);
      candidates_.resize(static_cast<std::size_t>(k), {0, 0});
    }
    std::sort(candidates_.begin(), candidates_.end(), before);
    return;
  }
  for (TokenId id = 0; id < k; ++id) candidates_.push_back({logits[id], id});
  std::make_heap(candidates_.begin(), candidates_.end(), before);  // the worst one on top
  for (TokenId id = k;; ++id) {
    id = next_above(logits, id, vocab_, candidates_.front().logit);  // a later id loses a tie
    if (id == vocab_) break;
    std::pop_heap(candidates_.begin(), candidates_.end(), before);
    candidates_.back() = {logits[id], id};
    std::push_heap(candidates_.begin(), candidates_.end(), before);
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), before);
}

double Sampler::weigh_all(const float* logits, float max, float temperature) {
  model::exact_exp_array(logits, max, temperature, weights_.data(), vocab_);
  return sum_of(weights_.data(), vocab_);
}

TokenId Sampler::draw_all(const float* logits, float max, float temperature, double unit) {
  const double target = unit * weigh_all(logits, max, temperature);
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
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(weights_[i]);
  const double target = unit * sum;
  double cumulated = 0;
  for (std::size_t i = 0; i < n; ++i) {
    cumulated += static_cast<double>(weights_[i]);
    if (cumulated > target) return candidates_[i].id;
  }
  return candidates_[n - 1].id;
}

/// Sets candidates_ and weights_ (by rank) for top_k and top_p; returns how many remain.
std::size_t Sampler::cut_top_p(const float* logits, float max, const wire::Sampling& s) {
  const bool has_k = s.top_k > 0 && s.top_k < vocab_;
  // Without top_k the prefix that top_p wants is found by trying longer and longer ones; with
  // min_p alone the prefix is cut afterwards, so it is tried the same way.
  const bool has_p = s.top_p < 1.0f;
  const double all = has_k || !has_p ? 0 : weigh_all(logits, max, s.temperature);
  for (std::int32_t k = has_k ? s.top_k : std::min(128, vocab_);;) {
    select(logits, k);
    const auto remain = cut_candidates(max, s, all);
    if (remain) return *remain;
    if (has_k || k == vocab_) return static_cast<std::size_t>(k);
    k = k > vocab_ / 16 ? vocab_ : k * 16;
  }
}

/// Sets weights_ (by rank) of candidates_. How many remain; nullopt: all, and others might too.
/// `all`: the weight of all ids, where top_k has not chosen the candidates.
std::optional<std::size_t> Sampler::cut_candidates(float max, const wire::Sampling& s, double all) {
  const std::size_t k = candidates_.size();
  for (std::size_t i = 0; i < k; ++i) weights_[i] = candidates_[i].logit;
  model::exact_exp_array(weights_.data(), max, s.temperature, weights_.data(),
                         static_cast<std::int64_t>(k));
  double total = all;
  if (s.top_k > 0 && s.top_k < vocab_) {
    for (std::size_t i = 0; i < k; ++i) total += static_cast<double>(weights_[i]);
  }
  const double wanted = s.top_p < 1.0f ? total * static_cast<double>(s.top_p)
                                       : std::numeric_limits<double>::infinity();
  double cumulated = 0;
  for (std::size_t i = 0; i < k; ++i) {
    const float w = weights_[i];
    if (w == 0 || w < s.min_p) return i;  // all later ones too
    cumulated += static_cast<double>(w);
    if (cumulated >= wanted) return i + 1;
  }
  return std::nullopt;
}

TokenId Sampler::pick_of(std::span<const Candidate> first, const SampleInput& in) {
  const wire::Sampling& s = *in.sampling;
  candidates_.assign(first.begin(), first.end());
  const auto remain = cut_candidates(first.front().logit, s, 0);
  return draw_candidates(remain.value_or(first.size()),
                         random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kSample));
}

std::optional<TokenId> Sampler::pick(const float* raw, const SampleInput& in) {
  if (!all_finite(raw, vocab_)) return std::nullopt;
  const wire::Sampling& s = *in.sampling;
  const float* logits = adjust(raw, in);
  const float max = max_of(logits, vocab_);
  if (max == kExcluded) return end_ids_.empty() ? std::nullopt : std::optional(end_ids_.front());
  if (is_greedy(s, in.extra)) {
    return static_cast<TokenId>(std::find(logits, logits + vocab_, max) - logits);
  }
  const double unit = random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kSample);
  if (in.extra != nullptr && in.extra->needs_chain()) {
    const double xtc = random_unit(s.seed, in.choice, in.generated_n, RandomPurpose::kXtc);
    return chain_.pick({logits, static_cast<std::size_t>(vocab_)}, s, *in.extra, {unit, xtc},
                       in.mirostat_mu, in.forced);
  }
  const bool cut = (s.top_k > 0 && s.top_k < vocab_) || s.top_p < 1.0f || s.min_p > 0.0f;
  if (!cut) return draw_all(logits, max, s.temperature, unit);
  return draw_candidates(cut_top_p(logits, max, s), unit);
}

double Sampler::log_sum_exp(const float* logits) {
  const float max = max_of(logits, vocab_);
  return static_cast<double>(max) + model::exact_log(weigh_all(logits, max, 1.0f));
}

std::string Sampler::logprobs_json(const float* logits, TokenId id, std::int32_t top) {
  const double lse = log_sum_exp(logits);
  std::string out = "{\"logprob\":";
  append_number(out, static_cast<double>(logits[id]) - lse);
  out += ",\"top\":[";
  if (top > 0) {
    select(logits, std::min(top, vocab_));
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (i > 0) out += ',';
      out += '[' + std::to_string(candidates_[i].id) + ',';
      append_number(out, static_cast<double>(candidates_[i].logit) - lse);
      out += ']';
    }
  }
  return out + "]}";
}

void Sampler::score(const float* logits, TokenId id, wire::PromptScores& scores) {
  const double lse = log_sum_exp(logits);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - lse);
  };
  scores.scores.push_back({logprob(logits[id]), rank_of(logits, vocab_, id)});
  if (scores.top == 0) return;
  select(logits, scores.top);
  for (const Candidate& c : candidates_) scores.alternatives.push_back({c.id, logprob(c.logit)});
}

}  // namespace holdfast::engine
