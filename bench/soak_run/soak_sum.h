#pragma once
// Hours of soak that add up over days: what one run on a state directory passes to the next one,
// and the record of all of them together.

#include <string>

#include "bench/lib/report.h"
#include "bench/soak_run/soak.h"

namespace holdfast::bench {

/// The tokens that each kind of request gave in the first run on this directory; empty before it.
/// kFileInvalid with the file and line.
Result<FirstTokens> read_first_tokens(const std::string& state_dir);
/// Writes them for later runs. kIo.
Result<void> write_first_tokens(const std::string& state_dir, const FirstTokens& first);

/// Adds this run's figures to the record at `path`, or begins it: counts and seconds are summed,
/// largest values and quotients are the worst of all runs, `soak.runs` counts them. Facts are those
/// of the newest run; builds and problems of all runs stay. kFileInvalid, kIo.
Result<void> add_to_sum(const Report& run, const std::string& path);

}  // namespace holdfast::bench
