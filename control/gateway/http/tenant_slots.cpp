#include "control/gateway/http/tenant_slots.h"

#include <algorithm>
#include <utility>

namespace holdfast::gateway {

TenantSlots::Slot TenantSlots::make(const std::string& tenant) {
  const std::weak_ptr<TenantSlots> weak = weak_from_this();
  return Slot(this, [weak, tenant](void*) {
    if (const auto self = weak.lock()) self->give_back(tenant);
  });
}

bool TenantSlots::take(const std::string& tenant, Granted granted) {
  {
    const std::lock_guard lock(mutex_);
    Tenant& of = tenants_[tenant];
    if (of.waiting.size() >= waiting_max_) return false;
    of.waiting.emplace_back(++last_, std::move(granted));
  }
  grant();
  return true;
}

bool TenantSlots::has_waiters() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(tenants_.begin(), tenants_.end(),
                     [](const auto& entry) { return !entry.second.waiting.empty(); });
}

void TenantSlots::give_back(const std::string& tenant) {
  {
    const std::lock_guard lock(mutex_);
    --held_;
    const auto it = tenants_.find(tenant);
    if (--it->second.held == 0 && it->second.waiting.empty()) tenants_.erase(it);
  }
  grant();
}

/// Grants all slots that can be granted, each outside of the lock.
void TenantSlots::grant() {
  const int most = std::max(slots_ / 2, 1);
  for (;;) {
    std::pair<std::uint64_t, Granted> next;
    Slot slot;
    {
      const std::lock_guard lock(mutex_);
      if (held_ >= slots_) return;
      auto best = tenants_.end();
      for (auto it = tenants_.begin(); it != tenants_.end(); ++it) {
        const Tenant& one = it->second;
        if (one.waiting.empty() || one.held >= most) continue;
        const auto rank = [](const Tenant& t) {
          return std::pair(t.held, t.waiting.front().first);
        };
        if (best == tenants_.end() || rank(one) < rank(best->second)) best = it;
      }
      if (best == tenants_.end()) return;
      next = std::move(best->second.waiting.front());
      best->second.waiting.pop_front();
      ++best->second.held;
      ++held_;
      slot = make(best->first);
    }
    next.second(std::move(slot));
  }
}

}  // namespace holdfast::gateway
