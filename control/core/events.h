#pragma once
// Events: what happens to the machine. Ids and seeds are drawn by the shell and come with the
// event.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "control/core/planner.h"
#include "control/core/rows.h"

namespace holdfast::core {

inline constexpr std::size_t kConfigVersionsMax = 1000;
inline constexpr std::size_t kCanaryHistoryMax = 256;

/// Requests of an API key in the database, for its limits at a start.
struct KeyUse {
  std::string key;
  std::int64_t live = 0;                 // not ended, unread ones too
  std::vector<std::int64_t> created_ms;  // of those of the last minute, wall
};

/// First event of a process: the content of the database. `epoch` was raised and synced before.
struct Boot {
  std::uint64_t epoch = 0;
  Seq last_seq = 0;
  std::vector<ConfigVersion> config_versions;  // oldest first, at most kConfigVersionsMax
  std::vector<ConfigImport> imports;           // in this order: the last one wins
  bool queue_paused = false;
  // Deadlines are stored on a clock that nobody steps: monotonic time plus an offset that holds as
  // long as the machine has not booted again. The offset as it was stored with its boot, and this
  // boot of the machine.
  std::string clock_boot_id, boot_id;
  std::int64_t clock_offset_ms = 0;
  std::map<std::string, std::string> quarantined_workers;  // key -> why
  std::vector<std::string> pinned_models;
  std::map<std::string, std::string> goldens;      // golden_key() -> ids of the first verification
  std::map<std::string, std::string> identities;   // of models' files, by model
  std::map<std::string, std::string> keep_alives;  // how long clients want models to stay
  std::map<std::string, std::string> load_failures;  // loads that failed in a row, by model
  std::vector<std::string> drained_workers;  // keys of workers that an operator told to drain
  std::map<std::string, std::string> nodes;  // that have joined: name -> row (nodes.cpp)
  std::vector<std::string> drained_nodes;    // by an operator
  std::vector<ModelRow> models;
  std::vector<LoadRow> loads;  // not ended, or their memory may not be free yet
  std::vector<AliasRow> aliases;
  std::vector<CanaryRow> canaries;    // oldest first, at most kCanaryHistoryMax
  std::vector<BootRequest> requests;  // live ones, by seq; without the `unread`
  std::vector<KeyUse> keys;
  /// Queued requests that follow in BootQueuePage events, so that a long queue delays nobody.
  std::int64_t unread = 0;
};
/// The next queued requests by seq, until there are none: then `requests` may be empty and `last`
/// is set. Requests that the machine has already (a Recall came first) are skipped.
struct BootQueuePage {
  std::vector<BootRequest> requests;
  bool last = false;
};
/// A request that the shell read because an event to come names it and the machine does not have
/// it.
struct Recall {
  BootRequest request;
};

// ---- clients
struct SubmitEvent {
  PeerId peer = 0;
  wire::Submit submit;
  std::string new_id;          // used when submit.request_id is empty
  std::uint64_t new_seed = 0;  // used when !submit.seed_given
  std::string body_hash;  // of the submit without tag and id, used when submit.body_hash is empty
};

/// A message of a client other than a submission.
struct FromClient {
  PeerId peer = 0;
  std::variant<wire::Attach, wire::Credit, wire::Detach, wire::Cancel, wire::StatusQuery,
               wire::ModelsQuery>
      message;
};
/// An EVENT or FIN that a client's socket does not take now (its high-water mark).
struct SendFailed {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string request_id;
  std::int32_t choice = -1;  // -1: the FIN
  std::int64_t start = 0;
};

// ---- workers
struct FromWorker {
  PeerId peer = 0;
  std::variant<wire::Hello, wire::Tokens, wire::Returned, wire::StateReport, wire::WorkerStats,
               wire::Drain, wire::Drained>
      message;
};
/// State of a worker's process as the shell sees it: sent while the worker is silent or stopped,
/// when it has ended, and once more when it is well again. Times count only while the shell could
/// look.
struct WorkerHealth {
  enum class Process : std::uint8_t { kUnknown, kAlive, kStopped, kEnded };
  PeerId peer = 0;
  Process process = Process::kUnknown;
  std::int64_t silent_us = 0;     // asked for a sign of life and gave none
  std::int64_t unexcused_us = 0;  // of this, neither starved nor in the kernel
  std::int64_t stopped_us = 0;    // by a signal or a debugger
};
/// End of a worker process, from the supervisor. The connection is usually gone already.
struct WorkerExit {
  std::int64_t pid = 0;
  std::int32_t status = 0;
  std::int32_t signal = 0;
  bool oom = false;
  /// step_mark() of every choice in the step that was running; nullopt: not known, any may be in
  /// it.
  std::optional<std::vector<std::uint64_t>> step = {};
  std::string worker_key = {};  // of a node's worker; empty: a process of the daemon's machine
};

// ---- nodes
/// How far a node is with a model's file that it fetches from another machine.
struct FetchReport {
  std::string sha;     // of the model
  std::string name;    // of its file or folder; empty: not known yet
  std::string state;   // "waiting", "reading", "checking", "fetching", "finishing", …
  std::string source;  // "the daemon's machine", "node NAME"
  std::int64_t done_bytes = 0;
  std::int64_t bytes = 0;  // 0: not known yet
  std::string error_code;  // of the last try that failed
  std::string error;
  bool operator==(const FetchReport&) const = default;
};
/// A node's sign of life, from its supervisor.
struct NodeReport {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string name;  // as its key says
  std::string incarnation, host, version;
  bool leaving = false;  // it was told to end: it drains
  bool left = false;     // its last report
  /// Content hashes of the files below its roots; nullopt: as before.
  std::optional<std::set<std::string>> models;
  /// Its fetches; nullopt: its program fetches none.
  std::optional<std::vector<FetchReport>> fetches = {};
  std::optional<NodeFacts> facts = {};  // nullopt: as before
};
/// Signs of life of a node over datagrams, as the shell has them: told while it is silent, when it
/// is well again, and each second. Not before its first datagram. Times count only while the shell
/// could hear.
struct NodeHealth {
  std::string name;
  std::int64_t silent_us = 0;   // since its last datagram
  std::int64_t deaf_us = 0;     // for which none of ours has arrived there
  std::int64_t delay_us = 0;    // its own longest wait for a processor, lately
  std::int64_t longest_us = 0;  // its longest silence, lately
  std::uint64_t missed = 0;     // datagrams that did not arrive
};
/// Drains a node (`drain`): its workers finish what they run and get nothing new, also after a
/// restart of either side. Else lets it take work again.
struct OpNode {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string name;
  bool drain = false;
};

// ---- ingress helpers
struct IngressUp {
  PeerId peer = 0;
};

/// The answer of an ingress helper to a job.
struct PreparedEvent {
  PeerId peer = 0;
  wire::Prepared prepared;
};
/// An INSPECTED message, with what the shell computed from the shape (plan::memory_envelope).
struct InspectedEvent {
  PeerId peer = 0;
  wire::Inspected inspected;
  ModelRow row;  // numbers filled; the machine sets name, path, options, load_requested
};

/// The connection of a peer of any kind is gone.
struct PeerGone {
  PeerId peer = 0;
};

// ---- operators
struct OpAddModel {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string name;
  std::string path;
  std::int64_t context = 0;
  std::int32_t slots = 0;
  std::string kv_type;
  std::string options;
  bool load = false;
  std::optional<std::string> profile;  // empty: none; absent: stays with the same file
};
struct OpModel {  // verb: models.remove | load | unload | pin | unpin | verify | keep_alive
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string verb;
  std::string name;
  std::int64_t keep_alive_ms = 0;  // of keep_alive; negative: without end
  bool for_client = false;         // a client of the gateway asks for it, no operator
};
/// Answer of a model to the fixed prompt of `models verify`. The first answer of a numerics class
/// is stored for ever; a later one that differs is refused with determinism_violation.
struct OpGolden {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string model;
  std::string numerics_class;
  std::vector<TokenId> ids;
};

/// Cancels a request, as an operator.
struct OpCancel {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string id;
};

/// Moves the running choices of a worker elsewhere, or drains it.
struct OpMove {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string id;
  PriorityClass priority = PriorityClass::kNormal;
};
/// Takes a request out of quarantine, or off its worker and to the queue again.
struct OpRequeue {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string id;
};
/// Drains a worker (`drain`): it finishes what it runs and gets nothing new, also after a restart
/// of either side. Else lets it take work again.
struct OpWorker {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string key;
  bool drain = false;
};

/// Pauses or resumes the queue.
struct OpPause {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  bool paused = false;
};

/// A change of the configuration by an operator: assignments, or a version to go back to.
struct OpConfig {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string verb;
  std::string who;
  std::vector<Assignment> changes;
  std::optional<std::int64_t> rollback_to = {};
  bool from_network = false;  // some knobs can be changed on the machine itself alone
};

/// models.alias: other targets, at once or when their models are ready. Without targets: its
/// removal.
struct OpAlias {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string name;
  std::string who;
  AliasTargets targets;
  bool when_ready = false;
};
/// models.canary: a share of an alias for another model, or the end of a canary by an operator.
struct OpCanary {
  PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string name;  // of the alias
  std::string who;
  std::string model;
  /// Settings that the operator gave, -1 = as the knob says. percent must be given.
  CanarySettings settings;
  enum class End : std::uint8_t { kNone, kRollBack, kPromote } end = End::kNone;
};

// ---- the process itself
/// Stored rows of a request that cannot be read: the request ends, the others go on.
struct RowsDamaged {
  Seq seq = 0;
  std::string why;
};

/// The time of the next timer has come.
struct Timer {};
/// Oldest requests of the database, so that ended ones whose time is over are deleted.
struct Sweep {
  struct Row {
    Seq seq = 0;
    std::int64_t finished_ms = 0;  // 0: live
  };
  std::vector<Row> rows;
  std::int64_t used_bytes = 0;  // of the database
};
/// Free space of the disk crossed the admission threshold.
struct StorageLevel {
  bool low = false;
  std::int64_t free_bytes = 0;
};
/// Promises may not be given: no standby has them, and the record says that one has.
struct StandbyLevel {
  bool missing = false;
};
/// Memory pools of the daemon's machine with what they have left, told each second.
struct MemoryLevel {
  std::string host;
  std::vector<MemoryPool> pools;
  std::int64_t at_us = 0;  // monotonic
};

/// The daemon is to end: nothing new is taken, running work may finish.
struct Shutdown {
  std::int64_t limit_ms = 10'000;
};

using Event =
    std::variant<Boot, BootQueuePage, Recall, SubmitEvent, FromClient, SendFailed, FromWorker,
                 WorkerHealth, WorkerExit, NodeReport, NodeHealth, OpNode, IngressUp, PreparedEvent,
                 InspectedEvent, PeerGone, OpAddModel, OpModel, OpCancel, OpMove, OpRequeue,
                 OpWorker, OpPause, OpConfig, OpGolden, OpAlias, OpCanary, Timer, Sweep,
                 RowsDamaged, StorageLevel, StandbyLevel, MemoryLevel, Shutdown>;

/// Returns the request that an operator's event names, so that the shell can read it first; else
/// nullptr.
inline const std::string* request_named_by(const Event& event) {
  if (const auto* cancel = std::get_if<OpCancel>(&event)) return &cancel->id;
  if (const auto* move = std::get_if<OpMove>(&event)) return &move->id;
  if (const auto* requeue = std::get_if<OpRequeue>(&event)) return &requeue->id;
  return nullptr;
}

}  // namespace holdfast::core
