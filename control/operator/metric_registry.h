#pragma once
// Metrics for Prometheus: families of rows, as the operator verb `metrics` renders them. The
// gateway turns any of them into text.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/histogram.h"

namespace holdfast::daemon {

using Labels = std::vector<std::string>;  // values, in the order of the family's names

/// Buckets of a histogram: each bound is twice the one before it. They are powers of two of a
/// microsecond, where our histograms are exact: le = 2^first … 2^last µs, in seconds.
struct Bounds {
  int first = 10;
  int last = 29;
};

/// One metric: its name, and a number for each set of label values. Rows with the same labels add
/// up. Single-threaded.
class Family {
 public:
  Family(std::string_view name, std::string_view type, std::string_view help,
         std::vector<std::string_view> labels)
      : name_(name), type_(type), help_(help), labels_(std::move(labels)) {}

  Family& row(Labels labels, double value);
  Family& row(double value) { return row(Labels(), value); }
  /// Takes microseconds and gives seconds.
  Family& row(const Labels& labels, const Histogram& microseconds, Bounds bounds);
  nlohmann::json document() const;

 private:
  struct Timed {
    std::uint64_t count = 0;
    std::int64_t sum_us = 0;
    std::vector<std::uint64_t> buckets;  // cumulative
  };
  std::string_view name_, type_, help_;
  std::vector<std::string_view> labels_;
  Bounds bounds_;
  std::map<Labels, double> rows_;
  std::map<Labels, Timed> timed_;
};

/// All families, in the order in which they were begun. References to them stay valid.
class MetricRegistry {
 public:
  Family& counter(std::string_view name, std::string_view help,
                  std::vector<std::string_view> labels = {});
  Family& gauge(std::string_view name, std::string_view help,
                std::vector<std::string_view> labels = {});
  Family& histogram(std::string_view name, std::string_view help,
                    std::vector<std::string_view> labels = {});
  /// {"families": [{"name", "type", "help", "labels": […], "rows": [[[…], value]…]}…]}; of a
  /// histogram also "bounds" in seconds, and rows [[…], count, sum, [cumulative counts…]].
  nlohmann::json document() const;

 private:
  std::vector<Family> families_ = reserved();
  static std::vector<Family> reserved();
  Family& begin(std::string_view name, std::string_view type, std::string_view help,
                std::vector<std::string_view> labels);
};

/// Label values from a bounded set: a name that does not fit is "other".
class Names {
 public:
  explicit Names(std::size_t most) : most_(most) {}
  void add(const std::string& name) {
    if (names_.size() < most_) names_.insert(name);
  }
  const std::string& of(const std::string& name) const;

 private:
  std::size_t most_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace holdfast::daemon
