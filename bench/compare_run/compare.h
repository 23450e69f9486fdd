#pragma once
// Compares two records of the same bench, figure by figure.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/lib/report.h"

namespace holdfast::bench {

enum class Verdict : std::uint8_t {
  kSame,        // the interval contains 1, or the change is within the threshold
  kBetter,      // the whole interval is on the good side of 1
  kRegression,  // the whole interval is on the bad side, and the ratio is beyond the threshold
  kUnjudged,    // no direction, or fewer samples than kSamplesLeast on a side
  kOnlyOld,
  kOnlyNew
};

inline constexpr std::size_t kSamplesLeast = 3;

struct Compared {
  std::string name, unit;
  double before = 0, after = 0;
  double ratio = 0;   // after / before; 0 where one is missing or 0
  Interval interval;  // 95 % interval of the ratio of the medians; {0, 0} where not judged
  Verdict verdict = Verdict::kUnjudged;
};

/// Compares all figures, in the order of `before`, then those that only `after` has. `threshold`: a
/// share; 0.05 lets a figure be 5 % worse.
std::vector<Compared> compare(const Report& before, const Report& after, double threshold);

/// A table for people; `all`: includes figures that did not change or cannot be judged.
std::string compare_text(const std::vector<Compared>& figures, bool all);
/// The comparison as one JSON document.
std::string compare_json(const std::vector<Compared>& figures);

}  // namespace holdfast::bench
