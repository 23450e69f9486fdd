#pragma once
// Workers: connections, adoption, liveness, permission to get work.

#include <map>
#include <set>
#include <string>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Breakers;
class Lifecycle;
class Loads;
class MemoryPools;
class Nodes;
class Postmortem;
class Registry;

/// A node of which no datagrams arrive, or at which none arrive.
struct NodeSilence {
  std::string why;
  std::int64_t since_us = 0;  // monotonic, when it was suspected
  bool deaf = false;          // it speaks, but what it is told does not arrive
  bool lost = false;          // for so long that its workers are given up
};

/// The connected workers. The newest HELLO of a key is the worker; one that is lost has lost its
/// fences, and its work is queued again.
class Fleet {
 public:
  Fleet(Core& core, Loads& loads, Registry& registry, MemoryPools& memory, Lifecycle& lifecycle,
        Postmortem& postmortem, Breakers& breakers, const Nodes& nodes)
      : core_(core),
        loads_(loads),
        registry_(registry),
        memory_(memory),
        lifecycle_(lifecycle),
        postmortem_(postmortem),
        breakers_(breakers),
        nodes_(nodes) {}

  /// Takes in which workers are drained and quarantined.
  void boot(const Boot& event);
  /// Returns false for a connection that has not said HELLO, or was given up or replaced by a newer
  /// one; it is asked to greet.
  bool listens_to(const FromWorker& event);
  /// Ends the adoption window: what workers of before the start have not taken up goes on without
  /// them.
  void end_adoption();
  void on(const WorkerHealth& event);
  void on(const OpWorker& event);
  void worker_message(PeerId peer, const wire::Hello& m);
  void worker_message(PeerId peer, const wire::WorkerStats& m);
  /// Drains a worker that was told to end: what it runs goes on for a while, it gets nothing new.
  void worker_message(PeerId peer, const wire::Drain& m);
  void worker_message(PeerId peer, const wire::Drained& m);
  /// Ends what was known of a connection, if it was a worker's.
  void worker_peer_gone(PeerId peer);
  /// Ends all fences of a worker that is gone; everything that it ran is queued again as resumed
  /// work. `returns`: its process lives and its connection is open, so it may come back with all it
  /// has.
  void worker_gone(PeerId peer, const std::string& why, bool returns = false);
  /// Quarantines a worker that may not be believed any more: its work goes elsewhere, it gets no
  /// new work until an operator releases it, also as a new process and after a restart of the
  /// daemon.
  void quarantine_worker(Worker& worker, const std::string& why);

  /// Drains the connected workers of a node, or lets those work again that no operator drained.
  void apply_node_drain(const std::string& node, bool drain);

  /// Suspects the workers of a silent node, or gives them up. A worker that has spoken since the
  /// node was suspected shows that machine and cable are there: its own connection judges it.
  void node_is_silent(const std::string& node, const NodeSilence& silence);
  /// Ends that suspicion; workers of the node that were given up are asked to greet again.
  void node_speaks(const std::string& node);

  std::map<PeerId, Worker>& workers() { return workers_; }
  const std::map<PeerId, Worker>& workers() const { return workers_; }
  /// Workers that were given up and have not come back, by key.
  const std::map<std::string, LostWorker>& lost_workers() const { return lost_workers_; }

 private:
  void hear_again(const std::string& worker_key, const std::string& incarnation);
  void leave_to_adoption(Worker& worker);
  void supersede(const wire::Hello& hello);
  void remember_lost(const Worker& worker, const std::string& why);
  void reconcile_loads(Worker& worker, const wire::Hello& hello);
  void adopt(Worker& worker, const wire::Hello& hello);
  bool adopt_item(Worker& worker, const wire::ActiveItem& item);
  using Doubt = bool Worker::*;  // self_suspect, node_suspect
  void suspect(Worker& worker, Doubt doubt, const std::string& why);
  void trust_again(Worker& worker, Doubt doubt);
  void lose(PeerId peer, const std::string& why);
  void ask_to_greet(PeerId peer);
  void release_worker(const std::string& key);

  Core& core_;
  Loads& loads_;
  Registry& registry_;
  MemoryPools& memory_;
  Lifecycle& lifecycle_;
  Postmortem& postmortem_;
  Breakers& breakers_;
  const Nodes& nodes_;

  std::map<PeerId, Worker> workers_;
  // The last HELLO of each connection, also of those that a newer one has replaced: which of two
  // connections of one process is dead is known only when it is reported gone.
  std::map<PeerId, wire::Hello> hellos_;
  std::map<PeerId, bool> lost_peers_;  // given up, still connected; true: asked to greet again
  std::map<std::string, LostWorker> lost_workers_;          // by key, the latest of them
  std::set<std::string> drained_workers_;                   // by an operator, connected or not
  std::map<std::string, std::string> quarantined_workers_;  // key -> why, connected or not
};

}  // namespace holdfast::core
