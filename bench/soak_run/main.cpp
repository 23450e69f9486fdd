// bench/soak: hours of steady load while processes are killed; nothing may grow, nothing may fail.

#include <cstdlib>

#include "bench/lib/program.h"
#include "bench/soak_run/soak.h"

namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-soak [--hours H] [--kill-every S] [--share 0.7] [--json] [--dir DIR]\n"
    "                           [--model FILE.gguf] [--record FILE] [--engine fake|model]\n"
    "                           [--state DIR [--sum FILE]]\n"
    "Steady load on daemon, ingress helper and two workers with the fake engine (--engine model:\n"
    "with the real one, whose rate is measured first); every S seconds\n"
    "one of them is killed and started again, each sixth time the daemon (not in the second half, "
    "so\n"
    "that growth shows). H may be a fraction. --kill-every 0 kills nothing.\n"
    "--state DIR is a state directory that stays: hours of several days add up on it. --sum FILE "
    "is\n"
    "the record in which they do, over all runs so far.\n";

}  // namespace

namespace {

/// Sets an option by its letter. Returns false if the value is out of range.
bool set_option(holdfast::bench::SoakOptions& options, int option, const char* value) {
  if (option == 'e') {
    options.engine = value;
    return options.engine == "fake" || options.engine == "model";
  }
  if (option == 'd' || option == 'u') {
    (option == 'd' ? options.state : options.sum) = value;
    return *value != '\0';
  }
  const double number = std::atof(value);
  if (option == 'h') options.hours = number;
  if (option == 's') options.share = number;
  if (option == 'k') options.kill_every_s = number;
  return option == 'k' ? number >= 0 : number > 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  SoakOptions options;
  Program program{"soak", kUsage, {}, {}, {}};
  program.options = {
      {"hours", required_argument, nullptr, 'h'},      {"share", required_argument, nullptr, 's'},
      {"kill-every", required_argument, nullptr, 'k'}, {"engine", required_argument, nullptr, 'e'},
      {"state", required_argument, nullptr, 'd'},      {"sum", required_argument, nullptr, 'u'}};
  program.take = [&](int option, const char* value) { return set_option(options, option, value); };
  program.run = [&](const RunPaths& paths, Report& report) {
    if (!options.sum.empty() && options.state.empty()) return false;
    options.programs = paths.programs;
    options.model = paths.model;
    options.scratch = paths.scratch;
    const holdfast::Result<void> done = run_soak(options, report);
    if (!done) report.problem(done.error().what);
    return true;
  };
  return run_program(argc, argv, program);
}
