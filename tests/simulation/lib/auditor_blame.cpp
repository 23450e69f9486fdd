// Audits which requests may be in quarantine, and which must be.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

void Auditor::worker_crashed(const std::vector<ChoiceName>* step) {
  if (step == nullptr) {
    // The daemon may charge whatever it thinks was there, also what comes until it knows.
    ++unknown_steps_;
    return;
  }
  for (const ChoiceName& name : *step) {
    const auto it = tracked_.find(name.first);
    if (it != tracked_.end()) ++it->second.choices.at(static_cast<std::size_t>(name.second)).deaths;
  }
}

/// One of its choices was in as many steps that ended so. The machine may know that it had moved on
/// in between; the auditor does not look.
void Auditor::check_quarantine(const std::string& id, const TrackedRequest& tracked) {
  std::int64_t deaths = 0;
  for (const ObservedChoice& observed : tracked.choices)
    deaths = std::max(deaths, observed.deaths + unknown_steps_);
  if (deaths < world_.swarm.blame_quarantine) {
    world_.fail("I6 " + id + " is quarantined after " + std::to_string(deaths) +
                " deaths that count");
  }
}

void Auditor::killer_reported(const std::string& id, std::int32_t choice) {
  ++tracked_[id].choices.at(static_cast<std::size_t>(choice)).kills;
}

/// A choice that kills its workers again and again must not go on. Some reports are about a worker
/// that this daemon has never seen, so a small number of further deaths is allowed.
void Auditor::check_killer(const std::string& id, const ObservedChoice& observed) {
  constexpr std::int64_t kUnknownWorkers = 3;
  if (observed.kills > world_.swarm.blame_quarantine + kUnknownWorkers) {
    world_.fail("I6 " + id + " has killed " + std::to_string(observed.kills) +
                " workers and goes to another");
  }
}

void Auditor::daemon_died() {
  leaving_.clear();
  new_leaving_.clear();
  for (auto& [id, tracked] : tracked_) {
    for (ObservedChoice& observed : tracked.choices) observed.kills = 0;
  }
}

void Auditor::requeue_requested(const std::string& id) {
  for (ObservedChoice& observed : tracked_[id].choices) observed.kills = 0;
}

}  // namespace holdfast::simulation
