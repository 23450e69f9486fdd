#pragma once
// A worker of a simulation: the real WorkTable (fences, ring, adoption) over an engine that says
// what the reference says. Around it the conversation of worker/link, and everything that can
// happen to a process: killed, crashed, paused, slow, late, or lying.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/lib/auditor.h"
#include "tests/simulation/lib/control_plane.h"
#include "tests/simulation/lib/network.h"
#include "tests/simulation/lib/reference.h"
#include "tests/simulation/lib/supervisor_node.h"
#include "worker/link/work_table.h"

namespace holdfast::simulation {

class WorkerNode final : public Endpoint {
 public:
  /// `node`: whose machine it runs on; nullptr: on the daemon's, or one that no node is.
  WorkerNode(World& world, Network& network, ControlPlane& daemon, Auditor& auditor, int index,
             SupervisorNode* node);

  void start();
  /// Dies of a Linux signal; 0 = exits by itself. The supervisor tells the daemon and starts it
  /// again.
  void die(int signal, bool oom);
  /// Does and says nothing for a while; the daemon sees why.
  enum class Quiet : std::uint8_t { kStopped, kStarved, kHung };
  void go_quiet(Quiet why, std::int64_t us);
  /// Gives its work back and ends.
  void drain();
  /// Cuts it off from the daemon for a while; it goes on into its ring.
  void isolate(std::int64_t us);
  bool alive() const { return alive_; }
  /// Its machine is gone; the other side sees no more than silence for so long.
  void lose_machine(std::int64_t noticed_us);
  /// Nothing runs, and nothing waits to be acknowledged.
  bool is_idle() const { return sequences_.empty() && table_.active().empty(); }
  PeerId connection() const { return connection_; }
  const std::string& key() const { return key_; }

  void on_connected(PeerId connection) override;
  void on_lost(PeerId connection) override;
  void on_message(PeerId connection, wire::Message& message) override;

 private:
  using Name = std::pair<std::string, std::int32_t>;  // request, choice
  struct Sequence {
    Name name;
    std::string load_id, model_sha;
    Stream stream;
    std::int64_t next = 0;
    std::int64_t max_tokens = 0;
    std::int64_t poison_at = -1;
    bool paused = false, ended = false;
    std::string scores;  // of its prompt, for its first token; empty: not requested
  };
  enum class Phase : std::uint8_t { kAlone, kGreeting, kWelcome };

  void tell_health(core::WorkerHealth health, std::int64_t after_us);
  void wake_up();
  void handle(wire::Message& message);
  void on_load(const wire::Load& load);
  std::string first_key() const;
  std::string host() const;
  std::int64_t memory_total() const;
  void hold_memory(const wire::Load& load);
  void give_memory_back(const std::string& load_id);
  void on_unload(const wire::Unload& unload);
  void on_dispatch(const wire::Dispatch& dispatch);
  void on_ack(const wire::Ack& ack);
  void report(const std::string& load_id, const std::string& state, std::int64_t after_us);
  void greet();
  void step();
  bool step_engine();
  void obey_orders();
  void flush();
  void send_tokens();
  void bend(wire::TokenEvent& event);
  void send_stale();
  void send(wire::Message message);
  void remember_fence(const std::string& id, std::int32_t choice, core::Fence fence);

  World& world_;
  Network& network_;
  ControlPlane& daemon_;
  Auditor& auditor_;
  const int index_;
  SupervisorNode* const node_;
  const std::string numerics_class_;
  bool alive_ = false;
  std::int64_t paused_until_us_ = 0;
  std::vector<std::pair<PeerId, wire::Message>> backlog_;  // arrived while it was paused
  std::uint64_t life_ = 0;
  int incarnation_ = 0;
  std::string key_ = first_key();
  std::int64_t pid_ = 0;
  std::int64_t cut_off_since_us_ = -1;
  PeerId connection_ = 0;
  Name dispatched_;             // the newest
  std::optional<Name> killer_;  // whose step was its last
  Phase phase_ = Phase::kAlone;
  std::uint64_t last_epoch_ = 0;
  worker::WorkTable table_;
  std::map<std::string, wire::LoadedModel> loads_;
  std::map<std::string, wire::LoadedModel> states_unsent_;  // changed since HELLO
  std::map<engine::SequenceKey, Sequence> sequences_;
  std::map<Name, std::int64_t> sent_;  // highest index sent on any connection, for ACKs
  std::map<Name, core::Fence> old_fences_, fences_;
  std::map<Name, std::vector<core::TokenId>> said_;  // everything, from index 0
};

}  // namespace holdfast::simulation
