// bench/soak: hours of steady load while processes are killed; nothing may grow, nothing may fail.

#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/soak_run/soak.h"

namespace {

namespace fs = std::filesystem;
using namespace holdfast::bench;

constexpr char kUsage[] =
    "usage: holdfast-bench-soak [--hours H] [--kill-every S] [--share 0.7] [--json] [--dir DIR]\n"
    "                           [--model FILE.gguf] [--record FILE]\n"
    "Steady load on daemon, ingress helper and two workers with the fake engine; every S seconds\n"
    "one of them is killed and started again, each sixth time the daemon (not in the second half, "
    "so\n"
    "that growth shows). H may be a fraction.\n";

struct Arguments {
  SoakOptions options;
  bool json = false;
  std::string dir, record;
};

bool parse(int argc, char** argv, Arguments& a) {
  static const option kOptions[] = {
      {"json", no_argument, nullptr, 'j'},         {"hours", required_argument, nullptr, 'h'},
      {"share", required_argument, nullptr, 's'},  {"kill-every", required_argument, nullptr, 'k'},
      {"dir", required_argument, nullptr, 'd'},    {"model", required_argument, nullptr, 'm'},
      {"record", required_argument, nullptr, 'r'}, {nullptr, 0, nullptr, 0}};
  int c = 0;
  while ((c = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (c == 'j') a.json = true;
    if (c == 'h') a.options.hours = std::atof(optarg);
    if (c == 's') a.options.share = std::atof(optarg);
    if (c == 'k') a.options.kill_every_s = std::atof(optarg);
    if (c == 'd') a.dir = optarg;
    if (c == 'm') a.options.model = optarg;
    if (c == 'r') a.record = optarg;
    if (c == '?') return false;
  }
  return optind == argc && a.options.hours > 0 && a.options.kill_every_s > 0 && a.options.share > 0;
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
  Report report("soak");
  describe_machine(scratch, report);
  const holdfast::Result<void> done = run_soak(a.options, report);
  if (!done) report.problem(done.error().what);
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  std::printf("%s\n", a.json ? report.json().c_str() : report.table().c_str());
  if (!a.record.empty()) std::ofstream(a.record) << report.json() << "\n";
  return report.problems().empty() ? 0 : 1;
}
