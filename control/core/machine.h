#pragma once
// The control plane as one deterministic state machine: step(event, now) -> effects. No clock,
// socket, thread, SQL or random device. The shell does everything that a step asks for in this
// order: all row changes of the ready events in one transaction, then the messages. Used from one
// thread.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/core/admission.h"
#include "control/core/aliases.h"
#include "control/core/api_key_limiter.h"
#include "control/core/blame.h"
#include "control/core/breaker.h"
#include "control/core/config.h"
#include "control/core/effects.h"
#include "control/core/events.h"
#include "control/core/fair_line.h"
#include "control/core/fence_allocator.h"
#include "control/core/helper_pool.h"
#include "control/core/models.h"
#include "control/core/queue.h"
#include "control/core/requests.h"
#include "control/core/stats.h"
#include "control/core/streams.h"
#include "control/core/timers.h"
#include "control/core/workers.h"

namespace holdfast::core {

/// Counters since the start; names are those of the metrics.
struct Counters {
  std::uint64_t accepted = 0, duplicates = 0, refused = 0, succeeded = 0, failed = 0, cancelled = 0,
                expired = 0;
  std::uint64_t tokens = 0, duplicate_tokens = 0, stale_events = 0, violations = 0;
  std::uint64_t envelope_drifts = 0;  // loads that took more or less than was reserved
  std::uint64_t memory_pressures = 0, pressure_unloads = 0;
  std::uint64_t dispatched = 0, resumed = 0, adopted = 0, returned = 0, requeued = 0, preempted = 0,
                workers_lost = 0, retired = 0, breakers_opened = 0;
  std::uint64_t suspicions = 0, false_suspicions = 0;  // of workers; those that spoke again
  std::uint64_t second_attempts = 0;  // begun because the first one's worker was suspect
  std::uint64_t recovered = 0;        // live requests that this process found in the database
  std::uint64_t replayed_tokens = 0;  // committed before, given to a worker again to go on from
};

/// Choices of one model, tenant and priority class that wait and run.
struct QueueLine {
  std::string model;
  std::string tenant;
  PriorityClass priority = PriorityClass::kNormal;
  std::int64_t waiting = 0;         // choices
  std::int64_t running = 0;         // choices
  std::int64_t oldest_wait_us = 0;  // since acceptance, of the oldest that waits
};

class Machine {
 public:
  /// `base`: values of the knobs that nobody has set.
  explicit Machine(Config base) : base_(base), config_(base) {}

  /// Applies one event. The first one must be Boot.
  Effects step(const Event& event, Now now);
  /// Applies one event; its effects are appended to what earlier events of the group asked for.
  void step(const Event& event, Now now, Effects& out);
  /// To be called after the commit of everything that was stepped so far: memory may then forget
  /// what the database has.
  void committed() { requests_.trim(config_.requests_ended_in_memory); }
  /// Monotonic time of the next Timer event that is needed; nullopt: none is.
  std::optional<std::int64_t> next_deadline_us() const { return timers_.next_us(); }

  // ---- what the shell asks before it steps
  bool knows_id(const std::string& id) {
    return requests_.by_id(id) != nullptr || pending_by_id_.count(id) > 0;
  }
  bool knows_key(const std::string& tenant, const std::string& key) {
    return requests_.by_key(tenant, key) != nullptr || pending_by_key_.count({tenant, key}) > 0;
  }

  /// The request that this inspect job was made for; nullptr if it is not known (any more).
  const OpAddModel* inspect_request(std::uint64_t job) const {
    const auto it = jobs_.find(job);
    return it == jobs_.end() || !it->second.inspect ? nullptr : &it->second.add;
  }

  // ---- views for status, metrics and operator verbs
  const Config& config() const { return config_; }
  const Config& base_config() const { return base_; }
  /// The newest version: what knobs are set to, in effect or waiting for a restart.
  const ConfigVersion& config_version() const;
  const std::vector<ConfigVersion>& config_history() const { return config_versions_; }
  const std::map<std::string, Model>& models() const { return models_; }
  const std::map<std::string, Alias>& aliases() const { return aliases_; }
  const std::map<PeerId, Worker>& workers() const { return workers_; }
  const std::map<std::string, LostWorker>& lost_workers() const { return lost_workers_; }
  const std::map<std::string, Load>& loads() const { return loads_; }
  /// Memory pools of the machines, by key.
  const std::map<std::string, Pool>& pools() const { return pools_; }
  /// Bytes that loads, and workers that are gone, hold or will hold of a memory pool.
  std::int64_t reserved_in(const std::string& pool) const;
  /// Memory of a worker that a load may still reserve.
  MemoryHeadroom memory_headroom(const Worker& worker) const { return memory_headroom(worker, {}); }
  /// Findings on each connected worker for this model, the best first.
  std::vector<DeviceVerdict> survey(const Model& model) const;
  const Counters& counters() const { return counters_; }
  const Stats& stats() const { return stats_; }
  /// Lines by model, tenant and priority; requests of an unread queue are in none of them.
  std::vector<QueueLine> queue_lines(std::int64_t now_us) const;
  /// Live requests in quarantine.
  std::int64_t quarantined() const { return quarantined_; }
  /// Number of times that each of request_transitions() was taken.
  std::span<const std::uint64_t> transition_counts() const { return transition_counts_; }
  const RequestTable& requests() const { return requests_; }
  Request* request(const std::string& id) { return requests_.by_id(id); }
  wire::RequestInfo info(const Request& request) const;
  std::int64_t queued_choices() const;
  std::int64_t running_choices() const { return requests_.usage().all().running; }
  /// Requests of the queue that the database has and BootQueuePage has not brought yet.
  std::int64_t unread() const { return unread_; }
  std::int64_t preparing() const { return static_cast<std::int64_t>(jobs_.size()); }
  std::int64_t helpers() const { return static_cast<std::int64_t>(helpers_.size()); }
  std::int64_t streams() const { return static_cast<std::int64_t>(streams_.size()); }
  /// Breaker of a worker key; a new one if it has not failed.
  Breaker breaker(const std::string& worker_key) const {
    const auto it = breakers_.find(worker_key);
    return it == breakers_.end() ? Breaker() : it->second;
  }
  std::uint64_t epoch() const { return fences_.epoch(); }
  bool paused() const { return paused_; }
  bool draining() const { return draining_; }
  bool storage_low() const { return storage_low_; }

 private:
  using ClassKey = std::pair<std::string, std::string>;           // model name, numerics class
  using Waiters = std::vector<std::pair<PeerId, std::uint64_t>>;  // peer and tag
  struct Job {                                                    // for an ingress helper
    std::uint64_t id = 0;
    bool inspect = false;
    bool verify = false;  // only checks that the file is as registered
    SubmitEvent submit;   // prepare
    Waiters waiters;      // clients and operators that get the answer
    Route route;          // prepare: decided before, as each model has its own tokenizer
    std::string model_sha;
    OpAddModel add;     // inspect
    PeerId helper = 0;  // 0: waits for one
    std::int32_t tries = 0;
    std::int64_t deadline_us = 0;
    std::int64_t since_us = 0;
    std::int64_t bytes = 0;  // of its prompts, for the fairness between tenants
  };
  struct Freed {  // choices of a load that give way
    std::int64_t running = 0;
    std::int64_t pages = 0;
    std::int64_t pages_at_most = 0;
  };
  struct Lost {  // a worker that is gone, until the supervisor tells how it ended
    std::int64_t pid = 0;
    std::string worker_key;
    std::string incarnation;
    std::vector<std::string> models;                          // that it ran requests on
    bool suspect = false;                                     // a suspected request ran by itself
    std::vector<std::pair<ChoiceRef, std::int64_t>> running;  // with the index of that moment
    std::vector<std::string> loading;                         // names of models
  };

  // machine.cpp
  void on(const Boot& event);
  void on(const Recall& event);
  void on(const RowsDamaged& event);
  void on(const StorageLevel& event);
  void on(const MemoryLevel& event);
  void on(const Shutdown& event);
  void on(const Timer& event);
  void on(const Sweep& event);
  void on(const PeerGone& event);
  Request& take_in(const BootRequest& boot);
  void bring_in(const BootRequest& boot);
  void bring_in_late(const BootRequest& boot);
  void on(const BootQueuePage& event);
  void boot_choice(Request& request, Choice& choice, const BootChoice& boot);
  void timer_due(const TimerEntry& entry);
  void load_due(const std::string& id);
  std::int64_t steady_ms() const { return now_.mono_us / 1000 + clock_offset_ms_; }
  void start_clock(const Boot& event);
  void arm_request(const Request& request);
  void check_request(Seq seq);
  void check_class(Request& request);
  void check_drained();

  // machine_submit.cpp: the way in
  void on(const SubmitEvent& event);
  void on(const PreparedEvent& event);
  void on(const IngressUp& event);
  bool answer_duplicate(const SubmitEvent& event);
  void admit(const SubmitEvent& event, const Waiters& waiters, bool charged = false);
  std::optional<wire::Refusal> refuse_early(const SubmitEvent& event, const Model* model) const;
  std::optional<wire::Refusal> refuse_full(const SubmitEvent& event, const Model& model) const;
  std::optional<wire::Refusal> refuse_key(const SubmitEvent& event, const Model& model);
  void add_forecast(wire::Refusal& refusal, const Model& model) const;
  struct Tokenized {  // a submission as it was prepared
    std::vector<std::vector<TokenId>> ids;
    std::vector<std::string> text;  // of the prompts, for an echo
    bool embedding = false;         // vectors are asked for
    std::int64_t since_us = 0;
    bool charged = false;  // to its key, when its preparation began
    std::vector<std::string> notes = {};
  };
  static std::optional<wire::Refusal> refuse_kind(const SubmitEvent& event, const Model& model,
                                                  bool embedding);
  std::optional<wire::Refusal> refuse_prompts(const SubmitEvent& event, const Model& model,
                                              const Tokenized& tokenized,
                                              std::int64_t& max_tokens) const;
  Request make_request(const SubmitEvent& event, const Route& route, const Model& model,
                       std::int64_t max_tokens);
  void accept(const SubmitEvent& event, const Route& route, const Waiters& waiters,
              Tokenized tokenized);
  void answer_refused(const Waiters& waiters, wire::Refusal refusal);
  void start_job(Job job);
  void stand_in_line(const Job& job);
  void make_way_in_line(const std::string& tenant);
  bool queue_has_capacity(const std::string& tenant) const;
  void assign_jobs();
  void job_lost(Job& job, const std::string& why);
  Job take_job(std::uint64_t id);
  void leave_helper(Job& job);
  void end_job(std::uint64_t id) { (void)take_job(id); }
  void helper_gone(PeerId peer);

  // machine_aliases.cpp: names that stand for models
  void on(const OpAlias& event);
  std::optional<wire::Refusal> refuse_alias(const OpAlias& event) const;
  std::optional<wire::Refusal> refuse_targets(const AliasTargets& targets, bool when_ready) const;
  void remove_alias(const OpAlias& event);
  void set_targets(Alias& alias, AliasTargets targets, const std::string& who,
                   const std::string& action, const std::string& reason);
  void write_history(const Alias& alias, const std::string& who, const std::string& action,
                     const AliasTargets& to, const std::string& reason);
  void boot_aliases(const Boot& event);
  void look_at_aliases();
  void look_at_pending(Alias& alias);
  void abandon(Alias& alias, const std::string& reason);
  void load_again(Model& model, const std::string& reason);
  std::string alias_with(const std::string& model) const;
  bool makes_way_for(const std::string& model, const std::string& wanting) const;
  Route route_of(const wire::Submit& submit) const;
  bool route_holds(const Route& route) const;
  std::vector<wire::ModelInfo> alias_infos() const;

  // machine_canary.cpp: a share of an alias for another model, and what its windows say
  void on(const OpCanary& event);
  std::optional<wire::Refusal> refuse_canary(const OpCanary& event) const;
  void begin_canary(Alias& alias, const OpCanary& event, const CanarySettings& settings);
  void look_at_canary(Alias& alias);
  void begin_window(Alias& alias);
  void sample_queues(Canary& canary, const Alias& alias);
  SideEvidence evidence_of(const Canary& canary, Side side) const;
  void end_window(Alias& alias);
  void write_window(Alias& alias, CanaryDecision decision, const std::string& reason);
  void roll_back(Alias& alias, const std::string& who, const std::string& reason);
  void promote(Alias& alias, const std::string& who, const std::string& reason);
  void end_canary(Alias& alias, CanaryState state, const std::string& who,
                  const std::string& reason);
  void canary_load_failed(const Model& model, const std::string& reason);
  const Model* target_for(const Request& request) const;
  bool reroute(Request& request);
  void set_model_of(Request& request, const ModelRow& model);
  void reroute_late(Request& request);
  /// Returns the side that this request counts for now, if its alias has a running canary.
  SideStats* side_stats(const Request& request, Canary** canary = nullptr);
  void count_refused(const Route& route);
  void count_accepted(const Request& request);
  void count_for_alias(const Request& request, const Choice& choice, std::int64_t count);
  void count_end(const Request& request, RequestChange what);
  void record_end_stats(const Request& request, RequestChange what);
  void count_outcome(SideStats& stats, bool failed);
  void count_quarantined(const Request& request);
  void count_interrupted(const Request& request);

  // machine_config.cpp
  void on(const OpConfig& event);
  std::optional<wire::Refusal> refuse_local(const ConfigVersion& next) const;
  void import_config(const ConfigImport& import);
  void use_config(const ConfigVersion& version, bool at_start);
  void add_config_version(ConfigVersion version, bool at_start);

  // machine_operator.cpp
  void on(const OpCancel& event);
  void on(const OpMove& event);
  void on(const OpRequeue& event);
  void on(const OpWorker& event);
  void on(const OpPause& event);
  void release_from_quarantine(Request& request);
  void op_refused(PeerId peer, std::uint64_t tag, wire::Refusal refusal);
  void op_done(PeerId peer, std::uint64_t tag, std::string verb, std::string key);

  // machine_client.cpp: attach, credit, cancel, status
  void on(const FromClient& event);
  void on(const SendFailed& event);
  void client_message(PeerId peer, const wire::Attach& m);
  void client_message(PeerId peer, const wire::Credit& m);
  void client_message(PeerId peer, const wire::Detach& m);
  void client_message(PeerId peer, const wire::Cancel& m);
  void client_message(PeerId peer, const wire::StatusQuery& m);
  void client_message(PeerId peer, const wire::ModelsQuery& m);
  Request* find_request(const std::string& id, const std::string& tenant, const std::string& key);
  void unsubscribe(Seq seq, bool for_good = false);
  void pump_request(Request& request);
  void pump_one(Subscription& subscription, Request& request);
  void cancel_request(Request& request);

  // machine_tokens.cpp: results
  void on(const FromWorker& event);
  void worker_message(PeerId peer, const wire::Hello& m);
  void worker_message(PeerId peer, const wire::Tokens& m);
  void worker_message(PeerId peer, const wire::Returned& m);
  void worker_message(PeerId peer, const wire::StateReport& m);
  void worker_message(PeerId peer, const wire::WorkerStats& m);
  void worker_message(PeerId peer, const wire::Drain& m);
  void worker_message(PeerId peer, const wire::Drained& m);
  void token_event(Worker& worker, const wire::TokenEvent& event, wire::Ack& ack);
  bool same_as_stored(const Request& request, const Choice& choice,
                      const wire::TokenEvent& event) const;
  void bind_class(Request& request, const std::string& numerics_class);
  void count_cached(const Request& request, const Choice& choice, std::int64_t cached);
  static void note_cached(const Request& request, Choice& choice, std::int64_t cached,
                          InsertChunk& chunk);
  void count_tokens(const Request& request, Choice& choice, std::size_t count);
  void commit_tokens(Request& request, Choice& choice, const wire::TokenEvent& event,
                     std::int64_t skip);
  void determinism_violation(Worker& worker, Request& request, Choice& choice,
                             const wire::TokenEvent& event);

  // machine_requests.cpp: life of requests and choices
  void change(Request& request, RequestChange what);
  void write_request(const Request& request, Durability durability);
  void write_choice(const Request& request, const Choice& choice, Durability durability);
  bool waits(const std::string& model) const;
  QueueItem queue_item(const Request& request, const Choice& choice) const;
  void enqueue(Request& request, Choice& choice);
  void dequeue(Request& request, Choice& choice);
  void count_running(Request& request, Choice& choice);
  void stop_counting(Request& request, Choice& choice);
  void end_attempt(Request& request, Choice& choice, const std::string& reason);
  void leave_worker(Choice& choice, ChoiceRef ref);
  void requeue(Request& request, Choice& choice, const std::string& reason);
  void finish_choice(Request& request, Choice& choice, FinishReason finish, const std::string& code,
                     const std::string& error);
  void finish_request_if_done(Request& request);
  void end_request(Request& request, FinishReason finish, const std::string& code,
                   const std::string& error, bool tell_worker);
  void quarantine(Request& request);
  static ClassKey class_key(const Request& request);

  // machine_dispatch.cpp
  void dispatch();
  bool dispatch_to(Load& load);
  bool first_may_run(const std::vector<std::pair<std::int64_t, Load*>>& ready);
  bool bounds_allow(const Load& load, const QueueItem& item, const Freed& freed) const;
  bool tenant_allows(const QueueItem& item) const;
  const QueueItem* best_item(const Load& load);
  std::int32_t rank_on_worker(const Request& request) const;
  void start_choice(Request& request, Choice& choice, Load& load);

  // machine_shares.cpp: slots of tenants above their share for those below
  WorkQueue::Capacity capacity_of(const std::string& model) const;
  bool take_share(Load& load);
  std::vector<ChoiceRef> who_gives_way(const Load& load, const QueueItem& item) const;

  // machine_liveness.cpp: suspect, lost, well again
  void on(const WorkerHealth& event);
  void suspect(Worker& worker, const std::string& why);
  void trust_again(Worker& worker);
  void lose(PeerId peer, const std::string& why);
  void ask_to_greet(PeerId peer);
  void second_attempts();
  std::vector<Load*> idle_loads();
  bool may_begin_again(const Request& request, const Choice& choice, const Load& load);
  void begin_again(Request& request, Choice& choice, Load& load);

  // machine_workers.cpp
  void on(const WorkerExit& event);
  void remember_lost(const Worker& worker, const std::string& why);
  /// `returns`: its process lives and its connection is open, so it may come back with all it has.
  void worker_gone(PeerId peer, const std::string& why, bool returns = false);
  void worker_peer_gone(PeerId peer);
  void adopt(Worker& worker, const wire::Hello& hello);
  bool adopt_item(Worker& worker, const wire::ActiveItem& item);
  void reconcile_loads(Worker& worker, const wire::Hello& hello);
  void blame(const WorkerExit& exit, const Lost& lost);

  // machine_breakers.cpp
  bool breakers_allow(const Load& load) const;
  void count_failure(const std::string& worker_key, const std::string& model,
                     const std::string& why);
  void count_success(const Load& load);
  void breaker_opened(const char* subject, const std::string& key, const Breaker& breaker,
                      const std::string& why);
  void breaker_closed(const char* subject, const std::string& key);
  void quarantine_worker(Worker& worker, const std::string& why);
  void release_worker(const std::string& key);

  // machine_models.cpp
  void on(const InspectedEvent& event);
  void on(const OpAddModel& event);
  void on(const OpModel& event);
  void verify(const OpModel& event, const Model& model);
  void on(const OpGolden& event);
  void add_inspected(const Job& job, const InspectedEvent& event);
  void want(Model& model);
  void unload(Model& model);

  // machine_placement.cpp
  void run_placement();
  void reconcile_replicas(Model& model);
  DeviceVerdict verdict_on(const Model& model, const Worker& worker) const;
  bool fits_nowhere(Model& model);
  void start_load(Model& model, Worker& worker, const DeviceVerdict& verdict);
  bool evict_for(const Worker& worker, Model& wanting, std::int64_t bytes_needed);
  bool waits_for_placement(const Model& model) const;

  // machine_memory.cpp: pools of memory, reservations, pressure
  using Leaving = std::set<std::string>;  // ids of loads that count as gone
  MemoryHeadroom memory_headroom(const Worker& worker, const Leaving& leaving) const;
  std::int64_t reserved_in(const std::vector<std::string>& keys, std::int64_t most,
                           const Leaving& leaving, bool unsettled_alone) const;
  void hear_memory(const wire::MemoryReport& report, const std::string& host);
  void hear_worker_memory(Worker& worker, const wire::MemoryReport& report);
  void hear_state_memory(Worker& worker, const wire::MemoryReport& report);
  void judge_pressure(Pool& pool);
  void relieve(Pool& pool);
  void leave_remains(const Load& load, bool in_database);
  void boot_remains(const LoadRow& row);
  void drop_remains(const std::function<bool(const Remains&)>& gone);
  void renew_remains(const std::string& load_id);
  void record_remains_of(const Worker& worker, const wire::LoadedModel& held);
  void process_ended(const std::string& worker_key, const std::string& incarnation);
  void forget_remains(const std::string& worker_key, const std::string& but_incarnation);

  void set_load_state(Load& load, ModelState state, const std::string& reason);
  void end_load(const std::string& load_id, ModelState state, const std::string& reason);
  void load_failed(Load& load, const std::string& reason);
  void load_lost(Load& load, const std::string& reason);
  void count_load_failure(Model& model, const std::string& worker_key, const std::string& reason,
                          bool worker_lost = false);
  void count_failures(Model& model, std::int32_t failures);
  void set_identity(Model& model, const std::string& identity);
  void give_up(Model& model, const std::string& reason);
  bool is_idle(const Load& load) const;
  bool may_be_evicted(Load& load);
  static bool takes_from(const Load& load, const Worker& worker);
  std::int64_t loads_in_progress() const;
  void check_drift(const Load& load);
  void drain_step(Load& load);
  void refresh_model(Model& model, const std::string& reason);
  void set_model_state(Model& model, ModelState state, const std::string& reason);
  void time_switch(Model& model);
  void hear_again(const std::string& worker_key, const std::string& incarnation);
  void put_model(const Model& model);
  void put_load(const Load& load);
  void fail_waiting(Model& model);

  Config base_;
  Config config_;  // in effect
  std::vector<ConfigVersion> config_versions_;
  Now now_;
  Effects* out_ = nullptr;  // of the step in progress

  FenceAllocator fences_;
  RequestTable requests_;
  ApiKeyLimiter keys_;
  StreamHub streams_;
  Timers timers_;
  Counters counters_;
  Stats stats_;
  std::vector<std::uint64_t> transition_counts_ =
      std::vector<std::uint64_t>(request_transitions().size());
  std::map<std::string, WorkQueue> queues_;        // by model, with the choices that run
  std::map<std::string, Model> models_;            // by name
  std::map<std::string, std::string> goldens_;     // see OpGolden
  std::map<std::string, Alias> aliases_;           // by name
  std::map<std::int64_t, CanaryRow> rolled_back_;  // whose requests may still be unread, by run
  std::int64_t last_canary_ = 0;
  std::map<std::string, Load> loads_;  // by load id
  std::map<std::string, Pool> pools_;  // by key
  std::vector<Remains> remains_;
  std::map<ClassKey, std::int64_t> class_left_us_;  // when a ready load of it last ended
  std::map<PeerId, Worker> workers_;
  // The last HELLO of each connection, also of those that a newer one has replaced: which of two
  // connections of one process is dead is known only when it is reported gone.
  std::map<PeerId, wire::Hello> hellos_;
  std::map<PeerId, bool> lost_peers_;  // given up, still connected; true: asked to greet again
  std::map<std::string, LostWorker> lost_workers_;  // by key, the latest of them
  std::deque<Lost> lost_;
  std::deque<WorkerExit> exits_;  // of processes whose connection is not seen to be gone yet
  std::map<std::uint64_t, Job> jobs_;
  static constexpr std::size_t kHelperJobsMax = 32;  // enough to keep a helper busy
  HelperPool helpers_{kHelperJobsMax};
  FairLine unassigned_;
  std::unordered_map<std::string, std::uint64_t> pending_by_id_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> pending_by_key_;
  std::uint64_t last_job_ = 0;
  std::uint64_t last_load_ = 0;
  Seq last_seq_ = 0;
  std::int64_t quarantined_ = 0;
  std::int64_t unread_ = 0;
  std::int64_t adoption_until_us_ = 0;
  bool paused_ = false;
  std::int64_t clock_offset_ms_ = 0;                        // steady time for deadlines, see Boot
  std::set<std::string> drained_workers_;                   // by an operator, connected or not
  std::map<std::string, std::string> quarantined_workers_;  // key -> why, connected or not
  std::map<std::string, Breaker> breakers_;                 // of workers that failed, by key
  bool draining_ = false;
  std::int64_t drain_until_us_ = 0;
  bool storage_low_ = false;
  bool want_dispatch_ = false;
  bool want_placement_ = false;
  bool want_aliases_ = false;  // a model became ready or failed: aliases may wait for it
};

}  // namespace holdfast::core
