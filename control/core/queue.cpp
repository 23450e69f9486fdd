#include "control/core/queue.h"

#include <algorithm>

#include "shared/base/check.h"

namespace holdfast::core {
namespace {

/// Bound on catching up, in multiples of what the tenant takes next, for a tenant whose work could
/// not run (its bounds, no worker of its class): else it would hold up the others afterwards.
constexpr double kCatchUp = 8;
/// Tenants that position() looks at one by one; it takes the others to be like them.
constexpr std::int64_t kTenantsLookedAt = 256;

std::size_t class_index(PriorityClass priority) {
  return std::min<std::size_t>(static_cast<std::size_t>(priority), 2);
}

double virtual_time(std::int64_t tokens, std::int64_t weight) {
  return static_cast<double>(tokens) / static_cast<double>(std::max<std::int64_t>(weight, 1));
}

}  // namespace

WorkQueue::Tenant& WorkQueue::tenant_of(const std::string& name, std::int64_t weight) {
  const auto [it, fresh] = tenants_.try_emplace(name);
  if (!fresh) weights_ -= it->second.weight;
  it->second.weight = std::max<std::int64_t>(weight, 1);
  weights_ += it->second.weight;
  return it->second;
}

void WorkQueue::forget_tenant_if_idle(const std::string& name) {
  const auto it = tenants_.find(name);
  if (it->second.waiting > 0 || it->second.running > 0) return;
  weights_ -= it->second.weight;
  tenants_.erase(it);
}

void WorkQueue::set_served(Class& in, const std::string& tenant, Account& account, double served) {
  for (const auto& [numerics, waiting] : account.by_class) {
    Order& order = in.active[numerics];
    order.erase({account.served, tenant});
    order.emplace(served, tenant);
  }
  account.served = served;
}

/// Opens a tenant's account. A tenant that was away saves nothing up, and nothing that it owes is
/// forgotten.
WorkQueue::Account& WorkQueue::open_account(Class& in, const std::string& tenant) {
  const auto [it, fresh] = in.accounts.try_emplace(tenant);
  Account& account = it->second;
  if (fresh) account.served = in.now;
  if (account.waiting.empty()) {
    if (account.running == 0) in.ahead.erase({account.served, tenant});
    account.served = std::max(account.served, in.now);
  }
  return account;
}

void WorkQueue::forget_if_idle(Class& in, const std::string& tenant) {
  const auto it = in.accounts.find(tenant);
  const Account& account = it->second;
  if (!account.waiting.empty() || account.running > 0) return;
  if (account.served > in.now) {
    in.ahead.emplace(account.served, tenant);
  } else {
    in.accounts.erase(it);
  }
}

void WorkQueue::advance(Class& in, double to) {
  in.now = std::max(in.now, to);
  while (!in.ahead.empty() && in.ahead.begin()->first <= in.now) {
    in.accounts.erase(in.ahead.begin()->second);
    in.ahead.erase(in.ahead.begin());
  }
}

void WorkQueue::push(const QueueItem& item) {
  CHECK_MSG(items_.emplace(item.ref, item).second, "a choice is queued once");
  ++tenant_of(item.tenant, item.weight).waiting;
  Class& in = classes_[class_index(item.priority)];
  Account& account = open_account(in, item.tenant);
  ++in.waiting;
  account.cost += item.cost;
  account.waiting.insert(rank_of(item));
  std::set<Rank>& waiting = account.by_class[item.numerics_class];
  if (waiting.empty()) in.active[item.numerics_class].emplace(account.served, item.tenant);
  waiting.insert(rank_of(item));
}

void WorkQueue::take_out(const QueueItem& item) {
  Class& in = classes_[class_index(item.priority)];
  Account& account = in.accounts.at(item.tenant);
  --in.waiting;
  account.cost -= item.cost;
  account.waiting.erase(rank_of(item));
  const auto waiting = account.by_class.find(item.numerics_class);
  waiting->second.erase(rank_of(item));
  if (waiting->second.empty()) {
    const auto order = in.active.find(item.numerics_class);
    order->second.erase({account.served, item.tenant});
    if (order->second.empty()) in.active.erase(order);
    account.by_class.erase(waiting);
  }
  --tenants_.at(item.tenant).waiting;
}

bool WorkQueue::remove(ChoiceRef ref) {
  const auto it = items_.find(ref);
  if (it == items_.end()) return false;
  take_out(it->second);
  forget_if_idle(classes_[class_index(it->second.priority)], it->second.tenant);
  forget_tenant_if_idle(it->second.tenant);
  items_.erase(it);
  return true;
}

const QueueItem* WorkQueue::head(const std::string& numerics_class, const MayRun& may,
                                 const MayRun& first, bool bound_only) const {
  for (const Class& in : classes_) {
    if (in.waiting == 0) continue;
    if (const QueueItem* item = head_of(in, numerics_class, may, first, bound_only)) return item;
  }
  return nullptr;
}

const WorkQueue::Order& WorkQueue::order_of(const Class& in, const std::string& numerics_class) {
  static const Order kNone;
  const auto it = in.active.find(numerics_class);
  return it == in.active.end() ? kNone : it->second;
}

/// The first of two orders that are gone through at once has the turn; and both have it.
std::pair<bool, bool> WorkQueue::next_turn(Order::const_iterator a, Order::const_iterator a_end,
                                           Order::const_iterator b, Order::const_iterator b_end) {
  if (a == a_end) return {false, false};
  if (b == b_end) return {true, false};
  return {*a <= *b, *a == *b};
}

/// The order of what every class may run, next to that of one class: none for the same order, and
/// where what is bound to the class is all that is looked for.
const WorkQueue::Order& WorkQueue::order_of_any(const Class& in, const std::string& numerics_class,
                                                bool bound_only) {
  static const Order kNone;
  return bound_only || numerics_class.empty() ? kNone : order_of(in, std::string());
}

/// The item of one priority class that goes next; null: none of it may run.
const QueueItem* WorkQueue::head_of(const Class& in, const std::string& numerics_class,
                                    const MayRun& may, const MayRun& first, bool bound_only) const {
  const QueueItem* other = nullptr;  // of a tenant that does not go first
  // Both orders at once: what this class alone may run, and what every class may.
  const Order& class_order = order_of(in, numerics_class);
  const Order& any = order_of_any(in, numerics_class, bound_only);
  auto a = class_order.begin();
  auto b = any.begin();
  while (a != class_order.end() || b != any.end()) {
    const auto [take_a, both] = next_turn(a, class_order.end(), b, any.end());
    const Account& account = in.accounts.at(take_a ? a->second : b->second);
    const auto first_of = [&](const std::string& name) {
      const std::set<Rank>& waiting = account.by_class.at(name);
      return *waiting.begin();
    };
    Rank rank = first_of(take_a ? numerics_class : std::string());
    if (both) rank = std::min(rank, first_of(std::string()));
    const QueueItem& item = items_.at(rank.second);
    if (!may || may(item)) {
      if (!first || first(item)) return &item;
      if (other == nullptr) other = &item;
    }
    if (take_a) ++a;
    if (!take_a || both) ++b;
  }
  return other;
}

void WorkQueue::take(ChoiceRef ref) {
  const auto it = items_.find(ref);
  CHECK_MSG(it != items_.end(), "what is taken waits");
  const QueueItem item = std::move(it->second);
  items_.erase(it);
  take_out(item);
  Class& in = classes_[class_index(item.priority)];
  Account& account = in.accounts.at(item.tenant);
  const std::int64_t cost = std::max<std::int64_t>(item.cost, 1);
  const double step = virtual_time(cost, item.weight);
  const double start = std::max(account.served, in.now - kCatchUp * step);
  set_served(in, item.tenant, account, start + step);
  begin_running(item, cost);
  advance(in, start);
}

void WorkQueue::run(const QueueItem& item) {
  if (running_.count(item.ref) > 0) return;
  open_account(classes_[class_index(item.priority)], item.tenant);
  begin_running(item, 0);
}

void WorkQueue::begin_running(const QueueItem& item, std::int64_t charged) {
  running_[item.ref] = {item.tenant, item.priority, item.pages, charged, item.weight};
  ++classes_[class_index(item.priority)].accounts.at(item.tenant).running;
  Tenant& tenant = tenant_of(item.tenant, item.weight);
  ++tenant.running;
  tenant.pages += item.pages;
}

void WorkQueue::end(ChoiceRef ref, std::int64_t left) {
  const auto it = running_.find(ref);
  CHECK_MSG(it != running_.end(), "what ends has run");
  const Running was = std::move(it->second);
  running_.erase(it);
  Class& in = classes_[class_index(was.priority)];
  Account& account = in.accounts.at(was.tenant);
  // Virtual time never goes back below that of the others.
  const std::int64_t back = std::clamp<std::int64_t>(left, 0, was.charged);
  const double served = account.served - virtual_time(back, was.weight);
  set_served(in, was.tenant, account, std::max(served, std::min(account.served, in.now)));
  --account.running;
  forget_if_idle(in, was.tenant);
  Tenant& tenant = tenants_.at(was.tenant);
  --tenant.running;
  tenant.pages -= was.pages;
  forget_tenant_if_idle(was.tenant);
}

std::int64_t WorkQueue::running(const std::string& tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.running;
}

/// Counts, for each tenant, the choices whose turn, by the virtual time at which they start, comes
/// before.
std::int64_t WorkQueue::position(ChoiceRef ref) const {
  const auto it = items_.find(ref);
  if (it == items_.end()) return -1;
  const QueueItem& item = it->second;
  std::int64_t before = 0;
  const std::size_t index = class_index(item.priority);
  for (std::size_t i = 0; i < index; ++i) before += classes_[i].waiting;
  const Class& in = classes_[index];
  const auto turn_of = [&](const std::string& tenant, const Account& account, std::int64_t nth) {
    const double mean = static_cast<double>(account.cost) /
                        static_cast<double>(std::max<std::size_t>(account.waiting.size(), 1));
    const double weight = static_cast<double>(tenants_.at(tenant).weight);
    return account.served + static_cast<double>(nth) * std::max(mean, 1.0) / weight;
  };
  const Account& item_account = in.accounts.at(item.tenant);
  const auto rank = static_cast<std::int64_t>(item_account.waiting.order_of_key(rank_of(item)));
  const double turn = turn_of(item.tenant, item_account, rank);
  std::int64_t others = 0;
  std::int64_t looked_at = 0;
  for (const auto& [name, account] : in.accounts) {
    if (&account == &item_account || account.waiting.empty()) continue;
    if (looked_at++ == kTenantsLookedAt) break;
    if (account.served > turn) continue;
    const double each = turn_of(name, account, 1) - account.served;
    const auto turns = static_cast<std::int64_t>((turn - account.served) / each);
    // At the same virtual time the name decides, as in the order.
    const bool tie =
        account.served + static_cast<double>(turns) * each < turn || name < item.tenant;
    others += std::min(turns + (tie ? 1 : 0), static_cast<std::int64_t>(account.waiting.size()));
  }
  const auto all = static_cast<std::int64_t>(in.accounts.size()) - 1;
  if (looked_at > kTenantsLookedAt) others = others * all / kTenantsLookedAt;
  return before + rank + std::min(others, in.waiting - 1 - rank);
}

bool WorkQueue::within_share(const QueueItem& item, const Capacity& capacity) const {
  const auto it = tenants_.find(item.tenant);
  if (it == tenants_.end() || it->second.running == 0) return true;
  const Tenant& tenant = it->second;
  return (tenant.running + 1) * weights_ <= tenant.weight * capacity.slots &&
         (tenant.pages + item.pages) * weights_ <= tenant.weight * capacity.pages;
}

std::optional<double> WorkQueue::above_share(const std::string& name, const Capacity& capacity,
                                             std::int64_t fewer, std::int64_t pages) const {
  const auto it = tenants_.find(name);
  if (it == tenants_.end()) return std::nullopt;
  const Tenant& tenant = it->second;
  const std::int64_t running = tenant.running - fewer;
  if (running < 2) return std::nullopt;
  if (running * weights_ <= tenant.weight * capacity.slots &&
      (tenant.pages - pages) * weights_ <= tenant.weight * capacity.pages) {
    return std::nullopt;
  }
  return virtual_time(running, tenant.weight);
}

std::vector<WorkQueue::Waiting> WorkQueue::waiting_by_tenant() const {
  std::vector<Waiting> all;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    for (const auto& [tenant, account] : classes_[i].accounts) {
      if (account.waiting.empty()) continue;
      ChoiceRef oldest = account.waiting.begin()->second;
      const auto fresh = account.waiting.lower_bound({1, ChoiceRef{}});
      if (fresh != account.waiting.end()) oldest = std::min(oldest, fresh->second);
      all.push_back({static_cast<PriorityClass>(i), tenant,
                     static_cast<std::int64_t>(account.waiting.size()), oldest});
    }
  }
  return all;
}

}  // namespace holdfast::core
