#include "control/core/fair_line.h"

#include <algorithm>
#include <limits>

#include "shared/base/check.h"

namespace holdfast::core {

void FairLine::push(const std::string& tenant, Id id, std::int64_t cost) {
  CHECK_MSG(where_.emplace(id, tenant).second, "a job stands in line once");
  const auto [it, fresh] = tenants_.try_emplace(tenant);
  Tenant& of = it->second;
  if (of.jobs.empty()) {
    ahead_.erase({of.served, tenant});
    of.served = std::max(of.served, now_);
    waiting_.emplace(of.served, tenant);
  }
  of.jobs.emplace(id, std::max<std::int64_t>(cost, 1));
}

void FairLine::take_out(const std::string& name, Id id) {
  Tenant& of = tenants_.at(name);
  of.jobs.erase(id);
  where_.erase(id);
  if (!of.jobs.empty()) return;
  waiting_.erase({of.served, name});
  if (of.served > now_) {
    ahead_.emplace(of.served, name);
  } else {
    tenants_.erase(name);
  }
}

std::optional<FairLine::Id> FairLine::pop() {
  const auto job = pop_job(std::numeric_limits<std::int64_t>::max());
  return job ? std::optional(job->id) : std::nullopt;
}

std::optional<FairLine::Job> FairLine::pop_job(std::int64_t cost_max) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const auto& jobs = tenants_.at(it->second).jobs;
    const auto job = std::find_if(jobs.begin(), jobs.end(),
                                  [&](const auto& entry) { return entry.second <= cost_max; });
    if (job == jobs.end()) continue;
    const Job next{job->first, job->second};
    serve(it, next);
    return next;
  }
  return std::nullopt;
}

/// Gives the tenant's turn to this job.
void FairLine::serve(TenantsByService::iterator it, const Job& job) {
  const std::string name = it->second;
  Tenant& of = tenants_.at(name);
  now_ = std::max(now_, of.served);
  while (!ahead_.empty() && ahead_.begin()->first <= now_) {
    tenants_.erase(ahead_.begin()->second);
    ahead_.erase(ahead_.begin());
  }
  waiting_.erase(it);
  of.served += static_cast<double>(job.cost);
  waiting_.emplace(of.served, name);
  take_out(name, job.id);
}

bool FairLine::remove(Id id) {
  const auto it = where_.find(id);
  if (it == where_.end()) return false;
  const std::string name = it->second;
  take_out(name, id);
  return true;
}

std::size_t FairLine::size(const std::string& tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.jobs.size();
}

std::optional<FairLine::Id> FairLine::newest_of_longest(std::size_t than) const {
  const auto most = std::max_element(
      tenants_.begin(), tenants_.end(),
      [](const auto& a, const auto& b) { return a.second.jobs.size() < b.second.jobs.size(); });
  if (most == tenants_.end() || most->second.jobs.size() <= than) return std::nullopt;
  return most->second.jobs.rbegin()->first;
}

}  // namespace holdfast::core
