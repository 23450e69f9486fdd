// Start, loop, commit. daemon_in.cpp turns messages into events, daemon_out.cpp effects into
// messages.
#include "control/link/daemon.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "control/link/commit_points.h"
#include "control/link/names.h"
#include "control/link/state_dir.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/roots.h"
#include "shared/images/idle.h"

namespace holdfast::link {
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
  HF_CHECKED(prepare_state_dir(options.state_dir));
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), clock));
  daemon->started_us_ = clock.monotonic_us();
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) daemon->host_ = host;
  crash_point(CrashPoint::kDaemonStartBegin);
  HF_CHECKED(daemon->open_store());
  crash_point(CrashPoint::kDaemonStartRecovered);
  HF_CHECKED(daemon->open_doors());
  crash_point(CrashPoint::kDaemonStartBound);
  return daemon;
}

Daemon::~Daemon() = default;

Result<void> Daemon::open_store() {
  store::OpenOptions open;
  open.state_dir = options_.state_dir;
  HF_TRY(store_, store::Store::open(open));
  for (const char* name : {"ids", "prefix"}) {
    HF_CHECKED(store_->make_secret(name, new_secret()));
  }
  pieces_ = std::make_unique<PieceCache>(*store_);
  token_desk_ = std::make_unique<TokenDesk>(
      *pieces_,
      [this](core::PeerId to, wire::Message message) { (void)send(to, std::move(message)); });
  HouseHost& host = *this;
  core::Config base;
  base.guarded = options_.guarded;
  house_ = std::make_unique<House>(base, *store_, host);
  HF_CHECKED(house_->boot(options_.imports));
  HF_CHECKED(tell_loss());
  store_->set_reserve(house_->machine().config().storage_reserve_bytes);
  return {};
}

/// A log that was found lost, by this start or one before it.
Result<void> Daemon::tell_loss() {
  HF_TRY(const auto loss, store_->log_loss());
  if (!loss) return {};
  log::error("the end of the database's log is lost",
             {{"groups_expected", loss->expected}, {"groups_found", loss->found}});
  if (house_->machine().config().storage_refuse_lost_log == 0) return {};
  return Error{Errc::kCorrupt,
               "start: the end of the database's log is lost: " +
                   std::to_string(loss->expected - loss->found) + " synced groups of " +
                   std::to_string(loss->expected) +
                   " are not there; restore a backup, or go on with `holdfast db accept-loss` "
                   "(storage.refuse_lost_log is 1)"};
}

Result<void> Daemon::open_doors() {
  tell_roots();
  const core::Config& c = house_->machine().config();
  wire::SocketOptions client;
  client.heartbeat_interval_ms = static_cast<int>(c.client_heartbeat_ms);
  client.heartbeat_timeout_ms = static_cast<int>(c.client_timeout_ms);
  client.send_high_water = client.receive_high_water = static_cast<int>(c.link_high_water);
  client.message_bytes_max = client_message_bytes_ = c.client_message_bytes_max;
  wire::SocketOptions worker = client;
  // On one host a closed socket tells of the end of a process, and silence is judged by what is
  // known of it (worker_watch.h): a connection is never cut because somebody was starved.
  worker.heartbeat_interval_ms = 0;
  worker.message_bytes_max = c.worker_message_bytes_max;
  // Bounded by what workers keep until it is acknowledged; a full queue would hold back their
  // signs of life.
  worker.receive_high_water = 0;
  wire::SocketOptions ingress = client;
  ingress.heartbeat_interval_ms = 0;
  ingress.message_bytes_max = c.ingress_message_bytes_max;
  const auto outbox = static_cast<std::size_t>(c.outbox_messages_max);
  const Door::Options doors[] = {
      {Role::kWorker, ipc(options_.state_dir, "workers"), worker, outbox},
      {Role::kOperator, ipc(options_.state_dir, "operator"), client, outbox},
      {Role::kIngress, ipc(options_.state_dir, "ingress"), ingress, outbox},
      {Role::kClient, ipc(options_.state_dir, "clients"), client, 0},
      {Role::kGateway, ipc(options_.state_dir, "gateway"), client, outbox},
  };
  for (const Door::Options& door : doors) {
    HF_TRY(Door open, Door::open(context_, door));
    doors_.push_back(std::move(open));
    if (door.role == Role::kWorker) crash_point(CrashPoint::kDaemonStartHalfBound);
  }
  return {};
}

void Daemon::request_stop() {
  stop_wanted_.store(true);
  wake_.notify();
}

Result<void> Daemon::run() {
  while (!house_->stop_reached()) HF_CHECKED(loop_once());
  log::info("drained", {{"uptime_ms", (clock_.monotonic_us() - started_us_) / 1000}});
  crash_point(CrashPoint::kDaemonStopDrained);
  HF_CHECKED(store_->checkpoint_all());
  crash_point(CrashPoint::kDaemonStopEnd);
  return {};
}

int Daemon::wait_ms(std::int64_t now_us) const {
  if (more_ready_ || house_->has_more() || !gone_.empty() || !backups_.empty()) return 0;
  std::int64_t until = now_us + kDiskCheckUs;
  if (const auto deadline = house_->machine().next_deadline_us())
    until = std::min(until, *deadline);
  for (const Door& door : doors_) {
    if (const auto probe = door.next_probe_us()) until = std::min(until, *probe);
  }
  if (const auto look = worker_watch_.next_look_us()) until = std::min(until, *look);
  if (store_->wal_pages() >= store::kIdleCheckpointPages) until = std::min(until, now_us + kIdleUs);
  if (outbox_waits_) until = std::min<std::int64_t>(until, now_us + 5'000);
  // Rounded up: a timer that is nearly due must not make the loop spin.
  return static_cast<int>(std::clamp<std::int64_t>((until - now_us + 999) / 1000, 0, 1000));
}

Result<void> Daemon::loop_once() {
  std::vector<wire::WaitItem> items;
  for (const Door& door : doors_) items.push_back({&door.socket(), -1, false});
  items.push_back({nullptr, wake_.fd(), false});
  if (probe_.fd() >= 0) items.push_back({nullptr, probe_.fd(), false});
  const std::size_t exits_from = items.size();
  for (const int fd : worker_watch_.exit_fds()) items.push_back({nullptr, fd, false});
  wire::wait_readable(items, wait_ms(clock_.monotonic_us()));
  wake_.clear();
  for (std::size_t i = exits_from; i < items.size(); ++i) {
    if (items[i].ready) worker_watch_.note_exit();
  }
  HF_CHECKED(group());
  probe_.answer();
  step_backups();
  const std::int64_t quiet_us = clock_.monotonic_us() - last_commit_us_;
  HF_CHECKED(store_->checkpoint_if_due(quiet_us > kIdleUs));
  if (quiet_us > kSilenceUs && !std::exchange(memory_given_back_, true)) {
    // What a burst took would stay with the process otherwise.
    store_->release_memory();
    malloc_trim(0);
  }
  return {};
}

/// Everything that is ready now, in one transaction.
Result<void> Daemon::group() {
  if (stop_wanted_.load() && !stopping_) {
    stopping_ = true;
    house_->step(core::Shutdown{house_->machine().config().drain_limit_ms});
    crash_point(CrashPoint::kDaemonStopAsked);
  }
  for (const core::PeerId peer : std::exchange(gone_, {})) forget(peer);
  more_ready_ = false;
  const std::int64_t now_us = clock_.monotonic_us();
  for (Door& door : doors_) {
    door.watch_links(now_us);
    door.probe(now_us);
    more_ready_ = drain(door) || more_ready_;
    for (const core::PeerId peer : door.take_gone()) {
      roles_.erase(peer);
      forget(peer);
    }
  }
  look_at_workers(clock_.monotonic_us());
  token_desk_->expire(now_us);
  check_disk(now_us);
  check_doors(now_us);
  check_memory(now_us);
  house_->tick();
  if (failure_) return *failure_;
  HF_CHECKED(commit());
  tell_roots();
  return release();
}

/// Workers confine themselves to them at their start.
void Daemon::tell_roots() {
  const std::string& roots = house_->machine().config().model_roots;
  if (roots_told_ == roots) return;
  const auto written = write_roots(options_.state_dir + "/run", roots);
  if (!written) log::warn("models.roots", {{"why", written.error().what}});
  roots_told_ = roots;
}

/// Called after everything that they had sent was read.
void Daemon::look_at_workers(std::int64_t now_us) {
  const core::Machine& machine = house_->machine();
  const bool loads = std::any_of(machine.loads().begin(), machine.loads().end(), [](auto& item) {
    return item.second.row.state != core::ModelState::kReady;
  });
  const bool busy = loads || machine.running_choices() > 0;
  const WorkerWatch::Look look = worker_watch_.look(machine.config(), busy, now_us);
  for (const core::WorkerHealth& health : look.health) house_->step(health);
  for (const core::PeerId peer : look.to_ping) (void)send(peer, wire::Ping{});
}

void Daemon::forget(core::PeerId peer) {
  worker_watch_.forget(peer);
  token_desk_->peer_gone(peer);
  house_->step(core::PeerGone{peer});
}

/// True if the bound of a group was reached and more may wait.
bool Daemon::drain(Door& door) {
  for (std::int64_t i = 0; i < house_->machine().config().group_messages_max; ++i) {
    auto in = door.receive(last_peer_);
    if (!in) return false;
    roles_[in->peer] = door.role();
    handle(door.role(), std::move(*in));
  }
  return true;
}

/// The machine has moved on, so a group must be written before anything else happens. On a full
/// disk the reserve file makes room; without it the daemon waits for somebody to free space.
/// Workers go on into their rings meanwhile, nobody is told anything.
Result<void> Daemon::commit() {
  const core::Durability durability = house_->pending().durability;
  const bool writes = !house_->pending().rows.empty();
  const std::int64_t begin_us = clock_.monotonic_us();
  for (bool told = false;; told = true) {
    HF_TRY(const House::Commit done, house_->commit());
    if (done == House::Commit::kDone) break;
    disk_checked_us_ = 0;  // look at the level at once: admission must stop
    if (!told) {
      log::error("disk full", {{"state_dir", options_.state_dir},
                               {"free_bytes", store_->disk_free()},
                               {"reserve_given_up", store_->make_room() ? "yes" : "no"}});
      continue;
    }
    if (stop_wanted_.load()) return Error{Errc::kDiskFull, "commit: the disk is full"};
    // What of the log fits into the file gives the log room to begin anew.
    HF_CHECKED(store_->checkpoint_all());
    const timespec pause{0, 100'000'000};
    nanosleep(&pause, nullptr);
    probe_.answer();  // it waits, it does not hang
  }
  if (!writes) return {};
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
  const bool low = free < house_->machine().config().storage_min_free_bytes;
  if (low == house_->machine().storage_low()) return;
  house_->step(core::StorageLevel{low, free});
  if (!low) store_->restore_reserve();
}

/// A socket's file that was deleted is made again.
void Daemon::check_doors(std::int64_t now_us) {
  if (now_us - doors_checked_us_ < kDiskCheckUs) return;
  doors_checked_us_ = now_us;
  for (Door& door : doors_) {
    const Result<bool> bound = door.keep_bound();
    if (bound && !*bound) continue;
    const char* event = bound ? "a socket was gone, made again" : "a socket is gone";
    const std::string why = bound ? std::string() : bound.error().what;
    if (!bound) (void)prepare_state_dir(options_.state_dir);  // perhaps its folder is gone too
    if (!bound && now_us - doors_told_us_ < kTellAgainUs) continue;
    if (!bound) doors_told_us_ = now_us;
    log::warn(event, {{"endpoint", door.endpoint()}, {"why", why}});
  }
}

/// Also where no worker could tell: the machine is short of memory when nobody gets a word in.
void Daemon::check_memory(std::int64_t now_us) {
  if (memory_checked_us_ != 0 && now_us - memory_checked_us_ < kDiskCheckUs) return;
  memory_checked_us_ = now_us;
  core::MemoryLevel level;
  level.host = host_;
  level.pools = host_memory_pools();
  const std::int64_t idle = images::idle_bytes(options_.state_dir + "/run/images.sock");
  for (MemoryPool& pool : level.pools) {
    if (pool.available >= 0) pool.available = std::min(pool.available + idle, pool.total);
  }
  level.at_us = now_us;
  if (!level.pools.empty()) house_->step(std::move(level));
}

ProcessFacts Daemon::facts() const {
  ProcessFacts facts = facts_;
  facts.pid = getpid();
  facts.state_dir = options_.state_dir;
  facts.started_us = started_us_;
  facts.now_us = clock_.monotonic_us();
  for (const Door& door : doors_) facts.malformed += door.malformed();
  return facts;
}

}  // namespace holdfast::link
