#pragma once
// The results of a bench: figures with their goals, in the order in which they were added, as a
// table and as one JSON document. Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "bench/lib/stats.h"
#include "shared/base/result.h"

namespace holdfast::bench {

enum class Better : bool { kLower, kHigher };

struct Goal {
  double value = 0;
  Better better = Better::kLower;
};

struct Figure {
  std::string name;  // "admission.rate_128"
  std::string unit;
  double value = 0;
  std::optional<Goal> goal;
  std::string note;
  std::optional<Better> better;  // the good direction where no goal says it
  std::vector<double> samples;   // their median is `value`; for bench/compare
  /// True without a goal.
  bool meets_goal() const;
};

/// Figures, facts about the machine, skipped figures and problems of one run.
class Report {
 public:
  explicit Report(std::string kind) : kind_(std::move(kind)) {}
  void fact(const std::string& name, const std::string& value) { facts_.push_back({name, value}); }
  void add(Figure figure);
  void add(const std::string& name, double value, const std::string& unit,
           std::optional<Goal> goal = std::nullopt, const std::string& note = "");
  /// Adds name.p50, .p95, .p99, .max and .n; `goal` belongs to the percentile `goal_of`.
  void add(const std::string& name, const Summary& summary, const std::string& unit,
           const std::string& goal_of = "", std::optional<Goal> goal = std::nullopt);
  /// Adds a figure of an earlier run, unchanged.
  void restore(Figure figure) { figures_.push_back(std::move(figure)); }
  /// Adds the median of the samples, and the samples themselves.
  void add_samples(const std::string& name, std::vector<double> samples, const std::string& unit,
                   Better better, std::optional<Goal> goal = std::nullopt,
                   const std::string& note = "");
  /// Notes a figure that is not measured, and the reason.
  void skip(const std::string& name, const std::string& reason) {
    skipped_.push_back({name, reason});
  }
  /// Notes a failure of the run itself: its figures are not to be trusted.
  void problem(const std::string& what) { problems_.push_back(what); }

  const Figure* find(const std::string& name) const;
  const std::vector<Figure>& figures() const { return figures_; }
  struct Fact {
    std::string name, value;
  };
  const std::vector<Fact>& facts() const { return facts_; }
  const std::vector<Fact>& skipped() const { return skipped_; }
  const std::string& kind() const { return kind_; }
  const std::vector<std::string>& problems() const { return problems_; }
  std::string json() const;
  std::string table() const;

 private:
  std::string kind_;
  std::vector<Fact> facts_;
  std::vector<Fact> skipped_;
  std::vector<Figure> figures_;
  std::vector<std::string> problems_;
};

/// A report from a report's JSON (a record), or from what `holdfast --json bench` prints.
/// kFileInvalid with the cause.
Result<Report> parse_report(const std::string& text);
/// The same from a file. kNotFound, kIo.
Result<Report> read_report(const std::string& path);
/// Writes the JSON to a file, whole or not at all. kIo.
Result<void> write_report(const Report& report, const std::string& path);

/// Adds the facts that a record has with its figures: processor, kernel, file system of `dir`,
/// load.
void describe_machine(const std::string& dir, Report& report);

}  // namespace holdfast::bench
