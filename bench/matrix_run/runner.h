#pragma once
// One cell after the other: made-up weights in a scratch folder, `holdfast bench` on them, the
// figures into the report and its record.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/lib/program.h"
#include "bench/matrix_run/cells.h"

namespace holdfast::bench {

struct MatrixWish {
  std::string only, kernels, markdown;
  int threads = 2;
  double minutes = 10;  // of a cell at most
  bool quick = false;
};

class MatrixRunner {
 public:
  MatrixRunner(const MatrixWish& wish, const Place& place, Report& report)
      : wish_(wish), place_(place), report_(report) {}

  /// Takes over what the record has from an earlier run. kConflict where that was measured with
  /// other sources, on another machine or in another way; errors of read_report but kNotFound.
  Result<void> resume();
  /// Every cell that is not in the report yet. What goes wrong with one is a problem of the report
  /// and the next one's turn. Errors: the record cannot be written.
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
  double limit_s() const { return 60 * wish_.minutes; }
  std::string holdfast() const;

  const MatrixWish& wish_;
  const Place& place_;
  Report& report_;
  Pace pace_;
  std::set<std::string> known_;  // cells
  std::string model_, file_;     // the one that lies in the scratch folder
  std::string model_failure_;    // why it does not
};

}  // namespace holdfast::bench
