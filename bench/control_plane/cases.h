#pragma once
// The measurements of bench/control, each on a house of its own.

#include <functional>
#include <string>
#include <vector>

#include "bench/lib/house.h"
#include "bench/lib/load.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

struct Options {
  std::string programs;  // folder of the binaries
  std::string model;     // GGUF for its tokenizer
  std::string scratch;   // a folder of this run; gone afterwards
  bool quick = false;    // shows that everything works, in seconds; the figures mean little
  /// `full`, or `quick` in a quick run.
  int count(int full, int quick_count) const { return quick ? quick_count : full; }
  double seconds(double full) const { return quick ? full / 20 : full; }
};

/// A house of its own below options.scratch, started.
Result<std::unique_ptr<House>> make_house(const Options& options, const std::string& name,
                                          const std::vector<std::string>& config = {});

Result<void> bench_disk(const Options& options, Report& report);
Result<void> bench_admission(const Options& options, Report& report);
Result<void> bench_tokens(const Options& options, Report& report);
Result<void> bench_restart(const Options& options, Report& report);
Result<void> bench_failures(const Options& options, Report& report);
Result<void> bench_suspicion(const Options& options, Report& report);
Result<void> bench_cancel(const Options& options, Report& report);
Result<void> bench_burst(const Options& options, Report& report);

struct Case {
  const char* name;
  Result<void> (*run)(const Options&, Report&);
};
const std::vector<Case>& all_cases();

}  // namespace holdfast::bench
