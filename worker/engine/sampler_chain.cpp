#include "worker/engine/sampler_chain.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "worker/model/exact_math.h"

namespace holdfast::engine {
namespace {

using sampling::SamplingExtra;
using sampling::Step;

constexpr float kGreedyBelow = 1e-6F;
constexpr float kReach = 21.0F;  // ln of 1.3e9
constexpr double kLn2 = 0.693147180559945309417;

constexpr auto kDefaultOrder = [] {
  std::array<Step, sampling::kStepNames.size()> order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Step>(i);
  return order;
}();

bool cuts_by_probability(Step step) {
  return step > Step::kTemperature;
}

}  // namespace

void SamplerChain::weigh() {
  weights_.resize(list_.size());
  for (std::size_t i = 0; i < list_.size(); ++i) weights_[i] = list_[i].logit;
  model::exact_exp_array(weights_.data(), list_[0].logit, 1.0F, weights_.data(),
                         static_cast<int>(list_.size()));
  sum_ = 0;
  for (const float w : weights_) sum_ += static_cast<double>(w);
}

void SamplerChain::cut_sigma(float n) {
  double mean = 0;
  for (const Candidate& c : list_) mean += static_cast<double>(c.logit);
  mean /= static_cast<double>(list_.size());
  double variance = 0;
  for (const Candidate& c : list_) {
    const double d = static_cast<double>(c.logit) - mean;
    variance += d * d;
  }
  variance /= static_cast<double>(list_.size());
  const double least =
      static_cast<double>(list_[0].logit) - static_cast<double>(n) * std::sqrt(variance);
  std::size_t cutoff = 1;
  while (cutoff < list_.size() && static_cast<double>(list_[cutoff].logit) >= least) ++cutoff;
  list_.resize(cutoff);
}

void SamplerChain::scale(float temperature) {
  if (temperature < kGreedyBelow) {
    list_.resize(1);
    return;
  }
  for (Candidate& c : list_) c.logit /= temperature;
}

void SamplerChain::cut_typical(float mass) {
  weigh();
  double entropy = 0;
  typical_.clear();
  for (std::size_t i = 0; i < list_.size(); ++i) {
    // -ln p = ln sum - (logit - max), without a logarithm for each.
    const double surprise = model::exact_log(sum_) - static_cast<double>(list_[i].logit) +
                            static_cast<double>(list_[0].logit);
    entropy += static_cast<double>(weights_[i]) / sum_ * surprise;
    typical_.emplace_back(surprise, i);
  }
  for (auto& [distance, i] : typical_) distance = std::fabs(distance - entropy);
  std::sort(typical_.begin(), typical_.end());
  double cumulated = 0;
  std::size_t cutoff = 0;
  while (cutoff < typical_.size()) {
    cumulated += static_cast<double>(weights_[typical_[cutoff].second]) / sum_;
    ++cutoff;
    if (cumulated >= static_cast<double>(mass)) break;
  }
  typical_.resize(cutoff);
  std::sort(typical_.begin(), typical_.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (std::size_t i = 0; i < cutoff; ++i) list_[i] = list_[typical_[i].second];
  list_.resize(cutoff);
}

void SamplerChain::cut_top_p(float mass) {
  weigh();
  const double target_mass = sum_ * static_cast<double>(mass);
  double cumulated = 0;
  std::size_t cutoff = 0;
  while (cutoff < list_.size()) {
    cumulated += static_cast<double>(weights_[cutoff]);
    ++cutoff;
    if (cumulated >= target_mass) break;
  }
  list_.resize(cutoff);
}

void SamplerChain::cut_min_p(float share) {
  weigh();
  std::size_t cutoff = 1;
  while (cutoff < list_.size() && weights_[cutoff] >= share) ++cutoff;
  list_.resize(cutoff);
}

void SamplerChain::exclude_top(float threshold) {
  weigh();
  std::size_t above = 0;
  while (above < list_.size() &&
         static_cast<double>(weights_[above]) >= sum_ * static_cast<double>(threshold)) {
    ++above;
  }
  if (above >= 2)
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(above - 1));
}

void SamplerChain::cut_surprise(float mu) {
  weigh();
  const double log_sum = model::exact_log(sum_);
  std::size_t cutoff = 1;
  while (cutoff < list_.size() && (log_sum - static_cast<double>(list_[cutoff].logit) +
                                   static_cast<double>(list_[0].logit)) /
                                          kLn2 <=
                                      static_cast<double>(mu)) {
    ++cutoff;
  }
  list_.resize(cutoff);
}

void SamplerChain::apply(Step step, const wire::Sampling& s, const SamplingExtra& extra,
                         double random_draw) {
  switch (step) {
    case Step::kPenalties:
    case Step::kDry:
      return;  // done on the whole row before (sampler.cpp)
    case Step::kTopNSigma:
      if (extra.top_n_sigma > 0) cut_sigma(extra.top_n_sigma);
      return;
    case Step::kTemperature:
      return scale(s.temperature);
    case Step::kTopK:
      if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < list_.size()) {
        list_.resize(static_cast<std::size_t>(s.top_k));
      }
      return;
    case Step::kTypical:
      if (extra.typical_p < 1) cut_typical(extra.typical_p);
      return;
    case Step::kTopP:
      if (s.top_p < 1) cut_top_p(s.top_p);
      return;
    case Step::kTopA:
      if (extra.top_a <= 0) return;
      weigh();
      return cut_min_p(static_cast<float>(static_cast<double>(extra.top_a) / sum_));
    case Step::kMinP:
      if (s.min_p > 0) cut_min_p(s.min_p);
      return;
    case Step::kXtc:
      if (random_draw < static_cast<double>(extra.xtc_probability))
        exclude_top(extra.xtc_threshold);
      return;
  }
}

std::size_t SamplerChain::draw(double random_draw) const {
  const double target = random_draw * sum_;
  double cumulated = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    cumulated += static_cast<double>(weights_[i]);
    if (cumulated > target) return i;
  }
  return weights_.size() - 1;
}

float SamplerChain::least(float max, float temperature) {
  return max - kReach * std::max(1.0F, temperature);
}

TokenId SamplerChain::sample(std::span<const Candidate> list, const wire::Sampling& s,
                             const SamplingExtra& extra, const RandomDraw& random_draw, float* mu,
                             TokenId forced) {
  list_.assign(list.begin(), list.end());
  const std::span<const Step> order = extra.order.empty() ? std::span<const Step>(kDefaultOrder)
                                                          : std::span<const Step>(extra.order);
  const bool mirostat = extra.mirostat == 2 && mu != nullptr;
  for (const Step step : order) {
    if (!mirostat || !cuts_by_probability(step)) apply(step, s, extra, random_draw.xtc);
  }
  if (mirostat) cut_surprise(*mu);
  weigh();
  std::size_t at = draw(random_draw.sample);
  if (forced >= 0) {
    const auto found = std::find_if(list_.begin(), list_.end(),
                                    [&](const Candidate& c) { return c.id == forced; });
    if (found == list_.end()) return forced;  // not on this row's list: mu stays
    at = static_cast<std::size_t>(found - list_.begin());
  }
  if (mirostat) {
    const double surprise =
        (model::exact_log(sum_) - static_cast<double>(list_[at].logit - list_[0].logit)) / kLn2;
    *mu -=
        extra.mirostat_eta * static_cast<float>(surprise - static_cast<double>(extra.mirostat_tau));
  }
  return list_[at].id;
}

}  // namespace holdfast::engine
