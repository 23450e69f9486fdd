#include "bench/lib/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/lib/program.h"

namespace holdfast::bench {

Result<std::unique_ptr<LocalCluster>> start_cluster(const Options& options, const std::string& name,
                                                    const std::vector<std::string>& config) {
  ClusterOptions cluster;
  cluster.programs = options.programs;
  cluster.model = options.model;
  cluster.dir = options.scratch + "/" + name;
  cluster.engine = options.engine;
  cluster.daemon_config = config;
  auto made = std::make_unique<LocalCluster>(std::move(cluster));
  HOLDFAST_CHECKED(made->start());
  return made;
}

namespace {

const option kExtraOptions[] = {{"engine", required_argument, nullptr, 'e'},
                                {"minutes", required_argument, nullptr, 'm'},
                                {"spinners", required_argument, nullptr, 's'}};

/// Runs the cases that `only` names, or all; false if it names none of them.
bool run_named(const std::vector<Case>& cases, const std::string& only, const Options& options,
               bool tells_engine, Report& report) {
  report.fact("mode", options.quick ? "quick: figures mean little" : "full");
  if (tells_engine) report.fact("engine", options.engine);
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

namespace {

/// Sets an option by its letter. Returns false if some value is out of range.
bool set_option(Options& options, std::string& only, int option, const char* value) {
  if (option == 'q') options.quick = true;
  if (option == 'o') only = value;
  if (option == 'e') options.engine = value;
  if (option == 'm') options.minutes = std::atof(value);
  if (option == 's') options.spinners = std::atoi(value);
  return (options.engine == "fake" || options.engine == "model") && options.minutes > 0 &&
         options.spinners >= 0;
}

}  // namespace

int run_cases(int argc, char** argv, const char* name, const char* usage,
              const std::vector<Case>& cases, const std::vector<std::string>& more) {
  Options options;
  std::string only;
  const auto takes = [&](const char* option) {
    return std::find(more.begin(), more.end(), option) != more.end();
  };
  Program program{name, usage, {}, {}, {}};
  program.options = {{"quick", no_argument, nullptr, 'q'},
                     {"only", required_argument, nullptr, 'o'}};
  for (const option& one : kExtraOptions) {
    if (takes(one.name)) program.options.push_back(one);
  }
  program.take = [&](int option, const char* value) {
    return set_option(options, only, option, value);
  };
  program.run = [&](const RunPaths& paths, Report& report) {
    options.programs = paths.programs;
    options.model = paths.model;
    options.scratch = paths.scratch;
    return run_named(cases, only, options, takes("engine"), report);
  };
  return run_program(argc, argv, program);
}

}  // namespace holdfast::bench
