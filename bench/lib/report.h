#pragma once
// What a bench found: figures with their goals, in the order in which they were added, as a table
// and as one JSON document. Not thread-safe.

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
  std::optional<Better> better;  // where there is no goal that says it
  std::vector<double> samples;   // of which `value` is the median, for bench/compare
  /// True without a goal.
  bool met() const;
};

class Report {
 public:
  explicit Report(std::string kind) : kind_(std::move(kind)) {}
  void fact(const std::string& name, const std::string& value) { facts_.push_back({name, value}); }
  void add(Figure figure);
  void add(const std::string& name, double value, const std::string& unit,
           std::optional<Goal> goal = std::nullopt, const std::string& note = "");
  /// name.p50, .p95, .p99, .max and .n; `goal` belongs to the percentile that is named.
  void add(const std::string& name, const Summary& summary, const std::string& unit,
           const std::string& goal_of = "", std::optional<Goal> goal = std::nullopt);
  /// A figure of an earlier run, as it was.
  void restore(Figure figure) { figures_.push_back(std::move(figure)); }
  /// The median of the samples; they are kept.
  void add_samples(const std::string& name, std::vector<double> samples, const std::string& unit,
                   Better better, std::optional<Goal> goal = std::nullopt,
                   const std::string& note = "");
  /// What was not measured, and why.
  void skip(const std::string& name, const std::string& reason) {
    skipped_.push_back({name, reason});
  }
  /// Something that went wrong in the run itself: the figures are not to be trusted.
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

/// A report's JSON (a record) as a report again, or what `holdfast --json bench` prints.
/// kFileInvalid with what is wrong.
Result<Report> parse_report(const std::string& text);
/// As above from a file. kNotFound, kIo.
Result<Report> read_report(const std::string& path);
/// The JSON into a file, at once or not at all. kIo.
Result<void> write_report(const Report& report, const std::string& path);

/// The facts that stand beside every figure: processor, kernel, file system of `dir`, load.
void describe_machine(const std::string& dir, Report& report);

}  // namespace holdfast::bench
