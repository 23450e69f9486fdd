#include "tests/simulation/lib/daemon_node.h"

#include <sqlite3.h>

#include "shared/wire/frame.h"

namespace holdfast::simulation {
namespace {

/// One line of a report.
std::string describe(const wire::Message& message) {
  std::string text(wire::message_name(message));
  const auto about = [&](const std::string& id, std::int64_t choice, std::int64_t from,
                         std::int64_t upto) {
    text += " " + id + "/" + std::to_string(choice) + " [" + std::to_string(from) + ", " +
            std::to_string(upto) + ")";
  };
  const auto fenced = [&](const core::Fence& fence) {
    text += " fence " + std::to_string(fence.epoch) + "." + std::to_string(fence.counter);
  };
  if (const auto* m = std::get_if<wire::Event>(&message)) {
    about(m->request_id, m->choice, m->start, m->start + static_cast<std::int64_t>(m->ids.size()));
    text += " tag " + std::to_string(m->tag);
  } else if (const auto* m = std::get_if<wire::Ack>(&message)) {
    for (const auto& i : m->items) about(i.request_id, i.choice, 0, i.upto);
  } else if (const auto* m = std::get_if<wire::Tokens>(&message)) {
    for (const auto& e : m->events) {
      about(e.request_id, e.choice, e.start, e.start + static_cast<std::int64_t>(e.ids.size()));
      fenced(e.fence);
    }
  } else if (const auto* m = std::get_if<wire::Dispatch>(&message)) {
    const auto committed = static_cast<std::int64_t>(m->committed_ids.size());
    about(m->request_id, m->choice, committed, m->max_tokens);
    fenced(m->fence);
  } else if (const auto* m = std::get_if<wire::Adopt>(&message)) {
    about(m->request_id, m->choice, m->ack_upto, -1);
    fenced(m->fence);
  } else if (const auto* m = std::get_if<wire::Fin>(&message)) {
    text += " " + m->info.request_id + " " + std::string(wire::state_name(m->info.state)) +
            " tag " + std::to_string(m->tag);
  } else if (const auto* m = std::get_if<wire::Accepted>(&message)) {
    text += " " + m->info.request_id + (m->duplicate ? " again" : "");
  } else if (const auto* m = std::get_if<wire::Attach>(&message)) {
    text += " " + m->request_id + " tag " + std::to_string(m->tag);
    for (const auto from : m->from) text += " from " + std::to_string(from);
  } else if (const auto* m = std::get_if<wire::Refused>(&message)) {
    text += " " + m->refusal.message;
  } else if (const auto* m = std::get_if<wire::Drop>(&message)) {
    text += " " + m->request_id + "/" + std::to_string(m->choice) + " " + m->reason;
  } else if (const auto* m = std::get_if<wire::Returned>(&message)) {
    text += " " + m->request_id + "/" + std::to_string(m->choice) + " " + m->reason;
  }
  return text;
}

core::Config sim_config(const Swarm& s) {
  core::Config c;
  c.queue_max_requests = s.queue_max;
  c.requests_ended_in_memory = 4;
  c.queue_read_requests = s.boot_queued;
  c.workers_adoption_window_ms = 1000;
  c.workers_reconnect_ms = 1500;
  c.requests_disconnect_grace_ms = 2000;
  c.requests_class_wait_ms = 5000;
  c.streams_chunk_tokens = 8;
  c.ingress_timeout_ms = 2000;
  c.ingress_inspect_timeout_ms = 3000;
  c.models_load_tries = 4;
  c.models_load_backoff_ms = 100;
  c.models_load_backoff_max_ms = 2000;
  c.models_load_timeout_ms = 5000;
  c.models_dwell_ms = 300;
  c.breaker_failures = 3;
  c.breaker_pause_ms = 200;
  c.breaker_pause_max_ms = 2000;
  c.blame_alone_after = s.blame_alone;
  c.blame_quarantine_after = s.blame_quarantine;
  c.storage_min_free_bytes = 1;
  c.retention_hours = s.retention_hours;
  c.retention_key_hours = s.retention_key_hours;
  c.retention_max_bytes = s.retention_max_bytes;
  return c;
}

}  // namespace

DaemonNode::DaemonNode(World& world, SimDisk& disk, Network& network, Auditor& auditor)
    : world_(world),
      disk_(disk),
      store_disk_(disk),
      network_(network),
      auditor_(auditor),
      config_(sim_config(world.swarm)),
      clock_(world) {
  network_.add_listener(this);
}

DaemonNode::~DaemonNode() {
  if (commit_loop_) add_counts();
  disk_.set_faults({});
}

// ---- life and death

void DaemonNode::start() {
  boot();
}

void DaemonNode::kill() {
  if (!up_) return;
  world_.hit(Fault::kDaemonKilled);
  die(false, "waiting");
}

void DaemonNode::power_failure() {
  if (power_failed_) return;
  world_.hit(Fault::kPowerFailure);
  die(true, "power");
  if (on_power_failure) on_power_failure();
}

void DaemonNode::add_counts() {
  const core::Counters& counters = commit_loop_->machine().core().counters;
  const auto add = [&](Fault fault, std::uint64_t n) {
    world_.counts.faults[static_cast<std::size_t>(fault)] += n;
  };
  add(Fault::kRetired, counters.retired);
  add(Fault::kFalseSuspicion, counters.false_suspicions);
  add(Fault::kSecondAttempt, counters.second_attempts);
  add(Fault::kNodeSuspected, counters.node_suspicions);
  add(Fault::kNodeFalseAlarm, counters.node_false_alarms);
  const auto counts = commit_loop_->machine().lifecycle().transition_counts();
  auto& transitions = world_.counts.transitions;
  transitions.resize(std::max(transitions.size(), counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) transitions[i] += counts[i];
}

/// Everything in memory is gone; what the files have depends on the kind of death.
void DaemonNode::die(bool power, const char* where) {
  world_.say([&] { return std::string("daemon dies: ") + where; });
  world_.trace(3, life_, power);
  if (commit_loop_) add_counts();
  auditor_.daemon_died();
  ++life_;
  up_ = busy_ = false;
  wake_at_us_ = -1;
  sends_left_ = -1;
  awaits_ = followed_ = switching_ = false;
  inbox_.clear();
  orders_.clear();
  roles_.clear();
  held_ = {};
  node_watch_ = {};
  failure_.reset();
  disk_.die_after(0);
  // First the disk, so that closing the connection is no commit and no checkpoint.
  if (power) {
    disk_.power_failure();
    if (world_.swarm.reboots) store_disk_.boot_id_ += "+";
  } else {
    disk_.process_death();
  }
  power_failed_ = power_failed_ || power;
  world_.power_failed = world_.power_failed || power;
  close_all();
  network_.daemon_died(this);
  const std::int64_t after_us = world_.random.between(5, power ? 3000 : 400) * kMs;
  if (seat_.record != nullptr) return seat_.ended(after_us, power);
  const std::uint64_t life = life_;
  world_.after(after_us, [this, life] {
    if (life == life_) boot();
  });
}

void DaemonNode::close_all() {
  primary_.reset();
  record_calls_.reset();
  commit_loop_.reset();
  store_.reset();
  shipping_.reset();
}

void DaemonNode::stop() {
  disk_.process_death();
  if (commit_loop_) add_counts();
  ++life_;
  up_ = false;
  close_all();
  disk_.set_faults({});
}

void DaemonNode::stop_and_audit() {
  stop();
  auditor_.finish(read_rows(disk_.name(), kPath));
}

void DaemonNode::add_disk_counts(Counts& counts) const {
  const DiskCounts& d = disk_.counts();
  const auto add = [&](Fault fault, std::uint64_t n) {
    counts.faults[static_cast<std::size_t>(fault)] += n;
  };
  add(Fault::kWriteLost, d.writes_lost);
  add(Fault::kWriteTorn, d.writes_torn);
  add(Fault::kWritePersisted, d.writes_persisted_unsynced);
  add(Fault::kNameLost, d.names_lost);
  add(Fault::kWriteError, d.eio_write);
  add(Fault::kSyncError, d.eio_sync);
  add(Fault::kReadError, d.eio_read);
  add(Fault::kDiskFull, d.full);
}

std::string DaemonNode::commit_loop_state() const {
  if (!up_) return "daemon is down";
  const core::Machine& m = commit_loop_->machine();
  std::string text = "queued " + std::to_string(m.lifecycle().queued_choices()) + " running " +
                     std::to_string(m.lifecycle().running_choices()) + " paused " +
                     std::to_string(m.core().paused);
  for (const auto& [name, model] : m.registry().models()) {
    text += "\n  model " + name + " " + std::string(core::model_state_name(model.row.state)) +
            (model.row.load_requested ? " wanted " : " ") + model.row.reason;
  }
  for (const auto& [id, load] : m.loads().all()) {
    text += "\n  load " + id + " of " + load.row.model + " on " + load.row.worker_key + " peer " +
            std::to_string(load.worker) + " " +
            std::string(core::model_state_name(load.row.state)) + " running " +
            std::to_string(load.running.size()) + " pages " + std::to_string(load.pages_used) +
            "/" + std::to_string(load.row.pages) + (load.alone ? " alone" : "");
  }
  for (const auto& [peer, worker] : m.fleet().workers()) {
    text += "\n  worker " + worker.hello.worker_key + " peer " + std::to_string(peer) +
            (worker.quarantined ? " quarantined" : "") + (worker.draining ? " draining" : "");
  }
  for (const auto& [seq, request] : m.lifecycle().requests().all()) {
    if (request.terminal()) continue;
    text += "\n  " + request.row.id + " " + std::string(wire::state_name(request.row.state)) + " " +
            request.row.model + " class " + request.row.numerics_class;
  }
  return text;
}

void DaemonNode::set_faults() {
  DiskFaults faults;
  if (!world_.healed) {
    faults.write_eio = world_.swarm.write_eio;
    faults.sync_eio = world_.swarm.sync_eio;
    faults.read_eio = world_.swarm.read_eio;
    faults.disk_full = world_.swarm.write_full;
    if (full_) faults.capacity_bytes = 0;
  }
  disk_.set_faults(faults);
}

void DaemonNode::set_disk_full(bool full) {
  full_ = full;
  if (up_) set_faults();
}

void DaemonNode::look_at_rows() {
  disk_.set_faults({});
  // The rows of a primary whose term is over are no database any more.
  if (!auditor_.is_current(role_.term)) {
    damage_ = power_failed_ = took_over_ = false;
    return;
  }
  if (disk_.exists(kPath)) {
    const StoredRows stored = read_rows(disk_.name(), kPath);
    auditor_.rows(stored, power_failed_, took_over_);
    if (damage_ && world_.failure().empty() && stored.has_tables) damage_a_row();
  } else {
    auditor_.rows({}, power_failed_, took_over_);
  }
  damage_ = took_over_ = false;
  power_failed_ = false;
}

/// Makes the checksum of a live request's stored tokens, or that of its prompts, wrong from here
/// on. The request is one in quarantine where there is one.
void DaemonNode::damage_a_row() {
  sqlite3* db = nullptr;
  sqlite3_open_v2(kPath, &db, SQLITE_OPEN_READWRITE, disk_.name());
  std::string id;
  const bool prompts = world_.random.below(4) == 0;
  const std::string table = prompts ? "payloads" : "chunks";
  const std::string select_id = "SELECT id FROM requests JOIN " + table +
                                " USING (seq) WHERE state IN ('queued','running','quarantined')"
                                " ORDER BY state = 'quarantined' DESC, seq LIMIT 1";
  sqlite3_exec(
      db, select_id.c_str(),
      [](void* out, int, char** values, char**) {
        *static_cast<std::string*>(out) = values[0];
        return 0;
      },
      &id, nullptr);
  if (!id.empty()) {
    std::vector<std::string> damaged = {"payloads"};
    if (!prompts) damaged = {"settled", "tail"};
    for (const std::string& part : damaged) {
      const std::string sql = "UPDATE " + part +
                              " SET crc = (crc + 1) & 4294967295 WHERE seq = (SELECT seq FROM"
                              " requests WHERE id = '" +
                              id + "')";
      sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    }
    auditor_.damaged(id);
    world_.hit(Fault::kBitRot);
    world_.say([&] { return "rows of " + id + " are damaged"; });
  }
  sqlite3_close_v2(db);
}

void DaemonNode::boot() {
  look_at_rows();
  if (!world_.failure().empty()) return;
  disk_.start_process();
  set_faults();
  const bool dies = world_.accident(world_.swarm.die_in_boot);
  if (dies) disk_.die_after(world_.random.between(1, 12));
  const bool started = start_commit_loop();
  disk_.die_after(0);
  if (disk_.died()) world_.hit(Fault::kDaemonKilledInBoot);
  if (!started || disk_.died()) {
    return die(disk_.died() && world_.random.below(2) == 0, "in its recovery");
  }
  if (world_.accident(world_.swarm.die_again)) {
    world_.hit(Fault::kDaemonKilledAgain);
    return die(world_.random.below(3) == 0, "right after its recovery");
  }
  up_ = true;
  world_.say([&] {
    return "daemon up, epoch " + std::to_string(commit_loop_->machine().core().fences.epoch());
  });
  if (world_.swarm.nodes > 0 && world_.swarm.datagrams) watch_nodes();
  for (const char* model : {"m0", "m1"}) {
    if (commit_loop_->machine().registry().models().count(model) > 0) continue;
    core::OpAddModel add;
    add.name = add.path = model;
    operate(add);
  }
  wake_at(world_.now_us);
}

bool DaemonNode::start_commit_loop() {
  store::OpenOptions options;
  options.state_dir = kStateDir;
  options.disk = &store_disk_;
  if (seat_.record != nullptr) {
    shipping_ = std::make_unique<replication::ShippingDisk>(kStateDir, store_disk_);
    options.disk = &*shipping_;
    options.epoch_min = replication::epoch_of_term(role_.term);
  }
  options.idle_checkpoint_pages = 20;
  options.busy_checkpoint_pages = 100;
  options.truncate_pages = 400;
  options.tail_rows = world_.swarm.tail_rows;
  auto store = store::Store::open(options);
  if (!store) {
    world_.say([&] { return "open fails: " + store.error().what; });
    return false;
  }
  store_ = std::move(store).value();
  // The disk never loses what it had synced: the mark in the file next to it may not say otherwise.
  if (const auto loss = store_->log_loss(); loss && *loss) {
    world_.fail("I16 a start misses " + std::to_string((*loss)->expected - (*loss)->found) +
                " groups that its mark says were synced");
  }
  commit_loop_ = std::make_unique<daemon::CommitLoop>(config_, *store_, *this);
  Result<daemon::Released> released = commit_loop_->boot();
  const Result<void> booted =
      released ? deliver(std::move(released).value()) : Result<void>(released.error());
  if (!booted) world_.say([&] { return "boot fails: " + booted.error().what; });
  if (booted && seat_.record != nullptr) open_pair();
  return booted.has_value();
}

// ---- the loop

void DaemonNode::wake_at(std::int64_t at_us) {
  at_us = std::max(at_us, world_.now_us);
  if (wake_at_us_ >= 0 && wake_at_us_ <= at_us) return;
  wake_at_us_ = at_us;
  const std::uint64_t life = life_;
  world_.after(at_us - world_.now_us, [this, life, at_us] {
    if (life != life_ || wake_at_us_ != at_us) return;
    wake_at_us_ = -1;
    if (!busy_) wake();
  });
}

void DaemonNode::on_peer_message(PeerId peer, Role role, wire::Message message) {
  if (!up_ || hear_while_busy(peer, role, message)) return;
  inbox_.push_back({peer, role, std::move(message), false});
  wake_at(world_.now_us);
}

void DaemonNode::on_peer_gone(PeerId peer) {
  if (!up_) return;
  inbox_.push_back({peer, Role::kClient, {}, true});
  wake_at(world_.now_us);
  if (!awaits_ || !primary_->is_standby(peer)) return;
  primary_->peer_gone(peer);
  end_wait();
}

bool DaemonNode::operate(const core::Event& event) {
  if (!up_) return false;
  orders_.push_back(event);
  wake_at(world_.now_us);
  return true;
}

void DaemonNode::wake() {
  if (hand_over()) return;
  for (core::Event& event : std::exchange(orders_, {})) commit_loop_->operate(event);
  for (Incoming& in : std::exchange(inbox_, {})) take(in);
  const bool low = store_disk_.free_bytes_ == 0;
  if (low != commit_loop_->machine().core().storage_low)
    commit_loop_->step(core::StorageLevel{low, 0});
  if (!tick_pair()) return;
  commit_loop_->tick();
  busy_ = true;
  commit();
}

void DaemonNode::take(Incoming& in) {
  if (in.gone) {
    held_.forget(in.peer);
    if (primary_) primary_->peer_gone(in.peer);
    return commit_loop_->step(core::PeerGone{in.peer});
  }
  roles_[in.peer] = in.role;
  world_.say([&] { return "from " + std::to_string(in.peer) + ": " + describe(in.message); });
  auditor_.arrived(in.peer, in.message);
  switch (in.role) {
    case Role::kStandby:
      return hear_standby(in.peer, in.message);
    case Role::kNode:
      return hear_node(in.peer, in.message);
    case Role::kClient:
      return commit_loop_->from_client(in.peer, in.message);
    case Role::kWorker:
      return commit_loop_->from_worker(in.peer, in.message);
    case Role::kIngress:
      if (std::holds_alternative<wire::IngressHello>(in.message)) {
        commit_loop_->step(core::IngressUp{in.peer});
      } else if (auto* prepared = std::get_if<wire::Prepared>(&in.message)) {
        commit_loop_->step(core::PreparedEvent{in.peer, std::move(*prepared)});
      } else if (const auto* m = std::get_if<wire::Inspected>(&in.message)) {
        inspected(in.peer, *m);
      }
  }
}

void DaemonNode::inspected(PeerId peer, const wire::Inspected& m) {
  core::InspectedEvent event;
  event.peer = peer;
  event.inspected = m;
  event.row.context = 256;
  event.row.slots = world_.swarm.slots;
  event.row.pages = world_.swarm.slots * world_.swarm.prompt_pages;
  event.row.vocab = 32'000;
  event.row.weights_bytes = 1000;
  event.row.kv_bytes = event.row.pages * 10;
  event.row.scratch_bytes = 10;
  event.row.tokenizer_sha = "tokenizer";
  commit_loop_->step(event);
}

void DaemonNode::commit() {
  const Swarm& s = world_.swarm;
  const bool writes = !commit_loop_->pending().rows.empty();
  const core::Durability durability = commit_loop_->pending().durability;
  full_group_ = writes && durability == core::Durability::kFull;
  must_confirm_ = false;
  if (writes && world_.accident(s.die_before_commit)) {
    world_.hit(Fault::kDaemonKilledBeforeCommit);
    return die(world_.random.below(3) == 0, "before a commit");
  }
  if (writes && world_.accident(s.die_in_commit)) disk_.die_after(world_.random.between(1, 10));
  const auto done = commit_loop_->commit();
  disk_.die_after(0);
  if (disk_.died()) {
    world_.hit(Fault::kDaemonKilledInCommit);
    return die(world_.random.below(2) == 0, "inside a commit");
  }
  if (!done) {
    world_.say([&] { return "commit fails: " + done.error().what; });
    // A machine whose disk fails is likely to be switched off soon.
    const bool alone = seat_.record == nullptr;
    if (alone && !world_.healed && world_.random.below(3) == 0) {
      world_.after(world_.random.between(1, 1500) * kMs, [this] {
        if (!world_.healed) power_failure();
      });
    }
    return die(world_.random.below(2) == 0, "of a failed commit");
  }
  const std::uint64_t life = life_;
  if (*done == daemon::CommitLoop::Commit::kDiskFull) {
    world_.after(100 * kMs, [this, life] {
      if (life == life_) commit();
    });
    return;
  }
  if (!writes) return finish_group();
  ++world_.counts.commits;
  if (primary_) must_confirm_ = primary_->ship_commit(durability, world_.now_us);
  if (world_.accident(s.die_after_commit)) {
    world_.hit(Fault::kDaemonKilledAfterCommit);
    return die(world_.random.below(3) == 0, "between commit and send");
  }
  std::int64_t took_us = full_group_ ? s.sync_us : 50;
  if (world_.accident(s.slow_sync)) {
    world_.hit(Fault::kSlowSync);
    took_us = world_.random.between(10, 1000) * kMs;
  }
  world_.after(took_us, [this, life, took_us] {
    if (life == life_) await_standby(took_us);
  });
}

void DaemonNode::finish_group() {
  if (world_.accident(world_.swarm.die_in_release)) sends_left_ = world_.random.between(0, 4);
  const bool cut_short = sends_left_ >= 0;
  if (primary_ && full_group_ && primary_->may_answer()) auditor_.all_is_durable(role_.term);
  release_held();
  const Result<void> released = deliver(commit_loop_->release());
  if (cut_short && sends_left_ <= 0) {
    world_.hit(Fault::kDaemonKilledInRelease);
    return die(world_.random.below(3) == 0, "between two sends");
  }
  sends_left_ = -1;
  auditor_.group_ended();
  if (!released) return die(false, "of a failed read");
  const Result<void> checked = store_->checkpoint_if_due(world_.random.below(4) == 0);
  if (!checked) return die(world_.random.below(2) == 0, "of a failed checkpoint");
  busy_ = false;
  if (commit_loop_->stop_reached()) {
    world_.hit(Fault::kDrained);
    (void)store_->checkpoint_all();
    return die(false, "drained");
  }
  if (commit_loop_->has_pending_work() || !inbox_.empty() || !orders_.empty())
    wake_at(world_.now_us);
  if (const auto deadline = commit_loop_->machine().next_deadline_us()) wake_at(*deadline);
  if (primary_) wake_at(primary_->next_us());
}

// ---- what leaves

wire::SendStatus DaemonNode::send(core::PeerId to, wire::Message message) {
  if (sends_left_ == 0) return wire::SendStatus::kSent;  // the process is gone already
  const auto role = roles_.find(to);
  if (role == roles_.end()) return wire::SendStatus::kGone;
  if (role->second == Role::kClient && world_.accident(world_.swarm.socket_full)) {
    world_.hit(Fault::kSocketFull);
    return wire::SendStatus::kFull;
  }
  if (sends_left_ > 0) --sends_left_;
  world_.say([&] { return "to " + std::to_string(to) + ": " + describe(message); });
  auditor_.left(to, message, role_.term);
  // A connection that is lost, unknown to the daemon, takes what is sent into nothing.
  network_.send_to_peer(to, std::move(message));
  return wire::SendStatus::kSent;
}

Result<void> DaemonNode::deliver(daemon::Released released) {
  for (const core::Note& each : released.notes) note(each);
  for (auto& message : released.messages) {
    std::visit([this](auto& m) { deliver_one(m); }, message);
  }
  if (released.failure) return *released.failure;
  return {};
}

void DaemonNode::deliver_one(const daemon::Delivery& delivery) {
  if (primary_ && held_.take(delivery, !primary_->may_answer())) {
    return world_.hit(Fault::kAnswerHeld);
  }
  commit_loop_->pass_on(delivery, [this](core::PeerId to, const wire::Message& message) {
    return send(to, message);
  });
}

void DaemonNode::deliver_one(const core::SendOpResult& result) {
  if (sends_left_ == 0) return;
  if (primary_ && held_.take(result, !primary_->may_answer())) {
    return world_.hit(Fault::kAnswerHeld);
  }
  if (result.verb == "node.report") return answer_node(result);
  if (!auditor_.is_current(role_.term)) return;
  if (result.ok && result.verb == "nodes.drain") auditor_.node_drained(result.key);
  if (result.ok && result.verb == "queue.pause") auditor_.paused(true);
  if (result.ok && result.verb == "queue.resume") auditor_.paused(false);
}

void DaemonNode::note(const core::Note& note) {
  if (note.event == "canary rolled back") world_.hit(Fault::kCanaryRolledBack);
  if (note.event == "load failed") auditor_.loads_failed();  // each one uses up a try
  world_.say([&] {
    std::string text = "note: " + note.event;
    for (const auto& [key, value] : note.fields) text += " " + key + "=" + value;
    return text;
  });
}

}  // namespace holdfast::simulation
