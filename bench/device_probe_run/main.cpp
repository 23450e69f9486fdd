// Asks a GPU what it can do: facts, launch costs, ceilings, bits of matrix units, and kernels side
// by side. Needs no library but libc, so that the program alone can be carried to the machine.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/device_probe_run/run.h"
#include "bench/lib/program.h"

namespace holdfast::bench::probe {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-device-probe [--device opencl:N] [--only CASE,...] [--quick]\n"
    "         [--seconds N] [--record FILE] [--json] [--ptx DIR] [--dump FILE]\n"
    "         [--base FILE]\n"
    "cases: facts launch ceilings bits kernels r3 step\n"
    "--seconds: what has not begun by then is left out (240)\n"
    "--ptx: a folder that gets the driver's binary of each program\n"
    "--base: the text of other product kernels of Q4_K, which run beside the present ones\n"
    "--dump: a file that gets inputs and outputs of some mma tiles\n";

struct Case {
  const char* name;
  void (*run)(Run&);
};
constexpr Case kCases[] = {{"facts", probe_facts},       {"launch", probe_launches},
                           {"ceilings", probe_ceilings}, {"bits", probe_bits},
                           {"kernels", probe_kernels},   {"r3", probe_r3},
                           {"step", probe_step}};

constexpr double kGraceSeconds = 45;  // of an item that began in time

/// Ends the process when an item hangs on the device. The record has all figures before it.
void end_when_hung(double seconds) {
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds + kGraceSeconds));
    std::fprintf(stderr, "bench: an item hangs on the device; gives up\n");
    _exit(3);
  }).detach();
}

bool take(Options& options, int option, const char* value) {
  if (option == 'd') options.device = value;
  if (option == 'o') options.only = value;
  if (option == 'q') options.quick = true;
  if (option == 's') options.seconds = std::atof(value);
  if (option == 'p') options.ptx = value;
  if (option == 'b') options.base = value;
  if (option == 'u') options.dump = value;
  return options.seconds > 0;
}

Result<opencl::Device> find_device(const std::string& name) {
  HOLDFAST_TRY(const opencl::Api* api, opencl::system_api());
  HOLDFAST_TRY(const std::vector<opencl::Device> found, opencl::select_devices(*api, name));
  return found.front();
}

bool run_cases(const Options& options, const RunPaths& paths, Report& report) {
  const Result<opencl::Device> device = find_device(options.device);
  if (!device) {
    std::fprintf(stderr, "bench: %s\n", device.error().what.c_str());
    report.problem(device.error().what);
    return true;
  }
  end_when_hung(options.seconds);
  Card card(*device, options.ptx);
  Run run(card, report, options, paths.record);
  run.fact("mode", options.quick ? "quick: figures mean little" : "full");
  bool any = false;
  for (const Case& one : kCases) {
    const std::string name = one.name;
    if (!options.only.empty() &&
        ("," + options.only + ",").find("," + name + ",") == std::string::npos) {
      continue;
    }
    any = true;
    std::fprintf(stderr, "%s (%.0f s left)\n", one.name, run.seconds_left());
    one.run(run);
    run.write_record();
  }
  return any;
}

}  // namespace
}  // namespace holdfast::bench::probe

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  probe::Options options;
  Program program{"device-probe", probe::kUsage, {}, {}, {}, true};
  program.options = {
      {"device", required_argument, nullptr, 'd'}, {"only", required_argument, nullptr, 'o'},
      {"quick", no_argument, nullptr, 'q'},        {"seconds", required_argument, nullptr, 's'},
      {"ptx", required_argument, nullptr, 'p'},    {"base", required_argument, nullptr, 'b'},
      {"dump", required_argument, nullptr, 'u'}};
  program.take = [&](int option, const char* value) { return probe::take(options, option, value); };
  program.run = [&](const RunPaths& paths, Report& report) {
    return probe::run_cases(options, paths, report);
  };
  return run_program(argc, argv, program);
}
