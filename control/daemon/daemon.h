#pragma once
// The process around the commit loop: sockets, clock, disk space, backups. Runs on one thread in
// one loop: receive what is ready, step, commit and release it (control/daemon/commit_loop.h).

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/daemon/commit_loop.h"
#include "control/daemon/held_answers.h"
#include "control/daemon/model_files.h"
#include "control/daemon/outgoing_copy.h"
#include "control/endpoints/detokenizers.h"
#include "control/endpoints/node_listener.h"
#include "control/endpoints/peer_keys.h"
#include "control/endpoints/router_endpoint.h"
#include "control/endpoints/tokenize_service.h"
#include "control/endpoints/worker_watch.h"
#include "control/operator/operator_verbs.h"
#include "control/replication/primary.h"
#include "control/replication/record_thread.h"
#include "control/replication/shipping_disk.h"
#include "control/store/backup.h"
#include "control/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/line_bound.h"
#include "shared/base/probe.h"
#include "shared/wire/zap.h"

namespace holdfast::daemon {

/// The place of this machine in a pair of primary and standby.
struct PairOptions {
  std::string url;         // of the listener as others reach it; empty: as it is bound
  std::uint64_t term = 0;  // of this machine as the primary
  std::string in_step;     // the standby that the record has
  replication::RecordStore* record = nullptr;  // nullptr: there is none
};

/// The state directory, and settings from outside of it: files, the environment, flags.
struct DaemonOptions {
  std::string state_dir;
  std::string listen;  // "tcp://HOST:PORT" of the listener for other machines; empty: there is none
  std::vector<core::ConfigImport> imports;  // the last one wins
  PairOptions pair;
  std::shared_ptr<ProbeAnswer> probe;  // of this process; nullptr: it takes its own
};

/// The daemon as a whole. start(), run() and the destructor belong to one thread.
class Daemon final : private CommitLoopHost {
 public:
  /// Opens state directory, lock, database, epoch, machine and sockets, in this order, so that no
  /// client finds a daemon that does not know its requests. Errors as Store::open and kIo.
  static Result<std::unique_ptr<Daemon>> start(DaemonOptions options, const Clock& clock);
  ~Daemon() override;

  /// Runs until a stop is requested and running work has ended or the limit is over. kStorage,
  /// kCorrupt: the process must end at once with status 74 or 70; no message of the failed group
  /// has left. kDiskFull: a stop was requested while the disk was full.
  Result<void> run();
  /// May be called on any thread and in a signal handler.
  void request_stop();

 private:
  Daemon(DaemonOptions options, const Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        probe_(options_.probe ? options_.probe : std::make_shared<ProbeAnswer>()) {}
  Result<void> open_store();
  Result<void> tell_loss();
  Result<void> open_routers();
  Result<void> open_remote(const wire::SocketOptions& local, std::size_t outbox_max);
  Result<RouterEndpoint> open_at_last_port(RouterEndpoint::Options remote) const;
  void open_model_files();
  void open_outgoing_copy();
  Result<void> read_peer_keys();
  void answer_authentication();
  /// Looks whether keys were changed, or are over, and forgets the peers that have such a key.
  Result<void> check_peer_keys(std::int64_t now_us);
  Result<void> loop_once();
  bool has_work_now() const;
  int wait_ms(std::int64_t now_us) const;
  Result<void> group();
  bool drain(RouterEndpoint& router);
  void handle(RouterEndpoint& router, Incoming in);
  void handle_local(Role role, Incoming in);
  /// Handles a message of a peer elsewhere, with the rights of its key.
  void handle_elsewhere(const RouterEndpoint& router, Incoming in);
  void hear_worker(core::PeerId peer, const wire::Message& message, bool is_local);
  void handle_node(core::PeerId peer, const wire::Op& op, const std::string& node);
  void open_pair();
  Result<void> tick_pair(std::int64_t now_us);
  void hear_standby(core::PeerId peer, const wire::Message& message);
  template <class Until>
  void hear_standby_until(std::int64_t end_us, const Until& until);
  void ship_commit(core::Durability durability);
  bool hand_over();
  void release_held();
  std::optional<ProcessFacts::Pair> pair_facts() const;
  bool answer_pair(core::PeerId peer, const wire::Op& op);
  void refuse_elsewhere(core::PeerId peer, const wire::Message& message, const std::string& key,
                        const std::string& why);
  void handle_operator(core::PeerId peer, wire::Message& message);
  /// Steps a verb of the machine, or leaves its question for after the commit.
  void operate(core::PeerId peer, const wire::Op& op);
  void handle_gateway(core::PeerId peer, wire::Message& message);
  void handle_ingress(core::PeerId peer, wire::Message& message);
  core::ModelRow model_numbers(const wire::Inspected& inspected);
  void tell_roots();
  void forget(core::PeerId peer);
  Result<void> commit();
  Result<void> release();
  /// Sends what was released, and writes its notes to the log.
  Result<void> deliver(const Released& released);
  void deliver_one(const Delivery& delivery);
  void deliver_one(const core::SendOpResult& result);
  /// Sends to a peer. kFull: the socket did not take it, and it waits nowhere.
  wire::SendStatus send(core::PeerId to, const wire::Message& message);
  std::string encode_for(const RouterEndpoint& router, core::PeerId to,
                         const wire::Message& message) const;
  void begin_backup(core::PeerId peer, const wire::Op& op);
  void step_backups();
  void answer_op(core::PeerId peer, std::uint64_t tag, const std::string& verb,
                 const std::string& key, const std::string& tenant = {});
  void check_memory(std::int64_t now_us);
  void check_disk(std::int64_t now_us);
  void check_routers(std::int64_t now_us);
  void check_router(RouterEndpoint& router, std::int64_t now_us);
  void open_node_listener();
  void look_at_nodes(std::int64_t now_us);
  void look_at_workers(std::int64_t now_us);
  ProcessFacts facts() const;

  // CommitLoopHost.
  core::Now now() const override { return {clock_.monotonic_us(), clock_.wall_ms()}; }
  void fill_token_bytes(const std::string& model_sha, wire::Event& event) override;
  std::string new_request_id() override;
  std::uint64_t new_seed() override;
  std::string body_hash(wire::Submit& submit) override;

  struct BackupJob {  // an operator's db.backup, a few pages in each loop
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::unique_ptr<store::Backup> backup;
  };
  struct Deferral {  // an operator's question, answered after the commit
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string verb;
    std::string args;
    std::string tenant;  // the caller's; empty: an operator
  };

  DaemonOptions options_;
  const Clock& clock_;
  wire::Context context_;
  wire::WakeUp wake_;
  std::shared_ptr<ProbeAnswer> probe_;
  std::optional<replication::ShippingDisk> disk_;  // with a listener; outlives the store
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<DetokenizerCache> detokenizers_;
  std::unique_ptr<TokenizeService> tokenize_service_;
  std::vector<BackupJob> backups_;
  std::unique_ptr<OutgoingCopy> outgoing_copy_;  // for operators elsewhere
  std::unique_ptr<CommitLoop> commit_loop_;
  std::vector<RouterEndpoint> routers_;  // by Role; kElsewhere only with DaemonOptions::listen
  std::unordered_map<core::PeerId, Role> roles_;
  std::optional<replication::RecordThread> record_calls_;
  std::optional<replication::Primary> primary_;  // with a listener
  HeldAnswers held_answers_;
  std::vector<Incoming> early_;          // messages that came while the standby was waited for
  bool switching_ = false;               // an operator has the standby take over
  std::optional<wire::ZapHandler> zap_;  // of the listener for other machines
  PeerKeys peer_keys_;
  std::unique_ptr<ModelFiles> model_files_;  // for nodes; only with DaemonOptions::listen
  bool peer_keys_changed_ = false;           // by a verb of this group
  log::LineBound refusal_lines_;             // of refused messages
  std::int64_t peer_keys_checked_us_ = 0;
  core::PeerId last_peer_ = 0;
  WorkerWatch worker_watch_;
  std::int64_t nodes_looked_us_ = 0;             // when look_at_nodes() last took what there was
  std::unique_ptr<NodeListener> node_listener_;  // nullptr: nodes are judged by TCP alone
  std::vector<Deferral> deferred_;
  std::vector<core::PeerId> gone_;  // found gone during a release
  std::atomic<bool> stop_requested_{false};
  bool messages_ready_ = false;
  bool outbox_waits_ = false;
  bool stopping_ = false;
  bool memory_given_back_ = false;  // since the last commit
  std::int64_t started_us_ = 0;
  std::int64_t client_message_bytes_ = 0;  // as the endpoints were opened
  std::int64_t disk_checked_us_ = 0;
  std::int64_t routers_checked_us_ = 0;
  std::int64_t bind_failure_logged_us_ = -(1LL << 40);  // that a bind failed
  std::int64_t memory_checked_us_ = 0;
  std::string host_;
  std::int64_t last_commit_us_ = 0;
  ProcessFacts facts_;
  std::optional<std::string> roots_told_;
  std::optional<Error> failure_;  // a failed read of the daemon's own: the group is not committed
};

}  // namespace holdfast::daemon
