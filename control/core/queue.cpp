#include "control/core/queue.h"

#include <algorithm>

#include "control/core/planted.h"
#include "shared/base/check.h"

namespace holdfast::core {
namespace {

std::size_t class_index(PriorityClass priority) {
  if (planted(Bug::kPriorityIgnored)) return 1;
  return std::min<std::size_t>(static_cast<std::size_t>(priority), 2);
}

}  // namespace

WorkQueue::Rank WorkQueue::rank_of(const QueueItem& item) {
  return {static_cast<int>(class_index(item.priority)), item.resumed ? 0 : 1, item.ref};
}

void WorkQueue::push(const QueueItem& item) {
  CHECK_MSG(items_.emplace(item.ref, item).second, "a choice is queued once");
  ranks_.insert(rank_of(item));
  Class& in = classes_[class_index(item.priority)];
  if (item.resumed) {
    in.resumed.insert(item.ref);
    return;
  }
  Tenant& tenant = in.tenants[item.tenant];
  if (tenant.waiting.empty()) {
    // Who was away does not save up what it did not use.
    tenant.served = std::max(tenant.served, in.now);
    in.active.emplace(tenant.served, item.tenant);
  }
  tenant.waiting.insert(item.ref);
}

void WorkQueue::take_out(const QueueItem& item) {
  ranks_.erase(rank_of(item));
  Class& in = classes_[class_index(item.priority)];
  if (item.resumed) {
    in.resumed.erase(item.ref);
    return;
  }
  const auto it = in.tenants.find(item.tenant);
  CHECK(it != in.tenants.end());
  it->second.waiting.erase(item.ref);
  if (!it->second.waiting.empty()) return;
  in.active.erase({it->second.served, item.tenant});
  if (it->second.served <= in.now) in.tenants.erase(it);
}

bool WorkQueue::remove(ChoiceRef ref) {
  const auto it = items_.find(ref);
  if (it == items_.end()) return false;
  take_out(it->second);
  items_.erase(it);
  return true;
}

const QueueItem* WorkQueue::head(const MayRun& may) const {
  for (const Class& in : classes_) {
    for (const ChoiceRef& ref : in.resumed) {
      const QueueItem& item = items_.at(ref);
      if (!may || may(item)) return &item;
    }
    for (const auto& [served, tenant] : in.active) {
      const std::set<ChoiceRef>& waiting = in.tenants.at(tenant).waiting;
      const QueueItem& item =
          items_.at(planted(Bug::kNewestFirst) ? *waiting.rbegin() : *waiting.begin());
      if (!may || may(item)) return &item;
    }
  }
  return nullptr;
}

void WorkQueue::take(ChoiceRef ref, std::int64_t weight) {
  const auto it = items_.find(ref);
  CHECK_MSG(it != items_.end(), "what is taken waits");
  const QueueItem& item = it->second;
  if (!item.resumed) {
    Class& in = classes_[class_index(item.priority)];
    Tenant& tenant = in.tenants.at(item.tenant);
    in.now = std::max(in.now, tenant.served);
    in.active.erase({tenant.served, item.tenant});
    tenant.served += static_cast<double>(std::max<std::int64_t>(item.cost, 1)) /
                     static_cast<double>(std::max<std::int64_t>(weight, 1));
    in.active.emplace(tenant.served, item.tenant);
  }
  remove(ref);
}

std::int64_t WorkQueue::position(ChoiceRef ref) const {
  const auto it = items_.find(ref);
  if (it == items_.end()) return -1;
  return static_cast<std::int64_t>(ranks_.order_of_key(rank_of(it->second)));
}

std::vector<WorkQueue::Waiting> WorkQueue::tallies() const {
  std::vector<Waiting> all;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const auto priority = static_cast<PriorityClass>(i);
    for (const auto& [tenant, in] : classes_[i].tenants) {
      if (in.waiting.empty()) continue;
      all.push_back(
          {priority, tenant, static_cast<std::int64_t>(in.waiting.size()), *in.waiting.begin()});
    }
    // At most what was running once.
    for (const ChoiceRef& ref : classes_[i].resumed) {
      all.push_back({priority, items_.at(ref).tenant, 1, ref});
    }
  }
  return all;
}

bool goes_before(const QueueItem& a, const QueueItem& b) {
  return std::make_tuple(class_index(a.priority), a.resumed ? 0 : 1, a.ref) <
         std::make_tuple(class_index(b.priority), b.resumed ? 0 : 1, b.ref);
}

}  // namespace holdfast::core
