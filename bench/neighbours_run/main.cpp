// bench/neighbours: what a tenant, or a client without any key, can do to another tenant.

#include <cstdlib>
#include <cstring>

#include "bench/lib/program.h"
#include "bench/neighbours_run/cases.h"
#include "bench/neighbours_run/crowd.h"

namespace {

using namespace holdfast::bench;
using holdfast::Result;

constexpr char kUsage[] =
    "usage: holdfast-bench-neighbours [--only CASE[,CASE…]] [--engine fake|model] [--quick]\n"
    "                                 [--json] [--dir DIR] [--model FILE.gguf]\n"
    "                                 [--record FILE]\n"
    "Cases, each against a `holdfast serve` of its own: fairness (b's wait beside one and\n"
    "beside 2,048 requests of a), fronts (the same before uploads, helpers, /tokenize),\n"
    "strangers (8,192 connections without a key), poison (bodies made to grow). Without\n"
    "--engine: both, fronts with the fake one alone. Exit status 1: something was lost or\n"
    "wrong; goals that are missed are printed.\n";

struct NamedCase {
  const char* name;
  Result<void> (*run)(const Options&, const std::string&, Report&);
  bool both_engines;  // else the first one that was requested
};
constexpr NamedCase kCases[] = {{"fairness", &bench_fairness, true},
                                {"fronts", &bench_fronts, false},
                                {"strangers", &bench_strangers, true},
                                {"poison", &bench_poison, true}};

bool names(const std::string& list, const std::string& name) {
  return list.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

/// Runs the cases that `only` names, or all; false if it names none.
bool run_named(const Options& options, const std::string& only,
               const std::vector<std::string>& engines, Report& report) {
  bool any = false;
  for (const NamedCase& one : kCases) {
    if (!names(only, one.name)) continue;
    any = true;
    for (const std::string& engine : engines) {
      if (!one.both_engines && engine != engines.front()) continue;
      const std::string name = std::string(one.name) + "." + engine;
      std::fprintf(stderr, "%s\n", name.c_str());
      const CpuTicks before = read_cpu_ticks();
      const Result<void> done = one.run(options, engine, report);
      if (!done) report.problem(name + ": " + done.error().what);
      report.add(name + ".steal", steal_percent(before, read_cpu_ticks()), "%");
    }
  }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--crowd") == 0) {
    return run_crowd(std::atoi(argv[2]), std::atoi(argv[3]));
  }
  bool quick = false;
  std::string only;
  std::vector<std::string> engines = {"fake", "model"};
  Program program{"neighbours", kUsage, {}, {}, {}};
  program.options = {{"quick", no_argument, nullptr, 'q'},
                     {"only", required_argument, nullptr, 'o'},
                     {"engine", required_argument, nullptr, 'e'}};
  program.take = [&](int option, const char* value) {
    if (option == 'q') quick = true;
    if (option == 'o') only = value;
    if (option == 'e') engines = {value};
    return engines.front() == "fake" || engines.front() == "model";
  };
  program.run = [&](const RunPaths& paths, Report& report) {
    report.fact("mode", quick ? "quick: figures mean little" : "full");
    report.fact("configuration", "serve's own; 1 worker; fake: 16 slots");
    return run_named({paths.programs, paths.model, paths.scratch, quick}, only, engines, report);
  };
  return run_program(argc, argv, program);
}
