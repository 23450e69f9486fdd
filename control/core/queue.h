#pragma once
// The order of work for one model: priority class, then fairness between tenants, then within a
// tenant resumed work, then age. Fairness is start-time fair queueing: in a priority class each
// tenant has one virtual time, over all numerics classes, that grows by the tokens of what it is
// given over its weight; the tenant that is least served goes next. Tokens that were not made are
// given back. Besides, each tenant has a share of the slots and pages, by its weight among the
// tenants that wait or run. Every operation is O(log n), and a step for each tenant that may not
// run.

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/core/types.h"

namespace holdfast::core {

/// A choice that waits to be dispatched.
struct QueueItem {
  ChoiceRef ref;
  PriorityClass priority = PriorityClass::kNormal;
  bool resumed = false;
  std::string tenant;
  std::int64_t cost = 1;            // tokens that it may take; fairness counts them
  std::int64_t pages = 0;           // KV pages at its longest
  std::int64_t weight = 1;          // of its tenant
  std::string numerics_class = {};  // the only one that may run it; empty: every one may
};
/// Returns true if this item may run now. Asked for the first item of each tenant. Empty: all may.
using MayRun = std::function<bool(const QueueItem&)>;

/// The queue of one model: by priority, then by tenants in turns, then by age. Not thread-safe.
class WorkQueue {
 public:
  /// Sums over all loads of the model, which tenants share. 0 = none.
  struct Capacity {
    std::int64_t slots = 0;
    std::int64_t pages = 0;
  };

  /// Queues a choice that is not queued yet.
  void push(const QueueItem& item);
  /// Takes a choice out of the queue. False if it does not wait.
  bool remove(ChoiceRef ref);
  /// Returns the next item for a load of this class, of those that may run; nullptr when there is
  /// none. Valid until that item is taken or removed. Within a priority class, tenants for whose
  /// item `first` is true go before the others. `bound_only`: of those bound to this class alone.
  const QueueItem* head(const std::string& numerics_class = {}, const MayRun& may = {},
                        const MayRun& first = {}, bool bound_only = false) const;
  /// Begins to run a choice that waits and charges its tenant.
  void take(ChoiceRef ref);
  /// Counts a choice as running that has not waited here, as a start finds it. Does nothing if it
  /// runs already.
  void run(const QueueItem& item);
  /// Ends the run of a choice; `left` of the tokens that it was charged for were not made.
  void end(ChoiceRef ref, std::int64_t left);

  /// Number of choices that wait.
  std::size_t size() const { return items_.size(); }
  /// Returns true if nothing waits and nothing runs.
  bool idle() const { return items_.empty() && running_.empty(); }
  /// Returns true if more than one tenant has something that waits or runs.
  bool contended() const { return tenants_.size() > 1; }
  /// Number of choices of a tenant that run, of all priorities.
  std::int64_t running(const std::string& tenant) const;
  /// Number of choices taken before this one if nothing comes and nothing ends early; -1 if it does
  /// not wait. Costs of others count as the mean of their tenant.
  std::int64_t position(ChoiceRef ref) const;

  /// Returns true if the item's tenant, with this item running too, has no more than its share or
  /// nothing else.
  bool within_share(const QueueItem& item, const Capacity& capacity) const;
  /// Returns the choices per unit of weight that a tenant would run without `fewer` of them, which
  /// have `pages`, if it would still be above its share; nullopt if it would not, or would have but
  /// one.
  std::optional<double> above_share(const std::string& tenant, const Capacity& capacity,
                                    std::int64_t fewer = 0, std::int64_t pages = 0) const;

  /// The choices of one tenant and priority that wait.
  struct Waiting {
    PriorityClass priority = PriorityClass::kNormal;
    std::string tenant;
    std::int64_t waiting = 0;
    ChoiceRef oldest;
  };
  /// Returns them for all tenants and priorities, in no order.
  std::vector<Waiting> waiting_by_tenant() const;

 private:
  using Rank = std::pair<int, ChoiceRef>;  // 0 resumed | 1 new; age
  using Ranks =
      __gnu_pbds::tree<Rank, __gnu_pbds::null_type, std::less<Rank>, __gnu_pbds::rb_tree_tag,
                       __gnu_pbds::tree_order_statistics_node_update>;
  using Order = std::set<std::pair<double, std::string>>;  // tenants, least served first
  struct Account {                                         // of a tenant in a priority class
    double served = 0;      // virtual time: tokens / weight of what it got
    std::int64_t cost = 0;  // of what waits
    std::int64_t running = 0;
    Ranks waiting;
    std::map<std::string, std::set<Rank>> by_class;  // the same, by numerics class
  };
  struct Class {
    std::map<std::string, Account> accounts;
    std::map<std::string, Order> active;  // tenants that wait, by numerics class
    Order ahead;                          // idle tenants that were served beyond `now`
    double now = 0;                       // virtual time of the last one that was taken
    std::int64_t waiting = 0;
  };
  struct Tenant {  // over all priority classes
    std::int64_t waiting = 0;
    std::int64_t running = 0;
    std::int64_t pages = 0;  // of what runs
    std::int64_t weight = 1;
  };
  struct Running {
    std::string tenant;
    PriorityClass priority = PriorityClass::kNormal;
    std::int64_t pages = 0;
    std::int64_t charged = 0;
    std::int64_t weight = 1;  // of its tenant when it was charged
  };
  struct RefHash {
    std::size_t operator()(const ChoiceRef& ref) const {
      return std::hash<std::int64_t>()(ref.seq * 4099 + ref.choice);
    }
  };

  static Rank rank_of(const QueueItem& item) { return {item.resumed ? 0 : 1, item.ref}; }
  static void set_served(Class& in, const std::string& tenant, Account& account, double served);
  static void forget_if_idle(Class& in, const std::string& tenant);
  static void advance(Class& in, double to);
  static std::pair<bool, bool> next_turn(Order::const_iterator a, Order::const_iterator a_end,
                                         Order::const_iterator b, Order::const_iterator b_end);
  static const Order& order_of(const Class& in, const std::string& numerics_class);
  static const Order& order_of_any(const Class& in, const std::string& numerics_class,
                                   bool bound_only);
  const QueueItem* head_of(const Class& in, const std::string& numerics_class, const MayRun& may,
                           const MayRun& first, bool bound_only) const;
  Account& open_account(Class& in, const std::string& tenant);
  Tenant& tenant_of(const std::string& name, std::int64_t weight);
  void forget_tenant_if_idle(const std::string& name);
  void take_out(const QueueItem& item);
  void begin_running(const QueueItem& item, std::int64_t charged);

  std::array<Class, 3> classes_;
  std::map<ChoiceRef, QueueItem> items_;
  std::unordered_map<ChoiceRef, Running, RefHash> running_;
  std::map<std::string, Tenant> tenants_;
  std::int64_t weights_ = 0;  // of all in tenants_
};

}  // namespace holdfast::core
