#include "bench/lib/program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace holdfast::bench {
namespace {

namespace fs = std::filesystem;

enum Common : int { kJson = 1000, kDir, kModel, kRecord, kHelp };

struct Arguments {
  RunPaths paths;
  bool json = false;
  bool help = false;
  std::string dir = fs::temp_directory_path().string();
};

bool parse(int argc, char** argv, const Program& program, Arguments& a) {
  std::vector<option> options = program.options;
  options.push_back({"json", no_argument, nullptr, kJson});
  options.push_back({"dir", required_argument, nullptr, kDir});
  options.push_back({"model", required_argument, nullptr, kModel});
  options.push_back({"record", required_argument, nullptr, kRecord});
  options.push_back({"help", no_argument, nullptr, kHelp});
  options.push_back({nullptr, 0, nullptr, 0});
  int c = 0;
  while ((c = getopt_long(argc, argv, "", options.data(), nullptr)) != -1) {
    if (c == '?') return false;
    if (c == kJson) {
      a.json = true;
    } else if (c == kHelp) {
      a.help = true;
    } else if (c == kDir) {
      a.dir = optarg;
    } else if (c == kModel) {
      a.paths.model = optarg;
    } else if (c == kRecord) {
      a.paths.record = optarg;
    } else if (!program.take(c, optarg)) {
      return false;
    }
  }
  return optind == argc;
}

/// Reports which sources were measured; the bench/ scripts set it.
void describe_build(Report& report) {
  if (const char* build = std::getenv("HOLDFAST_BENCH_BUILD")) report.fact("build", build);
}

Result<void> write_record(const Report& report, const std::string& record) {
  if (record.empty()) return {};
  return write_report(report, record);
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  Arguments a;
  a.paths.model = HOLDFAST_BENCH_MODEL;
  if (!parse(argc, argv, program, a)) return std::fputs(program.usage, stderr), 2;
  if (a.help) return std::fputs(program.usage, stdout), 0;
  a.paths.programs = fs::read_symlink("/proc/self/exe").parent_path().string();
  a.paths.scratch = a.dir + "/hf-bench-XXXXXX";
  if (mkdtemp(a.paths.scratch.data()) == nullptr) {
    std::fprintf(stderr, "bench: cannot make a folder in %s; give another with --dir\n",
                 a.dir.c_str());
    return 1;
  }
  Report report(program.name);
  describe_machine(a.paths.scratch, report);
  describe_build(report);
  const bool sensible = program.run(a.paths, report);
  std::error_code ignored;
  fs::remove_all(a.paths.scratch, ignored);
  if (!sensible) return std::fputs(program.usage, stderr), 2;
  std::printf("%s\n", a.json ? report.json().c_str() : report.table().c_str());
  const std::string record = program.writes_record ? "" : a.paths.record;
  if (const Result<void> written = write_record(report, record); !written) {
    return std::fprintf(stderr, "bench: %s\n", written.error().what.c_str()), 1;
  }
  return report.problems().empty() ? 0 : 1;
}

}  // namespace holdfast::bench
