#include "control/core/nodes.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "control/core/admission.h"
#include "control/core/fetches.h"
#include "control/core/fleet.h"

namespace holdfast::core {
namespace {

constexpr std::pair<NodeState, std::string_view> kStates[] = {{NodeState::kReady, "ready"},
                                                              {NodeState::kDraining, "draining"},
                                                              {NodeState::kLost, "lost"},
                                                              {NodeState::kLeft, "left"}};

/// Reads the row of a node, "STATE SINCE_MS HOST". Other texts are of a newer program: lost.
Node read_row(const std::string& name, const std::string& row) {
  Node node;
  node.name = name;
  const std::size_t first = row.find(' ');
  const std::size_t second = first == std::string::npos ? first : row.find(' ', first + 1);
  const auto state = std::find_if(std::begin(kStates), std::end(kStates), [&](const auto& entry) {
    return entry.second == row.substr(0, first);
  });
  if (state != std::end(kStates)) node.state = state->first;
  if (first != std::string::npos) node.since_ms = std::atoll(row.c_str() + first);
  if (second != std::string::npos) node.host = row.substr(second + 1);
  return node;
}

}  // namespace

std::string_view node_state_name(NodeState state) {
  const auto row = std::find_if(std::begin(kStates), std::end(kStates),
                                [state](const auto& entry) { return entry.first == state; });
  return row->second;
}

std::string_view node_of(std::string_view worker_key) {
  const std::size_t slash = worker_key.find('/');
  return slash == std::string_view::npos ? std::string_view() : worker_key.substr(0, slash);
}

void Nodes::boot(const Boot& event) {
  for (const auto& [name, row] : event.nodes) nodes_[name] = read_row(name, row);
  for (const std::string& name : event.drained_nodes) {
    if (const auto node = nodes_.find(name); node != nodes_.end()) node->second.drained = true;
  }
}

void Nodes::set_state(Node& node, NodeState state, const std::string& why) {
  if (node.state == state && node.since_ms != 0) return;
  const std::string before = node.since_ms == 0 ? "" : std::string(node_state_name(node.state));
  node.state = state;
  node.since_ms = core_.now.wall_ms;
  node.why = why;
  const std::string now(node_state_name(state));
  core_.out->write(
      PutFlag{"node/" + node.name, now + " " + std::to_string(node.since_ms) + " " + node.host},
      Durability::kNormal);
  core_.out->write(InsertTransition{"node", node.name, before, now, node.since_ms, 0, 0, why},
                   Durability::kNormal);
  core_.out->note("node " + now, {{"node", node.name}, {"host", node.host}, {"why", why}},
                  state == NodeState::kLost);
  core_.want_dispatch = core_.want_placement = true;
}

void Nodes::on(const NodeReport& event) {
  Node& node = nodes_[event.name];
  node.name = event.name;
  const bool other = node.peer != 0 && node.incarnation != event.incarnation;
  if (other) {
    core_.op_refused(event.peer, event.tag,
                     refuse(Errc::kConflict,
                            "node " + event.name + " has joined already, from host " + node.host +
                                "; a key is for one machine: make another one with `holdfast keys "
                                "node create`, or end the other process"));
    return;
  }
  // A report that was under way when the farewell came brings nobody back.
  const bool late = node.state == NodeState::kLeft && node.incarnation == event.incarnation;
  if (!late) take_report(node, event);
  core_.op_done(event.peer, event.tag, event.left ? "node.bye" : "node.report", event.name);
}

void Nodes::take_report(Node& node, const NodeReport& event) {
  const bool fresh = node.incarnation != event.incarnation;
  if (fresh || node.peer == 0) {
    node.signs = {};
    node.signs.joined_us = core_.now.mono_us;
  }
  node.peer = event.peer;
  node.incarnation = event.incarnation;
  node.host = event.host;
  node.version = event.version;
  node.reported_us = core_.now.mono_us;
  node.leaving = event.leaving;
  if (fresh) {
    node.models.reset();
    node.lacks.clear();
    node.fetching.clear();
  }
  take_models(node, event);
  take_fetches(node, event);
  if (event.facts && node.facts != *event.facts) {
    node.facts = *event.facts;
    core_.want_placement = true;
  }
  if (event.left) return farewell(node);
  count_report(node);
  // A report may have been under way when the cable was cut.
  if (node.signs.suspect_since_us == 0) set_working_state(node, "joined");
  fleet_.apply_node_drain(node.name, node.drained || node.leaving);
}

/// Sets the state of a node that is there.
void Nodes::set_working_state(Node& node, const std::string& why) {
  if (node.drained || node.leaving) {
    set_state(node, NodeState::kDraining, node.drained ? "by an operator" : "it was told to end");
  } else {
    set_state(node, NodeState::kReady, why);
  }
}

void Nodes::take_models(Node& node, const NodeReport& event) {
  if (!event.models || node.models == event.models) return;
  node.models = event.models;
  core_.want_placement = true;
  for (const std::string& sha : node.lacks) {
    if (node.models->contains(sha)) {
      core_.out->note("model fetched", {{"node", node.name}, {"sha256", sha}});
    }
  }
}

/// Takes how far its fetches are; a failure is told once.
void Nodes::take_fetches(Node& node, const NodeReport& event) {
  if (node.fetches != event.fetches.has_value()) core_.want_placement = true;
  node.fetches = event.fetches.has_value();
  if (!event.fetches || node.fetching == *event.fetches) return;
  for (const FetchReport& report : *event.fetches) {
    const bool told = std::any_of(node.fetching.begin(), node.fetching.end(), [&](const auto& was) {
      return was.sha == report.sha && was.error == report.error;
    });
    if (told || report.error.empty()) continue;
    core_.out->note("model fetch failed, it is tried again",
                    {{"node", node.name},
                     {"sha256", report.sha},
                     {"code", report.error_code},
                     {"why", report.error}},
                    true);
  }
  node.fetching = *event.fetches;
}

void Nodes::set_lacks(const std::string& name, std::vector<std::string> models) {
  Node& node = nodes_.at(name);
  for (const std::string& sha : models) {
    if (std::find(node.lacks.begin(), node.lacks.end(), sha) != node.lacks.end()) continue;
    core_.out->note("node fetches a model", {{"node", node.name}, {"sha256", sha}});
  }
  node.lacks = std::move(models);
}

void Nodes::find_givers() {
  std::set<std::string> lacking;
  for (const auto& [name, node] : nodes_) lacking.insert(node.lacks.begin(), node.lacks.end());
  for (auto& [name, giver] : nodes_) {
    giver.gives = std::any_of(lacking.begin(), lacking.end(), [&giver = giver](const auto& sha) {
      return giver.models && giver.models->contains(sha);
    });
  }
}

void Nodes::farewell(Node& node) {
  set_state(node, NodeState::kLeft, "it was told to end");
  node.peer = 0;
}

void Nodes::on(const OpNode& event) {
  const auto found = nodes_.find(event.name);
  if (found == nodes_.end()) {
    core_.op_refused(
        event.peer, event.tag,
        refuse(Errc::kNotFound,
               "no node \"" + event.name + "\" has joined; `holdfast nodes list` shows them"));
    return;
  }
  Node& node = found->second;
  node.drained = event.drain;
  core_.out->write(PutFlag{"node_drain/" + node.name, event.drain ? "1" : ""}, Durability::kFull);
  const bool there = node.peer != 0 && node.signs.suspect_since_us == 0;
  if (there) set_working_state(node, "by an operator");
  fleet_.apply_node_drain(node.name, node.drained || node.leaving);
  core_.want_dispatch = core_.want_placement = true;
  core_.op_done(event.peer, event.tag, event.drain ? "nodes.drain" : "nodes.resume", node.name);
}

void Nodes::peer_gone(PeerId peer) {
  for (auto& [name, node] : nodes_) {
    if (node.peer != peer) continue;
    node.peer = 0;
    node.signs = {};
    set_state(node, NodeState::kLost, "connection lost");
    fleet_.node_speaks(name);  // its workers have connections of their own
  }
}

void Nodes::end_adoption() {
  for (auto& [name, node] : nodes_) {
    if (node.peer == 0 && node.state != NodeState::kLeft) {
      set_state(node, NodeState::kLost, "not heard of since the daemon's start");
    }
  }
}

bool Nodes::is_draining(std::string_view worker_key) const {
  const auto node = nodes_.find(node_of(worker_key));
  return node != nodes_.end() && (node->second.drained || node->second.leaving);
}

const NodeFacts& Nodes::facts_of(std::string_view worker_key) const {
  static const NodeFacts kNone;
  const auto node = nodes_.find(node_of(worker_key));
  return node == nodes_.end() ? kNone : node->second.facts;
}

std::string Nodes::domain_of(std::string_view worker_key) const {
  const auto node = nodes_.find(node_of(worker_key));
  if (node == nodes_.end()) return "the daemon's machine";
  const std::string& domain = node->second.facts.domain;
  return domain.empty() ? "node " + node->first : "domain " + domain;
}

bool Nodes::may_fetch(std::string_view worker_key, const std::string& model_sha) const {
  const auto found = nodes_.find(node_of(worker_key));
  if (found == nodes_.end() || core_.config.nodes_fetch == 0) return false;
  const Node& node = found->second;
  const bool failed = std::any_of(
      node.fetching.begin(), node.fetching.end(),
      [&](const FetchReport& report) { return report.sha == model_sha && !report.error.empty(); });
  return node.fetches && node.peer != 0 && !node.drained && !node.leaving && !failed &&
         node.facts.link_bytes_s > 0;
}

std::string Nodes::lacks(std::string_view worker_key, const std::string& model_sha) const {
  const auto node = nodes_.find(node_of(worker_key));
  if (node == nodes_.end()) return {};
  if (!node->second.models) return "node " + node->second.name + " has not told its files yet";
  if (node->second.models->contains(model_sha)) return {};
  return fetch_text(node->second, model_sha);
}

bool Nodes::lacks_file(std::string_view worker_key, const std::string& model_sha) const {
  const auto node = nodes_.find(node_of(worker_key));
  return node != nodes_.end() && node->second.models && !node->second.models->contains(model_sha);
}

}  // namespace holdfast::core
