#pragma once
// What every bench program does around its measuring: options that all have, a folder of its own,
// the machine's description, and the report as table, JSON and record.

#include <getopt.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/lib/report.h"

namespace holdfast::bench {

/// Where a run finds its programs and keeps its files.
struct Place {
  std::string programs;  // folder of the programs
  std::string model;     // a GGUF file
  std::string scratch;   // empty, removed afterwards
  std::string record;    // where the report's JSON will be written; may be empty
};

struct Program {
  const char* name;   // of the record
  const char* usage;  // ends with a newline
  /// Beside --json, --dir, --model, --record and --help.
  std::vector<option> options;
  /// One of `options`, by its val. False: a bad value.
  std::function<bool(int option, const char* value)> take;
  /// False: the arguments make no sense together. What goes wrong in the run is a problem of the
  /// report.
  std::function<bool(const Place& place, Report& report)> run;
  bool keeps_record = false;  // run() writes it, piece by piece
};

/// The exit status: 0, 1 when the report has problems, 2 for arguments that are wrong.
int run_program(int argc, char** argv, const Program& program);

}  // namespace holdfast::bench
