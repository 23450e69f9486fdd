#pragma once
// The common part of a bench's cases: paths, and the quick mode.

#include <memory>
#include <string>
#include <vector>

#include "bench/lib/local_cluster.h"

namespace holdfast::bench {

/// Options of a run, for all its cases.
struct Options {
  std::string programs;         // folder of the binaries
  std::string model;            // GGUF file
  std::string scratch;          // a folder of this run; deleted afterwards
  bool quick = false;           // shows that everything works, in seconds; the figures mean little
  std::string engine = "fake";  // or "model": the real one, for cases that support both
  double minutes = 60;          // of cases that last as long as requested
  int spinners = 4;             // processes that spin during such a case
  /// `full`, or `quick` in a quick run.
  int count(int full, int quick_count) const { return quick ? quick_count : full; }
  double seconds(double full) const { return quick ? full / 20 : full; }
};

/// Starts a cluster of its own below options.scratch.
Result<std::unique_ptr<LocalCluster>> start_cluster(const Options& options, const std::string& name,
                                                    const std::vector<std::string>& config = {});

/// One measurement of a bench, on a cluster of its own.
struct Case {
  const char* name;
  Result<void> (*run)(const Options&, class Report&);
};

/// Runs a whole program of cases: besides the options of run_program() it takes --quick and --only
/// CASE[,CASE…], and those of --engine, --minutes and --spinners that `more` names. The steal time
/// during each case is reported with it.
int run_cases(int argc, char** argv, const char* name, const char* usage,
              const std::vector<Case>& cases, const std::vector<std::string>& more = {});

}  // namespace holdfast::bench
