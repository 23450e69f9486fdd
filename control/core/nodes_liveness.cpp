// Liveness of nodes: a machine that stands still or is cut off sends no datagrams, and what its
// workers run is dispatched again before TCP would notice. The rule is that of workers: suspect,
// then lost; nothing is taken back, and nobody is blamed.
#include <algorithm>
#include <string>
#include <utility>

#include "control/core/fleet.h"
#include "control/core/nodes.h"

namespace holdfast::core {
namespace {

// A node that waited for a processor lately may do so again, and longer: it gets twice that time.
constexpr std::int64_t kSlackMaxUs = 200'000;
// So many reports over TCP, for so long, say that the cable is there and only datagrams are not.
constexpr std::int64_t kReportsToAbandon = 3;
constexpr std::int64_t kAbandonUs = 2'000'000;

std::string reason(const NodeHealth& health) {
  const bool silent = health.silent_us >= health.deaf_us;
  return (silent ? "no datagram of it for " : "none of our datagrams reached it for ") +
         std::to_string(std::max(health.silent_us, health.deaf_us) / 1000) + " ms";
}

}  // namespace

std::string_view liveness_name(Liveness liveness) {
  return liveness == Liveness::kDatagrams ? "datagrams" : "tcp";
}

void Nodes::on(const NodeHealth& event) {
  const auto found = nodes_.find(event.name);
  if (found == nodes_.end() || found->second.peer == 0) return;
  Node& node = found->second;
  node.signs.last = event;
  const std::int64_t quiet_us = std::max(event.silent_us, event.deaf_us);
  const std::int64_t slack_us = std::min(2 * event.delay_us, kSlackMaxUs);
  if (quiet_us < core_.config.link_node_timeout_ms * 1000 + slack_us) return node_is_well(node);
  if (node.signs.abandoned) return;
  node_is_silent(node, quiet_us >= core_.config.link_node_lost_ms * 1000 + slack_us);
}

void Nodes::node_is_well(Node& node) {
  node.signs.liveness = Liveness::kDatagrams;
  node.signs.abandoned = false;
  if (std::exchange(node.signs.suspect_since_us, 0) == 0) return;
  ++node.signs.false_alarms;
  ++core_.counters.node_false_alarms;
  core_.out->note("node speaks again", {{"node", node.name}});
  set_working_state(node, "its datagrams arrive again");
  fleet_.node_speaks(node.name);
}

void Nodes::node_is_silent(Node& node, bool lost) {
  const std::string why = reason(node.signs.last);
  node.signs.liveness = Liveness::kDatagrams;
  if (node.signs.suspect_since_us == 0) {
    node.signs.suspect_since_us = core_.now.mono_us;
    node.signs.reports = 0;
    ++core_.counters.node_suspicions;
    core_.out->note("node suspect: its workers get no new work",
                    {{"node", node.name}, {"host", node.host}, {"why", why}});
  }
  if (lost) set_state(node, NodeState::kLost, why);
  const bool deaf = node.signs.last.deaf_us > node.signs.last.silent_us;
  fleet_.node_is_silent(node.name, {why, node.signs.suspect_since_us, deaf, lost});
}

/// Counts a report of a node whose datagrams do not arrive. After some of them, it is judged by its
/// connection alone until datagrams arrive again.
void Nodes::count_report(Node& node) {
  NodeSigns& signs = node.signs;
  if (signs.suspect_since_us == 0) return;
  ++signs.reports;
  const bool long_enough = core_.now.mono_us - signs.suspect_since_us >= kAbandonUs;
  if (signs.reports < kReportsToAbandon || !long_enough) return;
  signs.abandoned = true;
  signs.liveness = Liveness::kTcp;
  signs.suspect_since_us = 0;
  core_.out->note("datagrams of a node do not arrive, its connection is there: liveness by TCP",
                  {{"node", node.name}, {"host", node.host}}, true);
  fleet_.node_speaks(node.name);
}

}  // namespace holdfast::core
