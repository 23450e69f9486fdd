#pragma once
// Work that is done at once, as files that are taken. A slot belongs to a tenant, which has at most
// half of them; who finds none waits in line, and a free one goes to the tenant that has fewest.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace holdfast::gateway {

/// Thread-safe.
class TenantSlots : public std::enable_shared_from_this<TenantSlots> {
 public:
  using Slot = std::shared_ptr<void>;  // free again when the last copy is gone
  using Granted = std::function<void(Slot)>;
  static constexpr std::size_t kWaitingMax = 64;  // of a tenant
  explicit TenantSlots(int slots, std::size_t waiting_max = kWaitingMax)
      : slots_(slots), waiting_max_(waiting_max) {}

  /// Runs `granted` when there is a slot, at once or later, on any thread. One that nobody keeps is
  /// free again. False: too many of the tenant wait already.
  bool take(const std::string& tenant, Granted granted);
  /// Somebody waits.
  bool wanted() const;

 private:
  struct Tenant {
    int held = 0;
    std::deque<std::pair<std::uint64_t, Granted>> waiting;  // by their order over all tenants
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
