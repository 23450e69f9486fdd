#pragma once
// Runs one cell after the other: made-up weights in a scratch folder, `holdfast bench` on them, the
// figures into the report and its record.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/lib/program.h"
#include "bench/matrix_run/cells.h"

namespace holdfast::bench {

struct MatrixOptions {
  std::string only, kernels, markdown;
  int threads = 2;
  double minutes = 10;  // at most, for a cell
  bool quick = false;
};

/// Measures cells. Not thread-safe.
class MatrixRunner {
 public:
  MatrixRunner(const MatrixOptions& options, const RunPaths& paths, Report& report)
      : options_(options), paths_(paths), report_(report) {}

  /// Takes over the record of an earlier run. kConflict where it was measured with other sources,
  /// on another machine or in another mode; errors of read_report except kNotFound.
  Result<void> resume();
  /// Measures every cell that the report does not have yet. A failure is a problem of the report,
  /// and the next cell follows. Errors: the record cannot be written.
  Result<void> run(const std::vector<Cell>& cells);

 private:
  void run_cell(const Cell& cell);
  Result<std::string> model_file(const Cell& cell);
  bool fits_memory(const Cell& cell, const std::string& file);
  bool takes_too_long(const std::optional<double>& seconds) const;
  void time_prefill(const Cell& cell, const std::string& file);
  void time_decode(const Cell& cell, const std::string& file);
  void bench(const Cell& cell, const std::string& what, const std::string& flags);
  void take_figures(const Cell& cell, const std::string& what, const std::string& out,
                    double steal);
  void drop_model();
  void show_progress(const std::vector<Cell>& cells, std::size_t at) const;
  double limit_s() const { return 60 * options_.minutes; }
  std::string holdfast() const;

  const MatrixOptions& options_;
  const RunPaths& paths_;
  Report& report_;
  CellTimeModel time_model_;
  std::set<std::string> completed_;  // cells
  std::string model_, file_;         // the model in the scratch folder
  std::string model_failure_;        // why it is missing
};

}  // namespace holdfast::bench
