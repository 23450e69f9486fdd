// bench/scale: the control plane's state machine with many nodes, loads and streams.

#include <cstdlib>

#include "bench/lib/program.h"
#include "bench/scale_run/scale.h"

namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-scale [--nodes N] [--models M] [--slots S] [--streams C]\n"
    "                            [--requests R] [--groups G] [--seconds T] [--json]\n"
    "                            [--record FILE]\n"
    "Drives the state machine with N nodes of one worker each, ten loads a worker, C running\n"
    "streams; R requests a second arrive while as many end, each worker sends tokens of all its\n"
    "streams G times a second. Times are of one core, without sockets and without the database.\n";

/// Sets an option by its letter. Returns false if the value is out of range.
bool set_option(holdfast::bench::ScaleOptions& options, int option, const char* value) {
  const double number = std::atof(value);
  if (option == 'g') options.token_groups_s = number;
  if (option == 'r') options.requests_s = number;
  if (option == 't') options.seconds = number;
  if (option == 'n') options.nodes = static_cast<int>(number);
  if (option == 'm') options.models = static_cast<int>(number);
  if (option == 's') options.slots = static_cast<int>(number);
  if (option == 'c') options.streams = static_cast<int>(number);
  return option == 'g' ? number >= 0 : number > 0 && number < 1e7;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  ScaleOptions options;
  Program program{"scale", kUsage, {}, {}, {}};
  program.options = {
      {"nodes", required_argument, nullptr, 'n'},    {"models", required_argument, nullptr, 'm'},
      {"slots", required_argument, nullptr, 's'},    {"streams", required_argument, nullptr, 'c'},
      {"requests", required_argument, nullptr, 'r'}, {"groups", required_argument, nullptr, 'g'},
      {"seconds", required_argument, nullptr, 't'}};
  program.take = [&](int option, const char* value) { return set_option(options, option, value); };
  program.run = [&](const RunPaths&, Report& report) {
    if (options.nodes * options.loads_of_a_worker % options.models != 0) return false;
    run_scale(options, report);
    return true;
  };
  return run_program(argc, argv, program);
}
