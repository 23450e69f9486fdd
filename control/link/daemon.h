#pragma once
// The thin shell around the machine: one thread, one loop. Receive what is ready, step the machine
// for each, commit all row changes in one transaction, only then let the messages out.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/core/machine.h"
#include "control/link/door.h"
#include "control/link/operator_verbs.h"
#include "control/link/pieces.h"
#include "control/store/backup.h"
#include "control/store/store.h"
#include "shared/base/clock.h"

namespace holdfast::link {

struct DaemonOptions {
  std::string state_dir;
  std::vector<core::ConfigImport> imports;  // the last one wins
};

class Daemon {
 public:
  /// Opens everything: state directory, lock, database, epoch, machine, sockets; in this order, so
  /// that no client finds a daemon that does not know its requests. Errors as Store::open and kIo.
  static Result<std::unique_ptr<Daemon>> start(DaemonOptions options, const Clock& clock);
  ~Daemon();

  /// Until a stop is asked for and running work has ended or the limit is over. kStorage, kCorrupt:
  /// the process must end at once with status 74 or 70; nothing of the failed group has left.
  Result<void> run();
  /// From any thread or signal handler.
  void request_stop();

 private:
  Daemon(DaemonOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), machine_(core::Config{}) {}
  Result<void> open_store();
  Result<void> open_doors();
  Result<void> loop_once();
  int wait_ms(std::int64_t now_us) const;
  Result<void> group();
  bool drain(Door& door);
  void handle(Role role, Incoming in);
  void handle_client(core::PeerId peer, wire::Message& message);
  void handle_worker(core::PeerId peer, wire::Message& message);
  void handle_operator(core::PeerId peer, wire::Message& message);
  void handle_ingress(core::PeerId peer, wire::Message& message);
  void recall(const std::string& id, const std::string& tenant, const std::string& key);
  core::ModelRow model_numbers(const wire::Inspected& inspected);
  void step(const core::Event& event);
  Result<void> commit();
  Result<void> commit_when_room();
  void release();
  void release_one(core::SendMessage& out);
  void release_one(core::SendDispatch& out);
  void release_one(core::SendEvent& out);
  void release_one(core::SendOpResult& out);
  void begin_backup(core::PeerId peer, const wire::Op& op);
  void step_backups();
  void reply(core::PeerId peer, const wire::Message& message);
  wire::SendStatus send(core::PeerId peer, const std::string& frame);
  void answer_op(core::PeerId peer, std::uint64_t tag, const std::string& verb,
                 const std::string& key);
  void check_disk(std::int64_t now_us);
  void sweep(std::int64_t now_us);
  core::Now now() const { return {clock_.monotonic_us(), clock_.wall_ms()}; }
  ProcessFacts facts() const;

  struct BackupJob {  // an operator's db.backup, a few pages a turn
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::unique_ptr<store::Backup> backup;
  };
  struct Deferral {  // an operator's question, answered after the commit
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string verb;
    std::string args;
  };

  DaemonOptions options_;
  const Clock& clock_;
  wire::Context context_;
  wire::WakeUp wake_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<PieceCache> pieces_;
  std::vector<BackupJob> backups_;
  core::Machine machine_;
  std::vector<Door> doors_;  // by Role
  std::unordered_map<core::PeerId, Role> roles_;
  core::PeerId last_peer_ = 0;
  core::Effects pending_;  // of the group in progress
  std::vector<Deferral> deferred_;
  std::set<std::pair<core::PeerId, std::uint64_t>> full_;  // streams whose socket was full now
  std::deque<core::Event> again_;  // events that the release of messages caused
  std::atomic<bool> stop_wanted_{false};
  bool more_ready_ = false;
  bool queue_unread_ = false;  // the store has more of the queue as it was at the start
  bool outbox_waits_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  std::int64_t started_us_ = 0;
  std::int64_t disk_checked_us_ = 0;
  std::int64_t swept_us_ = 0;
  core::Seq swept_to_ = 0;  // where the next sweep goes on
  std::int64_t last_commit_us_ = 0;
  ProcessFacts facts_;
  std::optional<Error> failure_;  // a read that failed: the group is not committed
};

}  // namespace holdfast::link
