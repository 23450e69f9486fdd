#pragma once
// A line of jobs in which tenants take turns: the tenant that was given least, by the cost of its
// jobs, goes next (start-time fair queueing).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace holdfast::core {

/// A line of jobs in which tenants take turns. Not thread-safe.
class FairLine {
 public:
  using Id = std::uint64_t;
  struct Job {
    Id id = 0;
    std::int64_t cost = 0;
  };

  /// Puts a job in line that is not there yet. The smallest id of a tenant goes first.
  void push(const std::string& tenant, Id id, std::int64_t cost);
  /// Takes the next job out; nullopt if there is none.
  std::optional<Id> pop();
  /// Takes out the next job that costs at most `cost_max`. Jobs that cost more stay where they are.
  std::optional<Job> pop_job(std::int64_t cost_max);
  /// Takes a job out. False if it is not in line.
  bool remove(Id id);
  std::size_t size() const { return where_.size(); }
  std::size_t size(const std::string& tenant) const;
  /// Returns the newest job of the tenant that has most in line, if that is more than `than`.
  std::optional<Id> newest_of_longest(std::size_t than) const;

 private:
  struct Tenant {
    double served = 0;
    std::map<Id, std::int64_t> jobs;  // with their cost
  };
  using TenantsByService = std::set<std::pair<double, std::string>>;  // least served first
  void serve(TenantsByService::iterator it, const Job& job);
  void take_out(const std::string& name, Id id);

  std::map<std::string, Tenant> tenants_;
  TenantsByService waiting_;  // with jobs
  TenantsByService ahead_;    // without jobs, but served beyond `now_`
  std::unordered_map<Id, std::string> where_;
  double now_ = 0;
};

}  // namespace holdfast::core
