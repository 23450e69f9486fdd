// The daemon of a simulation and its nodes: reports, and the real watch over their datagrams
// (control/endpoints/node_listener.h, control/daemon/daemon_remote.cpp).
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/lib/daemon_node.h"

namespace holdfast::simulation {
namespace {

wire::UdpAddress address_of(int node) {
  wire::UdpAddress address;
  std::memcpy(&address.bytes, &node, sizeof node);
  address.length = sizeof node;
  return address;
}

int node_at(const wire::UdpAddress& address) {
  int node = 0;
  std::memcpy(&node, &address.bytes, sizeof node);
  return node;
}

}  // namespace

void DaemonNode::hear_node(PeerId peer, const wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  if (op == nullptr) return;
  core::NodeReport report;
  report.peer = peer;
  report.tag = op->tag;
  report.name = op->tenant;
  report.incarnation = op->args;
  report.host = "host of " + report.name;
  report.leaving = op->verb != "report";
  report.left = op->verb == "left";
  report.models.emplace();
  for (const char* sha : kModelShas) report.models->insert(sha);
  auditor_.node_reported(report.name, report.leaving);
  commit_loop_->step(std::move(report));
}

/// Answers a report with the session of the node's datagrams.
void DaemonNode::answer_node(const core::SendOpResult& result) {
  const auto& nodes = commit_loop_->machine().nodes().all();
  const auto node = nodes.find(result.key);
  if (!result.ok || node == nodes.end()) return;
  const wire::LivenessSession session = node_watch_.session(result.key, node->second.incarnation);
  (void)send(
      result.to,
      wire::OpResult{
          result.tag, true, {}, std::to_string(session.id), wire::liveness_key_text(session.key)});
}

void DaemonNode::datagram(int node, const std::string& datagram) {
  if (!up_) return;
  (void)node_watch_.received(datagram, address_of(node));
}

/// A turn of the thread that has the datagrams, and what the loop is told of it.
void DaemonNode::watch_nodes() {
  const std::uint64_t life = life_;
  world_.after(wire::kLivenessEveryUs, [this, life] {
    if (life != life_) return;
    watch_nodes();
    node_watch_.advance(world_.now_us);
    auto due = node_watch_.due();
    // Sessions are in the order of their random numbers.
    std::sort(due.begin(), due.end(),
              [](const auto& a, const auto& b) { return node_at(a.to) < node_at(b.to); });
    for (auto& out : due) on_datagram(node_at(out.to), std::move(out.datagram));
    if (!node_watch_.is_urgent() && ++turns_ % 50 != 0) return;
    tell_nodes();
  });
}

/// Puts the findings about nodes into the next group.
void DaemonNode::tell_nodes() {
  const auto& nodes = commit_loop_->machine().nodes().all();
  for (const std::string& name : node_watch_.nodes()) {
    const auto node = nodes.find(name);
    if (node == nodes.end() || node->second.peer == 0) node_watch_.close(name);
  }
  auto told = node_watch_.take();
  std::sort(told.health.begin(), told.health.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (core::NodeHealth& health : told.health) operate(std::move(health));
}

}  // namespace holdfast::simulation
