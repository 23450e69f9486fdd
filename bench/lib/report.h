#pragma once
// What a bench found: figures with their goals, in the order in which they were added, as a table
// and as one JSON document. Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "bench/lib/stats.h"

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
  /// Something that went wrong in the run itself: the figures are not to be trusted.
  void problem(const std::string& what) { problems_.push_back(what); }

  const Figure* find(const std::string& name) const;
  const std::vector<Figure>& figures() const { return figures_; }
  const std::vector<std::string>& problems() const { return problems_; }
  std::string json() const;
  std::string table() const;

 private:
  struct Fact {
    std::string name, value;
  };
  std::string kind_;
  std::vector<Fact> facts_;
  std::vector<Figure> figures_;
  std::vector<std::string> problems_;
};

/// The facts that stand beside every figure: processor, kernel, file system of `dir`, load.
void describe_machine(const std::string& dir, Report& report);

}  // namespace holdfast::bench
