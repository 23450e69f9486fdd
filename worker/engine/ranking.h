#pragma once
// Finds the ids that come first in the total order (logit descending, id ascending) of a row, by
// looking only where the greatest logits of its blocks say that there may be one. Excluded ids,
// whose logit is minus infinity, are never among them.

#include <cstdint>
#include <vector>

#include "worker/backend/api/logit_row.h"

namespace holdfast::engine {

using TokenId = std::int32_t;
using backend::LogitRow;

/// A token that may be sampled, with its logit.
struct Candidate {
  float logit;
  TokenId id;
};
/// The total order.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Ranks rows whose maxima are known. Not thread-safe; reuses its memory between calls.
class Ranking {
 public:
  explicit Ranking(std::int32_t vocab);
  /// Returns the lowest id with the logit `max`, which is the greatest of the row.
  TokenId first_with(const LogitRow& row, float max) const;
  /// Finds the first k ids, fewer where others are excluded.
  void first(const LogitRow& row, std::int32_t k, std::vector<Candidate>& out);
  /// Finds all ids with a logit of at least `least`.
  void at_least(const LogitRow& row, float least, std::vector<Candidate>& out);
  /// Returns a logit such that the ids with at least that one have `target_mass` of the weights, or
  /// a little more; minus infinity if all ids are needed for that. `weights`: by id, e^((logit -
  /// max) / T).
  float least_for(const LogitRow& row, const float* weights, float max, float temperature,
                  double target_mass);

 private:
  std::int32_t ids_in(std::int32_t block) const;
  void collect(const LogitRow& row, float least, std::int32_t equal, std::vector<Candidate>& out);
  void sort(std::vector<Candidate>& list);

  std::int32_t vocab_;
  std::int32_t blocks_;
  std::vector<float> values_;
  std::vector<Candidate> spare_;
};

}  // namespace holdfast::engine
