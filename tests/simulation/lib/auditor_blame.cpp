// Who may be in quarantine, and who must be.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

void Auditor::worker_crashed(const std::vector<ChoiceName>* step) {
  if (step == nullptr) {
    // It may be charged to whatever the daemon thinks was there, also to what comes until it knows.
    ++unknown_steps_;
    return;
  }
  for (const ChoiceName& name : *step) {
    const auto it = known_.find(name.first);
    if (it != known_.end()) ++it->second.choices.at(static_cast<std::size_t>(name.second)).deaths;
  }
}

/// One of its choices was in as many steps that ended so. Whether it had moved on in between is the
/// machine's matter.
void Auditor::check_quarantine(const std::string& id, const Known& known) {
  std::int64_t deaths = 0;
  for (const Seen& seen : known.choices) deaths = std::max(deaths, seen.deaths + unknown_steps_);
  if (deaths < world_.swarm.blame_quarantine) {
    world_.fail("I6 " + id + " is quarantined after " + std::to_string(deaths) +
                " deaths that count");
  }
}

void Auditor::killer_reported(const std::string& id, std::int32_t choice) {
  ++known_[id].choices.at(static_cast<std::size_t>(choice)).kills;
}

/// What kills its workers again and again must not go on. Some reports are about a worker that this
/// daemon has never seen, so that a few more are allowed.
void Auditor::check_killer(const std::string& id, const Seen& seen) {
  constexpr std::int64_t kUnknownWorkers = 3;
  if (seen.kills > world_.swarm.blame_quarantine + kUnknownWorkers) {
    world_.fail("I6 " + id + " has killed " + std::to_string(seen.kills) +
                " workers and goes to another");
  }
}

void Auditor::daemon_died() {
  for (auto& [id, known] : known_) {
    for (Seen& seen : known.choices) seen.kills = 0;
  }
}

void Auditor::requeue_asked(const std::string& id) {
  for (Seen& seen : known_[id].choices) seen.kills = 0;
}

}  // namespace holdfast::simulation
