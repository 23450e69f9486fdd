#pragma once
// The order of work for one model and numerics class: priority class, resumed before new, then
// weighted fairness between tenants, then age. Push, pop, remove and position are O(log n).

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "control/core/types.h"

namespace holdfast::core {

struct QueueItem {
  ChoiceRef ref;
  PriorityClass priority = PriorityClass::kNormal;
  bool resumed = false;
  std::string tenant;
  std::int64_t cost = 1;   // tokens that it may take, what fairness counts
  std::int64_t pages = 0;  // KV pages at its longest
};
/// Whether the tenant of this one may have one more running. Empty: all may.
using MayRun = std::function<bool(const QueueItem&)>;

class WorkQueue {
 public:
  void push(const QueueItem& item);
  /// False if it is not in here.
  bool remove(ChoiceRef ref);
  /// What goes next of those that may; nullptr when there is none. Valid until the next change.
  /// Passes over a tenant as a whole, so it costs a step for each tenant that may not.
  const QueueItem* head(const MayRun& may = {}) const;
  /// Takes one out that head() gave and charges its tenant, one of more weight less.
  void take(ChoiceRef ref, std::int64_t weight = 1);
  std::size_t size() const { return items_.size(); }
  /// How many stand before it if fairness moved nothing; -1 if it is not in here.
  std::int64_t position(ChoiceRef ref) const;
  /// What waits, by priority and tenant; what is resumed apart. In no order.
  struct Waiting {
    PriorityClass priority = PriorityClass::kNormal;
    std::string tenant;
    std::int64_t waiting = 0;
    ChoiceRef oldest;
  };
  std::vector<Waiting> tallies() const;

 private:
  struct Tenant {
    double served = 0;  // virtual time: cost / weight of what it got
    std::set<ChoiceRef> waiting;
  };
  struct Class {
    std::set<ChoiceRef> resumed;
    std::map<std::string, Tenant> tenants;
    std::set<std::pair<double, std::string>> active;  // tenants that wait, least served first
    double now = 0;                                   // virtual time of the last one served
  };
  using Rank = std::tuple<int, int, ChoiceRef>;  // class, 0 resumed | 1 new, age
  using Ranks =
      __gnu_pbds::tree<Rank, __gnu_pbds::null_type, std::less<Rank>, __gnu_pbds::rb_tree_tag,
                       __gnu_pbds::tree_order_statistics_node_update>;
  static Rank rank_of(const QueueItem& item);
  void take_out(const QueueItem& item);

  std::array<Class, 3> classes_;
  std::map<ChoiceRef, QueueItem> items_;
  Ranks ranks_;
};

/// True if `a` goes before `b` when two queues feed one worker.
bool goes_before(const QueueItem& a, const QueueItem& b);

}  // namespace holdfast::core
