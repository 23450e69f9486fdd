#pragma once
// The frame of every bench program: common options, a folder of its own, the machine's description,
// and the report as table, JSON and record.

#include <getopt.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/lib/report.h"

namespace holdfast::bench {

/// Paths of a run.
struct RunPaths {
  std::string programs;  // folder of the programs
  std::string model;     // a GGUF file
  std::string scratch;   // empty at first, removed afterwards
  std::string record;    // file for the report's JSON; may be empty
};

/// A bench program.
struct Program {
  const char* name;   // the record's kind
  const char* usage;  // ends with a newline
  /// Options besides --json, --dir, --model, --record and --help.
  std::vector<option> options;
  /// Takes one of `options`, by its val. False: a bad value.
  std::function<bool(int option, const char* value)> take;
  /// Measures. False: the arguments make no sense together. Failures of the run are problems of the
  /// report.
  std::function<bool(const RunPaths& paths, Report& report)> run;
  bool writes_record = false;  // run() writes it, figure by figure
};

/// Gives the exit status: 0, 1 when the report has problems, 2 for wrong arguments.
int run_program(int argc, char** argv, const Program& program);

}  // namespace holdfast::bench
