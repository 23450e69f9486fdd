// bench/control: how fast the control plane is, measured on the real programs with the fake engine.

#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/control_plane/cases.h"

namespace {

namespace fs = std::filesystem;
using namespace holdfast::bench;

constexpr char kUsage[] =
    "usage: holdfast-bench-control [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                              [--model FILE.gguf] [--record FILE]\n"
    "Starts daemon, workers (fake engine) and clients on a new state directory below DIR and\n"
    "measures. Cases: disk, admission, tokens, restart, failures, cancel, burst.\n";

struct Arguments {
  Options options;
  bool json = false;
  std::string only, record, dir;
};

bool parse(int argc, char** argv, Arguments& a) {
  static const option kOptions[] = {{"json", no_argument, nullptr, 'j'},
                                    {"quick", no_argument, nullptr, 'q'},
                                    {"only", required_argument, nullptr, 'o'},
                                    {"dir", required_argument, nullptr, 'd'},
                                    {"model", required_argument, nullptr, 'm'},
                                    {"record", required_argument, nullptr, 'r'},
                                    {nullptr, 0, nullptr, 0}};
  int c = 0;
  while ((c = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (c == 'j') a.json = true;
    if (c == 'q') a.options.quick = true;
    if (c == 'o') a.only = "," + std::string(optarg) + ",";
    if (c == 'd') a.dir = optarg;
    if (c == 'm') a.options.model = optarg;
    if (c == 'r') a.record = optarg;
    if (c == '?') return false;
  }
  return optind == argc;
}

bool run_cases(const Arguments& a, Report& report) {
  bool any = false;
  for (const Case& one : all_cases()) {
    if (!a.only.empty() && a.only.find("," + std::string(one.name) + ",") == std::string::npos) {
      continue;
    }
    any = true;
    std::fprintf(stderr, "%s\n", one.name);
    const CpuTicks before = read_cpu_ticks();
    const holdfast::Result<void> done = one.run(a.options, report);
    if (!done) report.problem(std::string(one.name) + ": " + done.error().what);
    report.add(std::string(one.name) + ".steal", steal_percent(before, read_cpu_ticks()), "%");
  }
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  a.options.model = HOLDFAST_BENCH_MODEL;
  a.dir = fs::temp_directory_path().string();
  if (!parse(argc, argv, a)) return std::fputs(kUsage, stderr), 2;
  a.options.programs = fs::read_symlink("/proc/self/exe").parent_path().string();
  std::string scratch = a.dir + "/hf-bench-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) {
    std::fprintf(stderr, "bench: cannot make a folder in %s; give another with --dir\n",
                 a.dir.c_str());
    return 1;
  }
  a.options.scratch = scratch;
  Report report("control");
  describe_machine(scratch, report);
  report.fact("mode", a.options.quick ? "quick: figures mean little" : "full");
  const bool any = run_cases(a, report);
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  if (!any) return std::fputs(kUsage, stderr), 2;
  std::printf("%s\n", a.json ? report.json().c_str() : report.table().c_str());
  if (!a.record.empty()) std::ofstream(a.record) << report.json() << "\n";
  return report.problems().empty() ? 0 : 1;
}
