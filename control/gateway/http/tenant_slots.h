#pragma once
// Slots for work that runs at once, such as uploads. A slot belongs to a tenant, which has at most
// half of them. A tenant that finds none waits in line; a free slot goes to the tenant that has
// fewest, among equals to the one that has waited longest.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace holdfast::gateway {

/// A number of slots shared by tenants. Thread-safe; never calls out while it holds its lock.
class TenantSlots : public std::enable_shared_from_this<TenantSlots> {
 public:
  using Slot = std::shared_ptr<void>;  // free again when the last copy is gone
  using Granted = std::function<void(Slot)>;
  static constexpr std::size_t kWaitingMax = 64;  // of one tenant
  explicit TenantSlots(int slots, std::size_t waiting_max = kWaitingMax)
      : slots_(slots), waiting_max_(waiting_max) {}

  /// Runs `granted` when there is a slot, at once or later, on any thread. The slot is free again
  /// when its last copy is dropped. Returns false if too many of the tenant wait already.
  bool take(const std::string& tenant, Granted granted);
  /// True if somebody waits.
  bool has_waiters() const;

 private:
  struct Tenant {
    int held = 0;
    std::deque<std::pair<std::uint64_t, Granted>> waiting;  // by order over all tenants
  };
  void give_back(const std::string& tenant);
  void grant();
  Slot make(const std::string& tenant);

  const int slots_;
  const std::size_t waiting_max_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;
  int held_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace holdfast::gateway
