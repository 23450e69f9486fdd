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
#include "control/endpoints/detokenizers.h"
#include "control/endpoints/router_endpoint.h"
#include "control/endpoints/tokenize_service.h"
#include "control/endpoints/worker_watch.h"
#include "control/operator/operator_verbs.h"
#include "control/store/backup.h"
#include "control/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/probe.h"

namespace holdfast::daemon {

/// The state directory, and settings from outside of it: files, the environment, flags.
struct DaemonOptions {
  std::string state_dir;
  std::vector<core::ConfigImport> imports;  // the last one wins
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
  Daemon(DaemonOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  Result<void> open_store();
  Result<void> tell_loss();
  Result<void> open_routers();
  Result<void> loop_once();
  bool has_work_now() const;
  int wait_ms(std::int64_t now_us) const;
  Result<void> group();
  bool drain(RouterEndpoint& router);
  void handle(Role role, Incoming in);
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
  void begin_backup(core::PeerId peer, const wire::Op& op);
  void step_backups();
  void answer_op(core::PeerId peer, std::uint64_t tag, const std::string& verb,
                 const std::string& key, const std::string& tenant = {});
  void check_memory(std::int64_t now_us);
  void check_disk(std::int64_t now_us);
  void check_routers(std::int64_t now_us);
  void check_router(RouterEndpoint& router, std::int64_t now_us);
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
  ProbeAnswer probe_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<DetokenizerCache> detokenizers_;
  std::unique_ptr<TokenizeService> tokenize_service_;
  std::vector<BackupJob> backups_;
  std::unique_ptr<CommitLoop> commit_loop_;
  std::vector<RouterEndpoint> routers_;  // by Role
  std::unordered_map<core::PeerId, Role> roles_;
  core::PeerId last_peer_ = 0;
  WorkerWatch worker_watch_;
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
