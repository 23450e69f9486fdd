#include "control/core/load_table.h"

#include <utility>

#include "shared/base/check.h"

namespace holdfast::core {
namespace {

bool is_in_progress(ModelState state) {
  return state == ModelState::kPlacing || state == ModelState::kLoading ||
         state == ModelState::kWarming;
}

}  // namespace

const LoadTable::Group& LoadTable::group(const Groups& groups, const std::string& key) {
  static const Group kNone;
  const auto found = groups.find(key);
  return found == groups.end() ? kNone : found->second;
}

void LoadTable::leave(Groups& groups, const std::string& key, Load& load) {
  const auto found = groups.find(key);
  CHECK(found != groups.end() && found->second.erase(&load) == 1);
  if (found->second.empty()) groups.erase(found);
}

LoadTable::Turn LoadTable::turn_of(const Load& load) {
  return {load.row.slots - static_cast<std::int64_t>(load.running.size()), load.row.load_id};
}

const LoadTable::Open& LoadTable::open_of(const std::string& model) const {
  static const Open kNone;
  const auto found = open_.find(model);
  return found == open_.end() ? kNone : found->second;
}

void LoadTable::open(Load& load) {
  const Turn turn = turn_of(load);
  if (turn.free > 0) open_[load.row.model].emplace(turn, &load);
}

void LoadTable::close(Load& load) {
  const Turn turn = turn_of(load);
  if (turn.free <= 0) return;
  const auto found = open_.find(load.row.model);
  CHECK(found != open_.end() && found->second.erase(turn) == 1);
  if (found->second.empty()) open_.erase(found);
}

void LoadTable::enter_pools(Load& load) {
  if (!load.pools) {
    anywhere_.insert(&load);
    return;
  }
  for (const std::string& key : *load.pools) by_pool_[key].insert(&load);
}

void LoadTable::leave_pools(Load& load) {
  if (!load.pools) {
    anywhere_.erase(&load);
    return;
  }
  const std::set<std::string> keys(load.pools->begin(), load.pools->end());
  for (const std::string& key : keys) leave(by_pool_, key, load);
}

Load& LoadTable::insert(Load load) {
  const std::string id = load.row.load_id;
  const auto [it, fresh] = loads_.emplace(id, std::move(load));
  CHECK_MSG(fresh, "a load has an id of its own");
  Load& in = it->second;
  by_model_[in.row.model].insert(&in);
  by_worker_[in.row.worker_key].insert(&in);
  enter_pools(in);
  open(in);
  slots_ += in.row.slots;
  in_progress_ += is_in_progress(in.row.state);
  return in;
}

void LoadTable::erase(const std::string& id) {
  const auto it = loads_.find(id);
  CHECK(it != loads_.end());
  Load& load = it->second;
  leave(by_model_, load.row.model, load);
  leave(by_worker_, load.row.worker_key, load);
  leave_pools(load);
  close(load);
  slots_ -= load.row.slots;
  in_progress_ -= is_in_progress(load.row.state);
  loads_.erase(it);
}

LoadTable::Group LoadTable::of_pools(const std::vector<std::string>& keys) const {
  Group all = anywhere_;
  for (const std::string& key : keys) {
    const Group& loads = group(by_pool_, key);
    all.insert(loads.begin(), loads.end());
  }
  return all;
}

void LoadTable::set_state(Load& load, ModelState state) {
  in_progress_ += is_in_progress(state) - is_in_progress(load.row.state);
  load.row.state = state;
}

void LoadTable::set_slots(Load& load, std::int32_t slots) {
  close(load);
  slots_ += slots - load.row.slots;
  load.row.slots = slots;
  open(load);
}

void LoadTable::set_pools(Load& load, std::vector<std::string> keys) {
  leave_pools(load);
  load.pools = std::move(keys);
  enter_pools(load);
}

void LoadTable::begin_run(Load& load, ChoiceRef ref) {
  close(load);
  load.running.insert(ref);
  open(load);
}

bool LoadTable::end_run(Load& load, ChoiceRef ref) {
  if (load.running.count(ref) == 0) return false;
  close(load);
  load.running.erase(ref);
  open(load);
  return true;
}

}  // namespace holdfast::core
