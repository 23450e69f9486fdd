// bench/control: how fast the control plane is, measured on the real programs with the fake engine.

#include <cstdio>

#include "bench/control_plane/cases.h"
#include "bench/lib/program.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-control [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                              [--model FILE.gguf] [--record FILE]\n"
    "Starts daemon, workers (fake engine) and clients on a new state directory below DIR and\n"
    "measures. Cases: disk, admission, tokens, restart, failures, cancel, burst, and\n"
    "suspicion, which takes ten minutes.\n";

bool run_cases(const Options& options, const std::string& only, Report& report) {
  report.fact("mode", options.quick ? "quick: figures mean little" : "full");
  bool any = false;
  for (const Case& one : all_cases()) {
    if (!only.empty() && only.find("," + std::string(one.name) + ",") == std::string::npos) {
      continue;
    }
    any = true;
    std::fprintf(stderr, "%s\n", one.name);
    const CpuTicks before = read_cpu_ticks();
    const Result<void> done = one.run(options, report);
    if (!done) report.problem(std::string(one.name) + ": " + done.error().what);
    report.add(std::string(one.name) + ".steal", steal_percent(before, read_cpu_ticks()), "%");
  }
  return any;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  bool quick = false;
  std::string only;
  Program program{"control", kUsage, {}, {}, {}};
  program.options = {{"quick", no_argument, nullptr, 'q'},
                     {"only", required_argument, nullptr, 'o'}};
  program.take = [&](int option, const char* value) {
    if (option == 'q') quick = true;
    if (option == 'o') only = "," + std::string(value) + ",";
    return true;
  };
  program.run = [&](const Place& place, Report& report) {
    return run_cases({place.programs, place.model, place.scratch, quick}, only, report);
  };
  return run_program(argc, argv, program);
}
