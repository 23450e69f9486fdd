#include "control/operator/bound_requests.h"

#include <algorithm>
#include <map>
#include <utility>

namespace holdfast::daemon {
namespace {

/// The part of a numerics class in which programs and processors differ: what stands before the
/// hash of the model.
std::string class_start(const std::string& numerics_class, const std::string& sha) {
  return numerics_class.substr(0, numerics_class.find("/" + sha + "/"));
}

/// True if a load that takes all work is ready for the model; of this class, if one is given.
bool is_ready(const core::Machine& machine, const std::string& model, const std::string& start) {
  return std::ranges::any_of(machine.loads().all(), [&](const auto& item) {
    const core::LoadRow& row = item.second.row;
    if (row.model != model || row.state != core::ModelState::kReady) return false;
    return item.second.worker != 0 && item.second.only_class.empty() &&
           (start.empty() || row.numerics_class.starts_with(start + "/"));
  });
}

/// The worker that is there for this class alone.
std::string worker_for(const core::Machine& machine, const std::string& start) {
  for (const auto& [peer, worker] : machine.fleet().workers()) {
    if (worker.hello.only_class == start) return worker.hello.worker_key;
  }
  return {};
}

}  // namespace

std::vector<BoundRequests> bound_requests(const core::Machine& machine) {
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const auto& [key, count] : machine.lifecycle().requests().usage().bound()) {
    const auto model = machine.registry().models().find(key.first);
    if (model == machine.registry().models().end()) continue;
    counts[{key.first, class_start(key.second, model->second.row.sha)}] += count;
  }
  std::vector<BoundRequests> all;
  all.reserve(counts.size());
  for (const auto& [key, count] : counts) {
    all.push_back({key.first, key.second, count, is_ready(machine, key.first, key.second),
                   is_ready(machine, key.first, {}), worker_for(machine, key.second)});
  }
  return all;
}

}  // namespace holdfast::daemon
