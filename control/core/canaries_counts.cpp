// Counting for aliases and their canaries.
#include "control/core/aliases.h"
#include "control/core/canaries.h"

namespace holdfast::core {

/// Returns the side that this request counts for now, if its alias has a running canary.
SideStats* Canaries::side_stats(const Request& request, Canary** canary) {
  if (request.row.alias.empty() || !request.row.rerouted_from.empty()) return nullptr;
  const auto alias = aliases_.all().find(request.row.alias);
  if (alias == aliases_.all().end() || !alias->second.canary) return nullptr;
  Canary& open = *alias->second.canary;
  if (open.row.state != CanaryState::kRunning) return nullptr;
  if (request.row.canary != 0 && request.row.canary != open.row.id) return nullptr;
  if (canary != nullptr) *canary = &open;
  return &open.stats[request.row.canary == 0 ? 0 : 1];
}

void Canaries::count_refused(const Route& route) {
  const auto alias = aliases_.all().find(route.alias);
  if (route.alias.empty() || alias == aliases_.all().end()) return;
  ++alias->second.counters[index(route.side())].refused;
  if (alias->second.canary && alias->second.canary->row.state == CanaryState::kRunning) {
    ++alias->second.canary->stats[index(route.side())].counted.refused;
  }
}

void Canaries::count_accepted(const Request& request) {
  const auto alias = aliases_.all().find(request.row.alias);
  if (request.row.alias.empty() || alias == aliases_.all().end()) return;
  const std::size_t side = request.row.canary == 0 ? 0 : 1;
  ++alias->second.counters[side].accepted;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  ++stats->counted.accepted;
  canary->awaiting[side][request.row.seq] = core_.now.mono_us;
}

void Canaries::count_for_alias(const Request& request, const Choice& choice, std::int64_t count) {
  if (request.row.alias.empty()) return;
  const std::int64_t before_us = choice.last_token_us;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  auto& awaiting = canary->awaiting[request.row.canary == 0 ? 0 : 1];
  if (const auto first = awaiting.find(request.row.seq); first != awaiting.end()) {
    stats->ttft.add(core_.now.mono_us - first->second);
    awaiting.erase(first);
  }
  if (before_us != 0) stats->itl.add((core_.now.mono_us - before_us) / count, count);
}

void Canaries::count_end(const Request& request, RequestChange what) {
  const auto alias = aliases_.all().find(request.row.alias);
  if (request.row.alias.empty() || alias == aliases_.all().end()) return;
  const std::size_t side = request.row.canary == 0 ? 0 : 1;
  SideCounters& counters = alias->second.counters[side];
  counters.succeeded += what == RequestChange::kSucceeded;
  counters.failed += what == RequestChange::kFailed;
  counters.cancelled += what == RequestChange::kCancelled;
  counters.expired += what == RequestChange::kExpired;
  Canary* canary = nullptr;
  SideStats* stats = side_stats(request, &canary);
  if (stats == nullptr) return;
  if (const auto first = canary->awaiting[side].find(request.row.seq);
      first != canary->awaiting[side].end()) {
    // A client that left without a token has waited at least so long.
    const bool orphan = what == RequestChange::kCancelled && request.subscribers == 0 &&
                        request.orphan_deadline_us != 0;
    if (orphan) stats->ttft.add(core_.now.mono_us - first->second);
    canary->awaiting[side].erase(first);
  }
  if (what == RequestChange::kCancelled) return;
  // Counted when it was quarantined; its end is no second failure.
  if (request.failure_counted) return;
  count_outcome(*stats, what == RequestChange::kExpired ||
                            (what == RequestChange::kFailed &&
                             request.row.error_code != errc_name(Errc::kInvalidRequest)));
}

/// Counts an end for any reason: one that lies in the requests shows on both sides alike.
void Canaries::count_outcome(SideStats& stats, bool failed) {
  ++stats.counted.ended;
  stats.counted.failed += failed;
  core_.want_aliases = core_.want_aliases || failed;  // the canary may clearly fail already
}

void Canaries::count_quarantined(const Request& request) {
  if (SideStats* stats = side_stats(request)) count_outcome(*stats, true);
}

void Canaries::count_interrupted(const Request& request) {
  SideStats* stats = side_stats(request);
  if (stats == nullptr) return;
  ++stats->counted.interrupted;
  core_.want_aliases = true;
}

}  // namespace holdfast::core
