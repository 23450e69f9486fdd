#include "tests/cluster/node_cluster.h"

#include <nlohmann/json.hpp>

namespace holdfast::cluster {

nlohmann::json Cluster::row_of(int node) {
  const auto listed =
      nlohmann::json::parse(cli({"--json", "nodes", "list"}).second, nullptr, false);
  if (!listed.is_object()) return {};
  for (const nlohmann::json& row : listed["nodes"]) {
    if (row["name"] == name_of(node)) return row;
  }
  return {};
}

std::string Cluster::state_of(int node) {
  const nlohmann::json row = row_of(node);
  return row.is_object() ? row["state"].get<std::string>() : std::string();
}

bool Cluster::has_worker(int node) {
  for (int i = 0; i < 300; ++i) {
    const auto listed =
        nlohmann::json::parse(cli({"--json", "workers", "list"}).second, nullptr, false);
    if (listed.is_object()) {
      for (const nlohmann::json& row : listed["workers"]) {
        if (row["key"] == name_of(node) + "/worker-0" && row["state"] == "ready") return true;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace holdfast::cluster
