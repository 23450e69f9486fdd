#pragma once
// Nodes: other machines that run workers for this daemon. A node's supervisor reports in; its
// workers have connections of their own, and keys "NODE/WORKER".

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/core.h"
#include "control/core/events.h"

namespace holdfast::core {

class Fleet;

/// The states of a node.
enum class NodeState : std::uint8_t {
  kReady,
  kDraining,  // by an operator, or because it was told to end
  kLost,      // its connection is gone without a farewell
  kLeft,      // it has said that it ends
};
std::string_view node_state_name(NodeState state);  // "ready", …

/// The signs by which a node is judged.
enum class Liveness : std::uint8_t {
  kTcp,        // its connection alone: no datagram has arrived, or none arrives any more
  kDatagrams,  // silence of its datagrams too
};
std::string_view liveness_name(Liveness liveness);  // "tcp", "datagrams"

/// Findings about a node by its datagrams, since it joined.
struct NodeSigns {
  Liveness liveness = Liveness::kTcp;
  NodeHealth last;                    // as last told
  std::int64_t joined_us = 0;         // monotonic
  std::int64_t suspect_since_us = 0;  // 0: it is well
  std::int64_t reports = 0;           // that arrived while it was suspect
  bool abandoned = false;             // datagrams stopped while its connection went on
  std::uint64_t false_alarms = 0;     // times that it was suspect and came again
};

/// A node as the daemon has it in memory; it stays when it leaves.
struct Node {
  std::string name;
  NodeState state = NodeState::kLost;
  PeerId peer = 0;  // of its supervisor; 0: not connected
  std::string incarnation, host, version;
  std::int64_t since_ms = 0;     // wall, of the state
  std::int64_t reported_us = 0;  // monotonic; 0: not since the daemon's start
  std::string why;               // of the state
  bool drained = false;          // by an operator, also after a restart of either side
  bool leaving = false;          // it was told to end
  NodeSigns signs;
  NodeFacts facts;
  /// Content hashes of the files below its roots; nullopt: it has not told them yet.
  std::optional<std::set<std::string>> models;
  bool fetches = false;                    // its program fetches models
  std::vector<std::string> lacks;          // hashes of models that it should fetch
  std::vector<FetchReport> fetching = {};  // as it has said last
  bool gives = false;                      // it has what another node lacks
};

/// The models that a node should fetch, by their hashes.
struct NodeLacks {
  std::string name;
  std::vector<std::string> models;
};

/// The node that a worker's key names; empty for a worker of the daemon's machine.
std::string_view node_of(std::string_view worker_key);

/// All nodes that ever joined. One machine each: a second process with the key of a connected node
/// is refused.
class Nodes {
 public:
  Nodes(Core& core, Fleet& fleet) : core_(core), fleet_(fleet) {}

  void boot(const Boot& event);
  void on(const NodeReport& event);
  /// Judges the datagrams of a node: suspect and lost, as of workers. Blames nobody.
  void on(const NodeHealth& event);
  void on(const OpNode& event);
  /// Ends what was known of a connection, if it was a node's.
  void peer_gone(PeerId peer);
  /// Ends the adoption window: nodes that were there before the daemon's start and have not
  /// reported are lost.
  void end_adoption();

  /// True if workers of this key get nothing new, because of their node.
  bool is_draining(std::string_view worker_key) const;
  /// Facts of the worker's node; those of a worker of the daemon's machine say nothing.
  const NodeFacts& facts_of(std::string_view worker_key) const;
  /// Name of what fails together with the worker: its node's failure domain, else its machine.
  std::string domain_of(std::string_view worker_key) const;
  /// True if the worker's node can fetch a file now, over a link whose rate is measured, and has
  /// not failed to fetch this one.
  bool may_fetch(std::string_view worker_key, const std::string& model_sha) const;
  /// Why a worker cannot load a file with this content; empty: it can.
  std::string lacks(std::string_view worker_key, const std::string& model_sha) const;
  /// True if the worker's node has told its files, and this is none of them.
  bool lacks_file(std::string_view worker_key, const std::string& model_sha) const;
  /// Sets the models that a node should fetch.
  void set_lacks(const std::string& name, std::vector<std::string> models);
  /// Finds the nodes that have what others should fetch.
  void find_givers();
  const std::map<std::string, Node, std::less<>>& all() const { return nodes_; }

 private:
  void set_state(Node& node, NodeState state, const std::string& why);
  void take_report(Node& node, const NodeReport& event);
  void farewell(Node& node);
  void set_working_state(Node& node, const std::string& why);
  void node_is_well(Node& node);
  void node_is_silent(Node& node, bool lost);
  void count_report(Node& node);
  void take_models(Node& node, const NodeReport& event);
  void take_fetches(Node& node, const NodeReport& event);

  Core& core_;
  Fleet& fleet_;
  std::map<std::string, Node, std::less<>> nodes_;  // by name
};

}  // namespace holdfast::core
