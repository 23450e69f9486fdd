#pragma once
// The steps of a sampler that is more than temperature, top_k, top_p and min_p (those alone are
// sampler.h's short way): each shortens one list of candidates, in the requested order.
//
// Definitions. The list starts with the ids whose logit is at least max - 21 x max(1, temperature)
// (others are less likely than one in 10^9 of the likeliest), in the total order (logit descending,
// id ascending), and keeps that order. p: the softmax of the list as it is at a step. At least one
// candidate always remains.
//   top_n_sigma  logits of at least max - n x their standard deviation (Tang et al. 2024,
//                "Top-nsigma: not all logits are you need")
//   temperature  logits / T; T below 1e-6 leaves the first
//   top_k, top_p, min_p   the first k; the shortest prefix with p of top_p; p >= min_p x greatest p
//   typ_p        by |-ln p - entropy| ascending, ties by the total order, the shortest prefix with
//                p of typ_p (Meister et al. 2023, "Locally typical sampling")
//   xtc          if a random number is below xtc_probability: of the candidates with
//                p >= xtc_threshold only the least likely one stays (p-e-w 2024, "Exclude top
//                choices")
//   mirostat 2   in place of top_k, typ_p, top_p, min_p, xtc: candidates with -log2 p <= mu; then
//                mu -= eta x (-log2 p' - tau), p' of the sampled one in what was left, mu begins as
//                2 tau (Basu et al. 2021, "Mirostat", algorithm 2)

#include <cstdint>
#include <span>
#include <vector>

#include "shared/sampling/extra.h"
#include "shared/wire/messages.h"
#include "worker/engine/ranking.h"

namespace holdfast::engine {

/// Samples from a list by the chain's steps. Not thread-safe; reuses its memory between calls.
class SamplerChain {
 public:
  /// The random draw of one token: two independent numbers in [0, 1).
  struct RandomDraw {
    double sample = 0;
    double xtc = 0;
  };
  /// Returns the least logit on the list of a row whose greatest one is `max`.
  static float least(float max, float temperature);
  /// Samples from `list`: the ids with a logit of least() or more, in the total order; not empty.
  /// `mu` is read and changed where mirostat is on. With `forced` >= 0 that id is taken whatever
  /// the draw, and `mu` moves as it did when the id was sampled.
  TokenId sample(std::span<const Candidate> list, const wire::Sampling& sampling,
                 const sampling::SamplingExtra& extra, const RandomDraw& random_draw, float* mu,
                 TokenId forced = -1);

 private:
  void apply(sampling::Step step, const wire::Sampling& sampling,
             const sampling::SamplingExtra& extra, double random_draw);
  void weigh();
  void cut_sigma(float n);
  void scale(float temperature);
  void cut_typical(float mass);
  void cut_top_p(float mass);
  void cut_min_p(float share);
  void exclude_top(float threshold);
  void cut_surprise(float mu);
  std::size_t draw(double random_draw) const;

  std::vector<Candidate> list_;
  std::vector<float> weights_;  // of list_, the first is 1; made by weigh()
  double sum_ = 0;              // of weights_
  std::vector<std::pair<double, std::size_t>> typical_;
};

}  // namespace holdfast::engine
