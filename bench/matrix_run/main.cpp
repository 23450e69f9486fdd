// bench/matrix: the project's standard matrix, one cell after the other, into one record.

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/matrix_run/runner.h"
#include "bench/matrix_run/table.h"

namespace {

using namespace holdfast::bench;

constexpr char kUsage[] =
    "usage: holdfast-bench-matrix [--only CELL[,CELL…]] [--quick] [--threads N] [--kernels NAME]\n"
    "                             [--minutes N] [--markdown FILE] [--dir DIR] [--record FILE] "
    "[--json]\n"
    "Makes models with random weights in the scratch folder (--dir), one at a time, and measures\n"
    "prefill (one stream, from an empty context) and decoding with `holdfast bench`. A cell is\n"
    "SHAPE/TYPE/CONTEXT/STREAMS: 0.5B, 1.5B, 3B, 7B; Q4_0, Q4_K_M, Q8_0, BF16; 512, 2048, 4096, "
    "32768\n"
    "tokens that a stream has when its decoding ends; 1, 4, 16, 64 streams. --only takes patterns\n"
    "as of file names ('0.5B/Q4*/512/*'). A cell that fits neither memory nor --minutes (10) is\n"
    "skipped, and the record says why. Decoding goes behind contexts that are assumed (bench\n"
    "--assume-context). Three samples of each rate; of prefill beyond 2,048 tokens one.\n"
    "The record is written after each cell; a run that finds it goes on where it ended.\n"
    "--markdown: the table for docs/benchmarks.md. --quick shows that it works, with a tiny "
    "model.\n";

bool take(MatrixOptions& options, int option, const char* value) {
  switch (option) {
    case 'o':
      return !(options.only = value).empty();
    case 'k':
      return !(options.kernels = value).empty();
    case 'm':
      return (options.minutes = std::atof(value)) > 0;
    case 't':
      return (options.threads = std::atoi(value)) > 0;
    case 'w':
      return !(options.markdown = value).empty();
    default:
      return options.quick = true;
  }
}

void write_markdown(const std::string& path, Report& report) {
  std::ofstream file(path);
  file << matrix_markdown(report);
  if (!file.flush()) report.problem("markdown " + path + ": cannot be written");
}

bool run(const MatrixOptions& options, const RunPaths& paths, Report& report) {
  const auto cells = cells_of(options.quick ? quick_axes() : standard_axes(), options.only);
  if (cells.empty()) return false;
  report.fact("threads", std::to_string(options.threads));
  report.fact("kernels", options.kernels.empty() ? "default" : options.kernels);
  report.fact("mode", options.quick ? "quick: figures mean little" : "full");
  report.fact("contexts", "assumed");
  MatrixRunner runner(options, paths, report);
  auto done = runner.resume();
  const bool ours = done.has_value();
  if (done) done = runner.run(cells);
  if (!done) report.problem(done.error().what);
  if (ours && !options.markdown.empty()) write_markdown(options.markdown, report);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  MatrixOptions options;
  Program program;
  program.name = "matrix";
  program.usage = kUsage;
  program.options = {
      {"only", required_argument, nullptr, 'o'},    {"quick", no_argument, nullptr, 'q'},
      {"threads", required_argument, nullptr, 't'}, {"kernels", required_argument, nullptr, 'k'},
      {"minutes", required_argument, nullptr, 'm'}, {"markdown", required_argument, nullptr, 'w'}};
  program.take = [&](int option, const char* value) { return take(options, option, value); };
  program.writes_record = true;
  program.run = [&](const RunPaths& paths, Report& report) { return run(options, paths, report); };
  return run_program(argc, argv, program);
}
