#pragma once
// Usage: how much there is right now of all, of each tenant, model and worker. Bounds are compared
// with it.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "control/core/rows.h"

namespace holdfast::core {

/// The use of the requests of a tenant or of a model.
struct UsageCounters {
  std::int64_t requests = 0;  // not ended
  std::int64_t waiting = 0;   // of them: queued
  std::int64_t bytes = 0;     // of their prompts
  std::int64_t running = 0;   // choices on a worker, or waiting for theirs to come back
  std::int64_t pages = 0;     // KV pages that they may come to need
  bool operator==(const UsageCounters&) const = default;
};

/// Usage by tenant, by model and in all, from which admission decides. Not thread-safe.
class UsageTracker {
 public:
  /// Counts a request that has not ended and comes (+1) or ends (-1).
  void count_request(const RequestRow& row, std::int64_t bytes, int sign);
  /// Counts a request that begins (+1) or stops (-1) to wait.
  void count_waiting(const RequestRow& row, int sign);
  /// Counts a request that has a numerics class and has not ended (+1), or ends (-1).
  void count_bound(const RequestRow& row, int sign);
  /// Counts a choice of a request that begins (+1) or stops (-1) to run.
  void count_running(const RequestRow& row, const std::string& worker_key, std::int64_t pages,
                     int sign);

  const UsageCounters& all() const { return all_; }
  const UsageCounters& tenant(const std::string& name) const { return of(tenants_, name); }
  const UsageCounters& model(const std::string& name) const { return of(models_, name); }
  const UsageCounters& worker(const std::string& key) const { return of(workers_, key); }
  /// Requests that have not ended and are bound to a numerics class, by model and class.
  using BoundRequests = std::map<std::pair<std::string, std::string>, std::int64_t>;
  const BoundRequests& bound() const { return bound_; }
  /// Returns how many of a model's are bound to classes that begin with `class_start`, whole parts.
  std::int64_t bound_to(const std::string& model, const std::string& class_start) const;

 private:
  using CountersByName = std::unordered_map<std::string, UsageCounters>;
  static const UsageCounters& of(const CountersByName& counters, const std::string& name);
  static void add(UsageCounters& used, const UsageCounters& change, int sign);
  static void add(CountersByName& counters, const std::string& name, const UsageCounters& change,
                  int sign);
  UsageCounters all_;
  CountersByName tenants_, models_, workers_;
  BoundRequests bound_;
};

}  // namespace holdfast::core
