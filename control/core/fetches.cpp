#include "control/core/fetches.h"

#include <algorithm>
#include <utility>

#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

/// True if the node can fetch now.
bool may_fetch(const Node& node) {
  return node.fetches && node.peer != 0 && !node.drained && !node.leaving;
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

const FetchReport* report_of(const Node& node, const std::string& sha) {
  const auto found = std::find_if(node.fetching.begin(), node.fetching.end(),
                                  [&](const FetchReport& report) { return report.sha == sha; });
  return found == node.fetching.end() ? nullptr : &*found;
}

std::string progress_text(const FetchReport& report) {
  if (report.state == "failed") return " cannot fetch it: " + report.error + "; it tries again";
  if (report.state == "waiting" || report.state.empty()) return " will fetch it";
  const std::string before = report.error.empty() ? "" : "; before: " + report.error;
  if (report.state == "reading") {
    return " will fetch it when " + report.source + " has hashed it" + before;
  }
  const std::int64_t percent = report.bytes > 0 ? report.done_bytes * 100 / report.bytes : 0;
  return " fetches it: " + std::to_string(percent) + " % (" + std::to_string(report.done_bytes) +
         " of " + std::to_string(report.bytes) + " bytes, from " + report.source + ")" + before;
}

}  // namespace

std::string fetch_text(const Node& node, const std::string& model_sha) {
  const FetchReport* report = report_of(node, model_sha);
  if (has(node.lacks, model_sha)) {
    return "node " + node.name + (report == nullptr ? " will fetch it" : progress_text(*report));
  }
  return "node " + node.name + " has no file with this content (SHA-256 " + model_sha +
         "); copy it below one of its roots (holdfast node --root)";
}

/// Adds the nodes that should have the model's file. With a number of replicas no more of them than
/// would load it; those that have begun come first.
void Fetches::add_lacks(const Model& model, std::vector<NodeLacks>& lacks) const {
  std::vector<const Node*> candidates;
  for (const DeviceVerdict& verdict : model.devices) {
    if (!verdict.lacks_file) continue;
    const auto node = nodes_.all().find(node_of(verdict.worker_key));
    if (node != nodes_.all().end() && may_fetch(node->second)) candidates.push_back(&node->second);
  }
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Node* node) { return has(node->lacks, model.row.sha); });
  const std::int64_t replicas = core_.config.model(model.row.name).replicas;
  const LoadTable::Group& its = loads_.all().of_model(model.row.name);
  std::int64_t have = std::count_if(its.begin(), its.end(), [](const Load* load) {
    return load->row.state != ModelState::kDraining && load->only_class.empty();
  });
  for (const Node* node : candidates) {
    if (replicas > 0 && have >= replicas) return;
    ++have;
    const auto entry = std::find_if(lacks.begin(), lacks.end(),
                                    [&](const NodeLacks& l) { return l.name == node->name; });
    if (!has(entry->models, model.row.sha)) entry->models.push_back(model.row.sha);
  }
}

void Fetches::run() {
  std::vector<NodeLacks> lacks;
  for (const auto& [name, node] : nodes_.all()) lacks.push_back({name, {}});
  if (core_.config.nodes_fetch != 0 && !core_.draining) {
    for (const auto& [name, model] : registry_.models()) {
      const bool requested = model.row.load_requested && model.row.state != ModelState::kFailed;
      if (requested) add_lacks(model, lacks);
    }
  }
  for (NodeLacks& entry : lacks) nodes_.set_lacks(entry.name, std::move(entry.models));
  nodes_.find_givers();
}

}  // namespace holdfast::core
