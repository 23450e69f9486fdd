#include "control/core/usage_tracker.h"

#include "shared/base/check.h"

namespace holdfast::core {

void UsageTracker::add(UsageCounters& used, const UsageCounters& change, int sign) {
  const auto one = [sign](std::int64_t& value, std::int64_t by) {
    value += sign * by;
    CHECK_MSG(value >= 0, "nothing leaves that did not come");
  };
  one(used.requests, change.requests);
  one(used.waiting, change.waiting);
  one(used.bytes, change.bytes);
  one(used.running, change.running);
  one(used.pages, change.pages);
}

void UsageTracker::add(CountersByName& counters, const std::string& name,
                       const UsageCounters& change, int sign) {
  const auto it = counters.try_emplace(name).first;
  add(it->second, change, sign);
  // Clients choose the names: empty entries must not pile up.
  if (it->second == UsageCounters()) counters.erase(it);
}

const UsageCounters& UsageTracker::of(const CountersByName& counters, const std::string& name) {
  static const UsageCounters none;
  const auto it = counters.find(name);
  return it == counters.end() ? none : it->second;
}

void UsageTracker::count_request(const RequestRow& row, std::int64_t bytes, int sign) {
  const UsageCounters change{1, 0, bytes, 0, 0};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
}

void UsageTracker::count_waiting(const RequestRow& row, int sign) {
  const UsageCounters change{0, 1, 0, 0, 0};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
}

void UsageTracker::count_running(const RequestRow& row, const std::string& worker_key,
                                 std::int64_t pages, int sign) {
  const UsageCounters change{0, 0, 0, 1, pages};
  add(all_, change, sign);
  add(tenants_, row.tenant, change, sign);
  add(models_, row.model, change, sign);
  add(workers_, worker_key, change, sign);
}

void UsageTracker::count_bound(const RequestRow& row, int sign) {
  if (row.numerics_class.empty()) return;
  const auto it = bound_.try_emplace({row.model, row.numerics_class}, 0).first;
  it->second += sign;
  CHECK_MSG(it->second >= 0, "nothing leaves that did not come");
  if (it->second == 0) bound_.erase(it);
}

std::int64_t UsageTracker::bound_to(const std::string& model,
                                    const std::string& class_start) const {
  std::int64_t count = 0;
  const std::string start = class_start + "/";
  for (auto it = bound_.lower_bound({model, start}); it != bound_.end(); ++it) {
    if (it->first.first != model || !it->first.second.starts_with(start)) break;
    count += it->second;
  }
  return count;
}

}  // namespace holdfast::core
