// Start, loop, commit. daemon_in.cpp turns messages into events, daemon_out.cpp effects into
// messages.
#include "control/link/daemon.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "control/link/commit_points.h"
#include "control/link/state_dir.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"

namespace holdfast::link {
namespace {

constexpr std::int64_t kDiskCheckUs = 1'000'000;
constexpr std::int64_t kSweepUs = 1'000'000;
constexpr std::int64_t kSweepAgainUs = 20'000;
constexpr std::int64_t kSweepRows = 200;
constexpr std::int64_t kIdleUs = 50'000;  // no commit for this long: the log may be checkpointed

std::string ipc(const std::string& state_dir, const char* name) {
  return "ipc://" + state_dir + "/run/" + name + ".sock";
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options, const Clock& clock) {
  HF_CHECKED(prepare_state_dir(options.state_dir));
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), clock));
  daemon->started_us_ = clock.monotonic_us();
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
  pieces_ = std::make_unique<PieceCache>(*store_);
  // Before the first socket is bound: no fence of an earlier process can be current again.
  HF_TRY(const std::uint64_t epoch, store_->raise_epoch(clock_.wall_ms()));
  crash_point(CrashPoint::kDaemonStartEpoch);
  HF_TRY(const auto versions, store_->config_versions());
  const core::Config config = core::startup_config({}, versions, options_.imports);
  HF_TRY(core::Boot boot, store_->load(config.queue_read_requests));
  queue_unread_ = boot.unread > 0;
  crash_point(CrashPoint::kDaemonStartLoaded);
  boot.epoch = epoch;
  boot.imports = options_.imports;
  step(std::move(boot));
  store_->set_reserve(machine_.config().storage_reserve_bytes);
  HF_CHECKED(commit());
  release();
  return {};
}

Result<void> Daemon::open_doors() {
  const core::Config& c = machine_.config();
  wire::SocketOptions client;
  client.heartbeat_interval_ms = static_cast<int>(c.client_heartbeat_ms);
  client.heartbeat_timeout_ms = static_cast<int>(c.client_timeout_ms);
  client.send_high_water = client.receive_high_water = static_cast<int>(c.link_high_water);
  client.message_bytes_max = c.client_message_bytes_max;
  wire::SocketOptions worker = client;
  worker.heartbeat_interval_ms = static_cast<int>(c.worker_heartbeat_ms);
  worker.heartbeat_timeout_ms = static_cast<int>(c.worker_timeout_ms);
  worker.message_bytes_max = c.worker_message_bytes_max;
  wire::SocketOptions ingress = client;
  ingress.message_bytes_max = c.ingress_message_bytes_max;
  const auto outbox = static_cast<std::size_t>(c.outbox_messages_max);
  const Door::Options doors[] = {
      {Role::kWorker, ipc(options_.state_dir, "workers"), worker, outbox},
      {Role::kOperator, ipc(options_.state_dir, "operator"), client, outbox},
      {Role::kIngress, ipc(options_.state_dir, "ingress"), ingress, outbox},
      {Role::kClient, ipc(options_.state_dir, "clients"), client, 0},
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
  while (!stopped_) HF_CHECKED(loop_once());
  log::info("drained", {{"uptime_ms", (clock_.monotonic_us() - started_us_) / 1000}});
  crash_point(CrashPoint::kDaemonStopDrained);
  HF_CHECKED(store_->checkpoint_all());
  crash_point(CrashPoint::kDaemonStopEnd);
  return {};
}

int Daemon::wait_ms(std::int64_t now_us) const {
  if (more_ready_ || queue_unread_ || !again_.empty() || !backups_.empty()) return 0;
  std::int64_t until = now_us + kDiskCheckUs;
  if (const auto deadline = machine_.next_deadline_us()) until = std::min(until, *deadline);
  for (const Door& door : doors_) {
    if (const auto probe = door.next_probe_us()) until = std::min(until, *probe);
  }
  if (store_->wal_pages() >= store::kIdleCheckpointPages) until = std::min(until, now_us + kIdleUs);
  if (outbox_waits_) until = std::min<std::int64_t>(until, now_us + 5'000);
  // Rounded up: a timer that is nearly due must not make the loop spin.
  return static_cast<int>(std::clamp<std::int64_t>((until - now_us + 999) / 1000, 0, 1000));
}

Result<void> Daemon::loop_once() {
  std::vector<wire::WaitItem> items;
  for (const Door& door : doors_) items.push_back({&door.socket(), -1, false});
  items.push_back({nullptr, wake_.fd(), false});
  wire::wait_readable(items, wait_ms(clock_.monotonic_us()));
  wake_.clear();
  HF_CHECKED(group());
  step_backups();
  const std::int64_t now_us = clock_.monotonic_us();
  HF_CHECKED(store_->checkpoint_if_due(now_us - last_commit_us_ > kIdleUs));
  return {};
}

/// Everything that is ready now, in one transaction.
Result<void> Daemon::group() {
  if (stop_wanted_.load() && !stopping_) {
    stopping_ = true;
    step(core::Shutdown{machine_.config().drain_limit_ms});
    crash_point(CrashPoint::kDaemonStopAsked);
  }
  while (!again_.empty()) {
    const core::Event event = std::move(again_.front());
    again_.pop_front();
    step(event);
  }
  more_ready_ = false;
  const std::int64_t now_us = clock_.monotonic_us();
  for (Door& door : doors_) {
    door.watch_links(now_us);
    door.probe(now_us);
    more_ready_ = drain(door) || more_ready_;
    for (const core::PeerId peer : door.take_gone()) {
      roles_.erase(peer);
      step(core::PeerGone{peer});
    }
  }
  check_disk(now_us);
  if (queue_unread_) {
    // The rest of a long queue, piece by piece: meanwhile everybody is served.
    HF_TRY(core::BootMore more, store_->load_more(machine_.config().queue_read_requests));
    queue_unread_ = !more.last;
    step(std::move(more));
  }
  sweep(now_us);
  const auto deadline = machine_.next_deadline_us();
  if (deadline && *deadline <= clock_.monotonic_us()) step(core::Timer{});
  if (failure_) return *failure_;
  HF_CHECKED(commit());
  release();
  if (failure_) return *failure_;
  return {};
}

/// True if the bound of a group was reached and more may wait.
bool Daemon::drain(Door& door) {
  for (std::int64_t i = 0; i < machine_.config().group_messages_max; ++i) {
    auto in = door.receive(last_peer_);
    if (!in) return false;
    roles_[in->peer] = door.role();
    handle(door.role(), std::move(*in));
  }
  return true;
}

void Daemon::step(const core::Event& event) {
  machine_.step(event, now(), pending_);
}

Result<void> Daemon::commit() {
  if (pending_.rows.empty()) {
    machine_.committed();
    return {};
  }
  const std::int64_t begin_us = clock_.monotonic_us();
  if (crash_points_armed()) pass_commit_points(pending_.rows, true);
  Result<void> done = store_->apply(pending_.rows, pending_.durability);
  if (!done && done.error().code == Errc::kDiskFull) done = commit_when_room();
  if (!done) return done;
  if (crash_points_armed()) pass_commit_points(pending_.rows, false);
  machine_.committed();
  last_commit_us_ = clock_.monotonic_us();
  ++facts_.commits;
  if (pending_.durability == core::Durability::kFull) ++facts_.full_commits;
  facts_.commit_us_max = std::max(facts_.commit_us_max, last_commit_us_ - begin_us);
  return {};
}

/// The machine has moved on, so this group must be written before anything else happens. The
/// reserve file makes room; without it the daemon waits for somebody to free space. Workers go on
/// into their rings meanwhile, nobody is told anything.
Result<void> Daemon::commit_when_room() {
  log::error("disk full", {{"state_dir", options_.state_dir},
                           {"free_bytes", store_->disk_free()},
                           {"reserve_given_up", store_->make_room() ? "yes" : "no"}});
  for (;;) {
    Result<void> done = store_->apply(pending_.rows, pending_.durability);
    if (done || done.error().code != Errc::kDiskFull) {
      disk_checked_us_ = 0;  // look at the level at once: admission must stop
      return done;
    }
    if (stop_wanted_.load()) return done;
    const timespec pause{0, 100'000'000};
    nanosleep(&pause, nullptr);
  }
}

void Daemon::check_disk(std::int64_t now_us) {
  if (disk_checked_us_ != 0 && now_us - disk_checked_us_ < kDiskCheckUs) return;
  disk_checked_us_ = now_us;
  const std::int64_t free = store_->disk_free();
  const bool low = free < machine_.config().storage_min_free_bytes;
  if (low == machine_.storage_low()) return;
  step(core::StorageLevel{low, free});
  if (!low) store_->restore_reserve();
}

/// A few requests at a time, oldest first, from the start again at the end; without a pause while
/// there are some to delete.
void Daemon::sweep(std::int64_t now_us) {
  if (now_us - swept_us_ < kSweepUs) return;
  swept_us_ = now_us;
  auto rows = store_->oldest(swept_to_, kSweepRows);
  if (!rows) {
    failure_ = rows.error();
    return;
  }
  const std::uint64_t before = machine_.counters().retired;
  swept_to_ =
      rows->rows.size() < static_cast<std::size_t>(kSweepRows) ? 0 : rows->rows.back().seq + 1;
  step(std::move(*rows));
  if (machine_.counters().retired > before) swept_us_ = now_us - kSweepUs + kSweepAgainUs;
}

ProcessFacts Daemon::facts() const {
  ProcessFacts facts = facts_;
  facts.pid = getpid();
  facts.started_us = started_us_;
  facts.now_us = clock_.monotonic_us();
  for (const Door& door : doors_) facts.malformed += door.malformed();
  return facts;
}

}  // namespace holdfast::link
