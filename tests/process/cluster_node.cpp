#include "tests/process/cluster_node.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/listen_note.h"
#include "shared/base/supervisor_note.h"

namespace holdfast::process {

using nlohmann::json;

std::vector<std::string> listening(std::vector<std::string> more) {
  more.insert(more.end(), {"--http", "none", "--workers", "0", "--listen", "tcp://127.0.0.1:0"});
  return more;
}

std::string listener_of(const TestServer& server) {
  return read_listen_note(server.state() + "/run");
}

ClusterNode::ClusterNode(const TestServer& server, const std::string& name)
    : server_(server), name_(name) {
  const Ended made = server.cli({"keys", "node", "create", name, "--out", key_file()});
  if (made.code != 0) std::fprintf(stderr, "keys node create: %s\n", made.err.c_str());
}

bool ClusterNode::join(const std::vector<std::string>& flags) {
  std::vector<std::string> args = {"holdfast", "--state", dir_.path() + "/state",
                                   "node",     "--join",  listener_of(server_),
                                   "--key",    key_file()};
  args.insert(args.end(), flags.begin(), flags.end());
  node_ = std::make_unique<Running>(args, dir_.path() + "/out");
  for (int i = 0; i < 1'000; ++i) {
    const std::string said = node_->output();
    if (said.find("joined " + name_) != std::string::npos) return true;
    if (said.find("is refused") != std::string::npos) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

pid_t ClusterNode::worker_pid(const std::string& worker) const {
  for (const SupervisedChild& child : read_supervisor_note(dir_.path() + "/state/run").children) {
    if (child.name == worker) return static_cast<pid_t>(child.pid);
  }
  return 0;
}

json ClusterNode::row() const {
  const Ended listed = server_.cli({"--json", "nodes", "list"});
  const json document = json::parse(listed.out, nullptr, false);
  if (!document.is_object()) return nullptr;
  for (const json& row : document["nodes"]) {
    if (row["name"] == name_) return row;
  }
  return nullptr;
}

bool ClusterNode::reaches(const std::string& state, int patience_ms) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (std::chrono::steady_clock::now() < until) {
    const json found = row();
    if (found.is_object() && found["state"] == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace holdfast::process
