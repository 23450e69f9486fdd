#include "control/operator/metric_registry.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kFamiliesMax = 128;

}  // namespace

Family& Family::row(Labels labels, double value) {
  CHECK(labels.size() == labels_.size());
  rows_[std::move(labels)] += value;
  return *this;
}

Family& Family::row(const Labels& labels, const Histogram& microseconds, Bounds bounds) {
  CHECK(labels.size() == labels_.size());
  bounds_ = bounds;
  Timed& timed = timed_[labels];
  timed.count += microseconds.count();
  timed.sum_us += microseconds.sum();
  timed.buckets.resize(static_cast<std::size_t>(bounds.last - bounds.first + 1));
  for (int bit = bounds.first; bit <= bounds.last; ++bit) {
    // Times are cut to whole microseconds, so one below 2^n is 2^n - 1 at most.
    timed.buckets[static_cast<std::size_t>(bit - bounds.first)] +=
        microseconds.count_up_to((std::int64_t{1} << bit) - 1);
  }
  return *this;
}

json Family::document() const {
  json rows = json::array();
  for (const auto& [labels, value] : rows_) rows.push_back({labels, value});
  for (const auto& [labels, timed] : timed_) {
    rows.push_back({labels, timed.count, static_cast<double>(timed.sum_us) / 1e6, timed.buckets});
  }
  json document = {{"name", name_},
                   {"type", type_},
                   {"help", help_},
                   {"labels", labels_},
                   {"rows", std::move(rows)}};
  if (type_ == "histogram") {
    json bounds = json::array();
    for (int bit = bounds_.first; bit <= bounds_.last; ++bit) {
      bounds.push_back(static_cast<double>(std::int64_t{1} << bit) / 1e6);
    }
    document["bounds"] = std::move(bounds);
  }
  return document;
}

std::vector<Family> MetricRegistry::reserved() {
  std::vector<Family> families;
  families.reserve(kFamiliesMax);
  return families;
}

Family& MetricRegistry::begin(std::string_view name, std::string_view type, std::string_view help,
                              std::vector<std::string_view> labels) {
  CHECK_MSG(families_.size() < kFamiliesMax, "references to families stay valid");
  return families_.emplace_back(name, type, help, std::move(labels));
}

Family& MetricRegistry::counter(std::string_view name, std::string_view help,
                                std::vector<std::string_view> labels) {
  return begin(name, "counter", help, std::move(labels));
}

Family& MetricRegistry::gauge(std::string_view name, std::string_view help,
                              std::vector<std::string_view> labels) {
  return begin(name, "gauge", help, std::move(labels));
}

Family& MetricRegistry::histogram(std::string_view name, std::string_view help,
                                  std::vector<std::string_view> labels) {
  return begin(name, "histogram", help, std::move(labels));
}

json MetricRegistry::document() const {
  json families = json::array();
  for (const Family& family : families_) families.push_back(family.document());
  return {{"families", std::move(families)}};
}

const std::string& Names::of(const std::string& name) const {
  static const std::string kOther = "other";
  return names_.count(name) > 0 ? name : kOther;
}

}  // namespace holdfast::daemon
