#pragma once
// What the cases of a bench share: where things are, and whether the run is a quick one.

#include <memory>
#include <string>
#include <vector>

#include "bench/lib/house.h"

namespace holdfast::bench {

struct Options {
  std::string programs;         // folder of the binaries
  std::string model;            // GGUF file
  std::string scratch;          // a folder of this run; gone afterwards
  bool quick = false;           // shows that everything works, in seconds; the figures mean little
  std::string engine = "fake";  // or "model": the real one, for cases that can have both
  double minutes = 60;          // of cases that last as long as they are told to
  int spinners = 4;             // processes that spin beside such a case
  /// `full`, or `quick` in a quick run.
  int count(int full, int quick_count) const { return quick ? quick_count : full; }
  double seconds(double full) const { return quick ? full / 20 : full; }
};

/// A house of its own below options.scratch, started.
Result<std::unique_ptr<House>> make_house(const Options& options, const std::string& name,
                                          const std::vector<std::string>& config = {});

/// One measurement of a bench, on a house of its own.
struct Case {
  const char* name;
  Result<void> (*run)(const Options&, class Report&);
};

/// A whole program of cases: beside the options of run_program() it takes --quick and
/// --only CASE[,CASE…], and of --engine, --minutes and --spinners those that `more` names. Each
/// case has the steal time beside it.
int run_cases(int argc, char** argv, const char* name, const char* usage,
              const std::vector<Case>& cases, const std::vector<std::string>& more = {});

}  // namespace holdfast::bench
