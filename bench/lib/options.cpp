#include "bench/lib/options.h"

#include <cstdio>

#include "bench/lib/program.h"

namespace holdfast::bench {

Result<std::unique_ptr<House>> make_house(const Options& options, const std::string& name,
                                          const std::vector<std::string>& config) {
  HouseOptions house;
  house.programs = options.programs;
  house.model = options.model;
  house.dir = options.scratch + "/" + name;
  house.daemon_config = config;
  auto made = std::make_unique<House>(std::move(house));
  HF_CHECKED(made->start());
  return made;
}

namespace {

/// False if `only` names none of them.
bool run_named(const std::vector<Case>& cases, const std::string& only, const Options& options,
               Report& report) {
  report.fact("mode", options.quick ? "quick: figures mean little" : "full");
  bool any = false;
  for (const Case& one : cases) {
    const std::string name = one.name;
    if (!only.empty() && ("," + only + ",").find("," + name + ",") == std::string::npos) continue;
    any = true;
    std::fprintf(stderr, "%s\n", one.name);
    const CpuTicks before = read_cpu_ticks();
    const Result<void> done = one.run(options, report);
    if (!done) report.problem(name + ": " + done.error().what);
    report.add(name + ".steal", steal_percent(before, read_cpu_ticks()), "%");
  }
  return any;
}

}  // namespace

int run_cases(int argc, char** argv, const char* name, const char* usage,
              const std::vector<Case>& cases) {
  bool quick = false;
  std::string only;
  Program program{name, usage, {}, {}, {}};
  program.options = {{"quick", no_argument, nullptr, 'q'},
                     {"only", required_argument, nullptr, 'o'}};
  program.take = [&](int option, const char* value) {
    if (option == 'q') quick = true;
    if (option == 'o') only = value;
    return true;
  };
  program.run = [&](const Place& place, Report& report) {
    return run_named(cases, only, {place.programs, place.model, place.scratch, quick}, report);
  };
  return run_program(argc, argv, program);
}

}  // namespace holdfast::bench
