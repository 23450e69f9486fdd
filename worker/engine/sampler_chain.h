#pragma once
// The steps of a sampler that is more than temperature, top_k, top_p and min_p (those alone are
// sampler.h's short way): each shortens one list of candidates, in the requested order.
//
// The steps are defined at sampling::Step. In place of those after the temperature,
//   mirostat 2   candidates with -log2 p <= mu; then mu -= eta x (-log2 p' - tau), p' of the
//                sampled one in what was left, mu begins as 2 tau (Basu et al. 2021, "Mirostat",
//                algorithm 2)

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
