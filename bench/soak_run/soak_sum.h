#pragma once
// Hours of soak that add up over days: what one run on a state directory hands to the next one, and
// the record of all of them together.

#include <string>

#include "bench/lib/report.h"
#include "bench/soak_run/soak.h"

namespace holdfast::bench {

/// The tokens that each kind of request gave in the first run on this directory; empty at the
/// first. kFileInvalid with the place.
Result<FirstTokens> read_first_tokens(const std::string& state_dir);
/// kIo.
Result<void> write_first_tokens(const std::string& state_dir, const FirstTokens& first);

/// Adds this run's figures to the record at `path`, or begins it: counts and seconds are summed,
/// largest values and quotients are the worst of all runs, `soak.runs` counts them. Facts are those
/// of the newest run; builds of all runs are kept, and problems of all runs. kFileInvalid, kIo.
Result<void> add_to_sum(const Report& run, const std::string& path);

}  // namespace holdfast::bench
