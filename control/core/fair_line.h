#pragma once
// A line of jobs in which tenants take turns: who was given least goes next, by what its jobs cost
// (start-time fair queueing).

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace holdfast::core {

class FairLine {
 public:
  using Id = std::uint64_t;
  struct Job {
    Id id = 0;
    std::int64_t cost = 0;
  };

  /// `id` is not in here. Of a tenant's jobs the smallest goes first.
  void push(const std::string& tenant, Id id, std::int64_t cost);
  /// Takes the next one out.
  std::optional<Id> pop();
  /// Takes the next one out that costs at most so much. What costs more keeps its place.
  std::optional<Job> pop_job(std::int64_t cost_max);
  /// False if it is not in here.
  bool remove(Id id);
  std::size_t size() const { return where_.size(); }
  std::size_t size(const std::string& tenant) const;
  /// The newest of the tenant that has most in here, if that is more than `than`.
  std::optional<Id> newest_of_longest(std::size_t than) const;

 private:
  struct Tenant {
    double served = 0;
    std::map<Id, std::int64_t> jobs;  // with their cost
  };
  using Places = std::set<std::pair<double, std::string>>;  // least served first
  void serve(Places::iterator place, const Job& job);
  void take_out(const std::string& name, Id id);

  std::map<std::string, Tenant> tenants_;
  Places waiting_;  // tenants with jobs
  Places ahead_;    // without, but served beyond `now_`
  std::unordered_map<Id, std::string> where_;
  double now_ = 0;
};

}  // namespace holdfast::core
