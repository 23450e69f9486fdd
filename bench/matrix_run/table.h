#pragma once
// A record of the matrix as Markdown, for docs/benchmarks.md.

#include <string>

#include "bench/lib/report.h"

namespace holdfast::bench {

/// One table a model: a row for each context with prefill, then decoding for each number of
/// streams, in tokens a second; a skipped cell is a dash, and the reasons stand below.
std::string matrix_markdown(const Report& report);

}  // namespace holdfast::bench
