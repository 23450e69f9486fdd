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

  /// `id` is not in here. Of a tenant's jobs the smallest goes first.
  void push(const std::string& tenant, Id id, std::int64_t cost);
  /// Takes the next one out.
  std::optional<Id> pop();
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
  void take_out(const std::string& name, Id id);

  std::map<std::string, Tenant> tenants_;
  std::set<std::pair<double, std::string>> waiting_;  // tenants with jobs, least served first
  std::set<std::pair<double, std::string>> ahead_;    // without, but served beyond `now_`
  std::unordered_map<Id, std::string> where_;
  double now_ = 0;
};

}  // namespace holdfast::core
