// Start, loop, commit. daemon_in.cpp makes events of messages, daemon_out.cpp messages of effects.
#include "control/daemon/daemon.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "control/daemon/commit_points.h"
#include "control/daemon/state_dir.h"
#include "control/endpoints/names.h"
#include "control/replication/role_rules.h"
#include "shared/base/crash_point.h"
#include "shared/base/listen_note.h"
#include "shared/base/log.h"
#include "shared/base/roots.h"
#include "shared/weight_cache/idle.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kDiskCheckUs = 1'000'000;
constexpr std::int64_t kTellAgainUs = 60'000'000;
constexpr std::int64_t kIdleUs = 50'000;  // no commit for this long: the log may be checkpointed
constexpr std::int64_t kSilenceUs = 5'000'000;  // and for this long: memory may be given back

std::string ipc(const std::string& state_dir, const char* name) {
  return "ipc://" + state_dir + "/run/" + name + ".sock";
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options, const Clock& clock) {
  HOLDFAST_CHECKED(prepare_state_dir(options.state_dir));
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), clock));
  daemon->started_us_ = clock.monotonic_us();
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) daemon->host_ = host;
  crash_point(CrashPoint::kDaemonStartBegin);
  HOLDFAST_CHECKED(daemon->open_store());
  crash_point(CrashPoint::kDaemonStartRecovered);
  HOLDFAST_CHECKED(daemon->open_routers());
  crash_point(CrashPoint::kDaemonStartBound);
  return daemon;
}

Daemon::~Daemon() = default;

Result<void> Daemon::open_store() {
  store::OpenOptions open;
  open.state_dir = options_.state_dir;
  if (!options_.listen.empty()) open.disk = &disk_.emplace(options_.state_dir);
  open.epoch_min = replication::epoch_of_term(options_.pair.term);
  HOLDFAST_TRY(store_, store::Store::open(open));
  HOLDFAST_CHECKED(make_secrets(*store_));
  detokenizers_ = std::make_unique<DetokenizerCache>(*store_);
  tokenize_service_ = std::make_unique<TokenizeService>(
      *detokenizers_,
      [this](core::PeerId to, const wire::Message& message) { (void)send(to, message); });
  CommitLoopHost& host = *this;
  commit_loop_ = std::make_unique<CommitLoop>(core::Config(), *store_, host);
  HOLDFAST_TRY(const Released released, commit_loop_->boot(options_.imports));
  HOLDFAST_CHECKED(deliver(released));
  HOLDFAST_CHECKED(tell_loss());
  store_->set_reserve(commit_loop_->machine().config().storage_reserve_bytes);
  return {};
}

/// Reports a log that this start or an earlier one found lost. kCorrupt if the config refuses it.
Result<void> Daemon::tell_loss() {
  HOLDFAST_TRY(const auto loss, store_->log_loss());
  if (!loss) return {};
  log::error("the end of the database's log is lost",
             {{"groups_expected", loss->expected}, {"groups_found", loss->found}});
  if (commit_loop_->machine().config().storage_refuse_lost_log == 0) return {};
  return Error{Errc::kCorrupt,
               "start: the end of the database's log is lost: " +
                   std::to_string(loss->expected - loss->found) + " synced groups of " +
                   std::to_string(loss->expected) +
                   " are not there; restore a backup, or go on with `holdfast db accept-loss` "
                   "(storage.refuse_lost_log is 1)"};
}

Result<void> Daemon::open_routers() {
  tell_roots();
  const core::Config& c = commit_loop_->machine().config();
  wire::SocketOptions client;
  client.heartbeat_interval_ms = static_cast<int>(c.link_client_heartbeat_ms);
  client.heartbeat_timeout_ms = static_cast<int>(c.link_client_timeout_ms);
  client.send_high_water = client.receive_high_water = static_cast<int>(c.link_high_water);
  client.message_bytes_max = client_message_bytes_ = c.link_client_message_bytes;
  open_outgoing_copy();
  wire::SocketOptions worker = client;
  // On one host a closed socket shows the end of a process, and worker_watch.h judges silence by
  // what is known of the process. Heartbeats would cut the connection of a starved process.
  worker.heartbeat_interval_ms = 0;
  worker.message_bytes_max = c.link_worker_message_bytes;
  // Workers bound what they send by what they retain until it is acknowledged; a full queue would
  // hold back their signs of life.
  worker.receive_high_water = 0;
  wire::SocketOptions ingress = client;
  ingress.heartbeat_interval_ms = 0;
  ingress.message_bytes_max = c.link_ingress_message_bytes;
  const auto outbox = static_cast<std::size_t>(c.link_outbox_messages);
  const RouterEndpoint::Options routers[] = {
      {Role::kWorker, ipc(options_.state_dir, "workers"), worker, outbox},
      {Role::kOperator, ipc(options_.state_dir, "operator"), client, outbox},
      {Role::kIngress, ipc(options_.state_dir, "ingress"), ingress, outbox},
      {Role::kClient, ipc(options_.state_dir, "clients"), client, outbox},
      {Role::kGateway, ipc(options_.state_dir, "gateway"), client, outbox},
  };
  for (const RouterEndpoint::Options& router : routers) {
    HOLDFAST_TRY(RouterEndpoint open, RouterEndpoint::open(context_, router));
    routers_.push_back(std::move(open));
    if (router.role == Role::kWorker) crash_point(CrashPoint::kDaemonStartHalfBound);
  }
  if (options_.listen.empty()) return write_listen_note(options_.state_dir + "/run", {});
  return open_remote(worker, outbox);
}

void Daemon::request_stop() {
  stop_requested_.store(true);
  wake_.notify();
}

Result<void> Daemon::run() {
  while (!commit_loop_->stop_reached()) {
    // Without a record this machine would be the primary again at its next start.
    const bool stops = stop_requested_.load() && !stopping_ && record_calls_.has_value();
    if ((switching_ || stops) && hand_over()) {
      if (stop_requested_.load()) return {};
      return Error{Errc::kConflict, "the standby is the primary now"};
    }
    switching_ = false;
    HOLDFAST_CHECKED(loop_once());
  }
  log::info("drained", {{"uptime_ms", (clock_.monotonic_us() - started_us_) / 1000}});
  crash_point(CrashPoint::kDaemonStopDrained);
  HOLDFAST_CHECKED(store_->checkpoint_all());
  crash_point(CrashPoint::kDaemonStopEnd);
  return {};
}

bool Daemon::has_work_now() const {
  return messages_ready_ || commit_loop_->has_pending_work() || !gone_.empty() ||
         !backups_.empty() || outgoing_copy_->is_copying() || !early_.empty();
}

int Daemon::wait_ms(std::int64_t now_us) const {
  if (has_work_now()) return 0;
  std::int64_t until = now_us + kDiskCheckUs;
  if (const auto deadline = commit_loop_->machine().next_deadline_us())
    until = std::min(until, *deadline);
  for (const RouterEndpoint& router : routers_) {
    if (const auto probe = router.next_probe_us()) until = std::min(until, *probe);
  }
  if (const auto look = worker_watch_.next_look_us()) until = std::min(until, *look);
  if (primary_) until = std::min(until, primary_->next_us());
  if (store_->wal_pages() >= store::kIdleCheckpointPages) until = std::min(until, now_us + kIdleUs);
  if (outbox_waits_) until = std::min<std::int64_t>(until, now_us + 5'000);
  // Rounded up: a timer that is nearly due must not make the loop spin.
  return static_cast<int>(std::clamp<std::int64_t>((until - now_us + 999) / 1000, 0, 1000));
}

Result<void> Daemon::loop_once() {
  std::vector<wire::WaitItem> items;
  for (const RouterEndpoint& router : routers_) items.push_back({&router.socket(), -1, false});
  items.push_back({nullptr, wake_.fd(), false});
  if (zap_) items.push_back({nullptr, -1, false, zap_->raw()});
  if (probe_->fd() >= 0) items.push_back({nullptr, probe_->fd(), false});
  const std::size_t exits_from = items.size();
  for (const int fd : worker_watch_.exit_fds()) items.push_back({nullptr, fd, false});
  wire::wait_readable(items, wait_ms(clock_.monotonic_us()));
  wake_.clear();
  for (std::size_t i = exits_from; i < items.size(); ++i) {
    if (items[i].ready) worker_watch_.note_exit();
  }
  HOLDFAST_CHECKED(group());
  probe_->answer();
  step_backups();
  outgoing_copy_->step(clock_.monotonic_us());
  const std::int64_t quiet_us = clock_.monotonic_us() - last_commit_us_;
  HOLDFAST_CHECKED(store_->checkpoint_if_due(quiet_us > kIdleUs));
  if (quiet_us > kSilenceUs && !std::exchange(memory_given_back_, true)) {
    // The process would retain the memory of a burst otherwise.
    store_->release_memory();
    malloc_trim(0);
  }
  return {};
}

/// Steps everything that is ready now and commits it in one transaction.
Result<void> Daemon::group() {
  if (stop_requested_.load() && !stopping_) {
    stopping_ = true;
    commit_loop_->step(core::Shutdown{commit_loop_->machine().config().drain_limit_ms});
    crash_point(CrashPoint::kDaemonStopRequested);
  }
  for (const core::PeerId peer : std::exchange(gone_, {})) forget(peer);
  messages_ready_ = false;
  const std::int64_t now_us = clock_.monotonic_us();
  answer_authentication();
  for (Incoming& in : std::exchange(early_, {})) handle(routers_.back(), std::move(in));
  for (RouterEndpoint& router : routers_) {
    router.watch_links(now_us);
    router.probe(now_us);
    messages_ready_ = drain(router) || messages_ready_;
    for (const core::PeerId peer : router.take_gone()) {
      roles_.erase(peer);
      forget(peer);
    }
  }
  // After everything that the standby had sent was read.
  HOLDFAST_CHECKED(tick_pair(clock_.monotonic_us()));
  look_at_nodes(clock_.monotonic_us());
  look_at_workers(clock_.monotonic_us());
  tokenize_service_->expire(now_us);
  if (model_files_) model_files_->deliver(now_us);
  check_disk(now_us);
  check_routers(now_us);
  check_memory(now_us);
  commit_loop_->tick();
  if (failure_) return *failure_;
  HOLDFAST_CHECKED(commit());
  tell_roots();
  HOLDFAST_CHECKED(check_peer_keys(clock_.monotonic_us()));
  return release();
}

/// Writes models.roots for workers, which confine themselves to them at their start.
void Daemon::tell_roots() {
  const std::string& roots = commit_loop_->machine().config().model_roots;
  if (roots_told_ == roots) return;
  const auto written = write_roots(options_.state_dir + "/run", roots);
  if (!written) log::warn("models.roots", {{"why", written.error().what}});
  roots_told_ = roots;
}

/// Judges the workers' health. Called after everything that they had sent was read.
void Daemon::look_at_workers(std::int64_t now_us) {
  const core::Machine& machine = commit_loop_->machine();
  const bool loads =
      std::any_of(machine.loads().all().begin(), machine.loads().all().end(),
                  [](auto& item) { return item.second.row.state != core::ModelState::kReady; });
  const bool busy = loads || machine.lifecycle().running_choices() > 0;
  const WorkerWatch::Look look = worker_watch_.look(machine.config(), busy, now_us);
  for (const core::WorkerHealth& health : look.health) commit_loop_->step(health);
  for (const core::PeerId peer : look.to_ping) (void)send(peer, wire::Ping{});
}

void Daemon::forget(core::PeerId peer) {
  worker_watch_.forget(peer);
  held_answers_.forget(peer);
  if (primary_) primary_->peer_gone(peer);
  tokenize_service_->peer_gone(peer);
  if (model_files_) model_files_->peer_gone(peer);
  commit_loop_->step(core::PeerGone{peer});
}

/// Returns true if the bound of a group was reached, so that more may wait.
bool Daemon::drain(RouterEndpoint& router) {
  for (std::int64_t i = 0; i < commit_loop_->machine().config().link_group_messages; ++i) {
    auto in = router.receive(last_peer_);
    if (!in) return false;
    roles_[in->peer] = router.role();
    handle(router, std::move(*in));
  }
  return true;
}

/// Commits the group. The machine has moved on, so the group must be written before anything else
/// happens. On a full disk the reserve file makes space; without it the daemon waits until somebody
/// frees some. Workers meanwhile write on into their rings, and no message leaves.
Result<void> Daemon::commit() {
  const core::Durability durability = commit_loop_->pending().durability;
  const bool writes = !commit_loop_->pending().rows.empty();
  const std::int64_t begin_us = clock_.monotonic_us();
  for (bool told = false;; told = true) {
    HOLDFAST_TRY(const CommitLoop::Commit done, commit_loop_->commit());
    if (done == CommitLoop::Commit::kDone) break;
    disk_checked_us_ = 0;  // look at the level at once: admission must stop
    if (!told) {
      log::error("disk full", {{"state_dir", options_.state_dir},
                               {"free_bytes", store_->disk_free()},
                               {"reserve_given_up", store_->release_reserve() ? "yes" : "no"}});
      continue;
    }
    if (stop_requested_.load()) return Error{Errc::kDiskFull, "commit: the disk is full"};
    // The part of the log that fits into the file is checkpointed, so that the log can begin anew.
    HOLDFAST_CHECKED(store_->checkpoint_all());
    const timespec pause{0, 100'000'000};
    nanosleep(&pause, nullptr);
    probe_->answer();  // it waits, it does not hang
  }
  if (!writes) return {};
  if (primary_) ship_commit(durability);
  last_commit_us_ = clock_.monotonic_us();
  memory_given_back_ = false;
  ++facts_.commits;
  if (durability == core::Durability::kFull) ++facts_.full_commits;
  facts_.commit_us.add(last_commit_us_ - begin_us);
  return {};
}

void Daemon::check_disk(std::int64_t now_us) {
  if (disk_checked_us_ != 0 && now_us - disk_checked_us_ < kDiskCheckUs) return;
  disk_checked_us_ = now_us;
  const std::int64_t free = store_->disk_free();
  const bool low = free < commit_loop_->machine().config().storage_min_free_bytes;
  if (low == commit_loop_->machine().core().storage_low) return;
  commit_loop_->step(core::StorageLevel{low, free});
  if (!low) store_->restore_reserve();
}

/// Binds sockets again whose files were deleted.
void Daemon::check_routers(std::int64_t now_us) {
  if (now_us - routers_checked_us_ < kDiskCheckUs) return;
  routers_checked_us_ = now_us;
  for (RouterEndpoint& router : routers_) check_router(router, now_us);
}

void Daemon::check_router(RouterEndpoint& router, std::int64_t now_us) {
  const Result<bool> bound = router.rebind_if_unlinked();
  if (bound) {
    if (!*bound) return;
    log::warn("a socket was gone, made again",
              {{"endpoint", router.endpoint()}, {"why", std::string()}});
    return;
  }
  (void)prepare_state_dir(options_.state_dir);  // perhaps its folder is gone too
  if (now_us - bind_failure_logged_us_ < kTellAgainUs) return;
  bind_failure_logged_us_ = now_us;
  log::warn("a socket is gone", {{"endpoint", router.endpoint()}, {"why", bound.error().what}});
}

/// Measures the host's memory here too: when it is short, no worker may get to report it.
void Daemon::check_memory(std::int64_t now_us) {
  if (memory_checked_us_ != 0 && now_us - memory_checked_us_ < kDiskCheckUs) return;
  memory_checked_us_ = now_us;
  core::MemoryLevel level;
  level.host = host_;
  level.pools = host_memory_pools();
  const std::int64_t idle = weight_cache::idle_bytes(options_.state_dir + "/run/images.sock");
  for (MemoryPool& pool : level.pools) {
    if (pool.available >= 0) pool.available = std::min(pool.available + idle, pool.total);
  }
  level.at_us = now_us;
  if (!level.pools.empty()) commit_loop_->step(std::move(level));
}

ProcessFacts Daemon::facts() const {
  ProcessFacts facts = facts_;
  facts.pid = getpid();
  facts.state_dir = options_.state_dir;
  facts.started_us = started_us_;
  facts.now_us = clock_.monotonic_us();
  for (const RouterEndpoint& router : routers_) facts.malformed += router.malformed();
  facts.pair = pair_facts();
  if (node_listener_) facts.datagrams_refused = node_listener_->refused();
  return facts;
}

}  // namespace holdfast::daemon
