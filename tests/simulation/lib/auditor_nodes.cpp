// Audits nodes that drain: they get no new work (I19).
#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

void Auditor::node_drained(const std::string& node) {
  const auto drain = drains_.find(node);
  if (drain != drains_.end()) drain->second = Drain::kAnswered;
}

void Auditor::node_reported(const std::string& node, bool leaving) {
  if (leaving) {
    new_leaving_.insert(node);
  } else {
    new_leaving_.erase(node);
    leaving_.erase(node);
  }
}

/// Reports and lies that a group got count from the next one on.
void Auditor::group_ended() {
  lies_.insert(new_lies_.begin(), new_lies_.end());
  leaving_.insert(new_leaving_.begin(), new_leaving_.end());
}

void Auditor::check_node(core::PeerId to, const std::string& id) {
  const auto key = worker_keys_.find(to);
  if (key == worker_keys_.end()) return;
  const std::string node = key->second.substr(0, key->second.find('/'));
  const auto drain = drains_.find(node);
  const bool drained = drain != drains_.end() && drain->second == Drain::kAnswered;
  if (drained || leaving_.count(node) > 0) {
    world_.fail("I19 " + id + " goes to node " + node + ", which drains");
  }
}

}  // namespace holdfast::simulation
