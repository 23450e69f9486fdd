#include "worker/link/link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/process_view.h"
#include "shared/base/progress.h"
#include "shared/wire/frame.h"
#include "worker/link/host.h"

namespace holdfast::worker {
namespace {

constexpr int kTickMs = 50;
constexpr int kRetryMs = 2;
constexpr std::int64_t kLateUs = 20'000;
constexpr std::int64_t kHelloAgainUs = 1'000'000;
constexpr std::int64_t kStatsEveryUs = 1'000'000;
// After work was handed back: time for the last frames to leave and the last acks to come.
constexpr std::int64_t kFarewellUs = 300'000;
constexpr std::size_t kTokensPerMessage = 32'768;  // well below 1 MiB of CBOR
constexpr int kMessagesPerTurn = 256;

std::int64_t now_us_() {
  return system_clock().monotonic_us();
}

}  // namespace

Link::Link(LinkOptions options, EngineFactory factory)
    : options_(std::move(options)),
      incarnation_(random_incarnation()),
      table_(options_.ring_tokens),
      compute_(std::make_unique<Compute>(std::move(factory), wake_, options_.journal)) {}

Link::~Link() = default;

void Link::request_stop() {
  stop_.store(true);
  wake_.notify();
}

Result<void> Link::open() {
  wire::SocketOptions options;
  // A daemon of this host that ends closes the socket; a starved one must not lose this worker.
  options.heartbeat_interval_ms = options_.heartbeat_timeout_ms / 3;
  options.heartbeat_timeout_ms = options_.heartbeat_timeout_ms;
  options.server_key = options_.server_key;
  options.public_key = options_.public_key;
  options.secret_key = options_.secret_key;
  options.message_bytes_max = 64 << 20;  // DISPATCH carries prompt and committed ids
  // A full queue would hold back the daemon's heartbeats; what can arrive is bounded by the slots.
  options.receive_high_water = 0;
  HOLDFAST_TRY(auto socket, wire::Socket::open(context_, wire::SocketKind::kDealer, options));
  socket_ = std::make_unique<wire::Socket>(std::move(socket));
  HOLDFAST_CHECKED(socket_->start_monitor(context_));
  return socket_->connect(options_.endpoint);
}

Result<void> Link::run() {
  HOLDFAST_CHECKED(open());
  alone_since_us_ = now_us_();
  std::vector<wire::WaitItem> items = {{socket_.get(), -1, false}, {nullptr, wake_.fd(), false}};
  if (probe_.fd() >= 0) items.push_back({nullptr, probe_.fd(), false});
  for (;;) {
    const std::int64_t now = now_us_();
    probe_.answer();
    drain_link_events(now);
    drain_messages(now);
    for (ComputeEvent& event : compute_->take_events()) on_compute_event(event);
    on_tick(now);
    flush();
    if (is_over(now)) return {};
    const bool unsent = phase_ == Phase::kWelcome && !table_.unsent(1).events.empty();
    wire::wait_readable(items, unsent ? kRetryMs : kTickMs);
    wake_.clear();
  }
}

void Link::drain_link_events(std::int64_t now_us) {
  while (const auto event = socket_->next_link_event()) {
    if (*event == wire::LinkEvent::kBroken) continue;  // there was no connection
    if (*event == wire::LinkEvent::kRefused) {
      log::warn("the daemon does not accept this node's key", {{"endpoint", options_.endpoint}});
      continue;
    }
    forget_connection();
    if (*event == wire::LinkEvent::kConnected) {
      phase_ = Phase::kGreeting;
      hello_us_ = 0;
    } else {
      if (phase_ != Phase::kAlone) alone_since_us_ = now_us;
      phase_ = Phase::kAlone;
      log::info("daemon gone, going on alone",
                {{"choices", static_cast<std::uint64_t>(table_.size())}});
    }
  }
  if (phase_ == Phase::kGreeting && now_us - hello_us_ > kHelloAgainUs) send_hello(now_us);
}

/// Forgets what was sent or waits to be sent: HELLO and what follows it say it again.
void Link::forget_connection() {
  table_.connection_lost();
  states_unsent_.clear();  // HELLO reports the newest
  returned_unsent_.clear();
  drained_sent_ = drain_announced_ = false;
}

void Link::send_hello(std::int64_t now_us) {
  wire::Hello hello;
  hello.worker_key = options_.worker_key;
  hello.incarnation = incarnation_;
  hello.pid = getpid();
  hello.started_ticks = own_start_ticks();
  hello.host = host_name();
  hello.device = options_.device;
  hello.kernels = options_.kernels;
  hello.threads = options_.threads;
  hello.engine = options_.engine;
  hello.memory = memory();
  for (const auto& [id, model] : loads_) hello.models.push_back(model);
  hello.active = table_.active();
  hello.last_epoch = last_epoch_;
  hello.only_class = options_.only_class;
  if (!send(hello)) return;  // tried again later
  hello_us_ = now_us;
  crash_point(CrashPoint::kWorkerHelloSent);
}

void Link::drain_messages(std::int64_t now_us) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    const std::optional<wire::Received> received = socket_->receive();
    if (!received.has_value()) return;
    const Result<wire::Message> message = wire::decode(received->frame);
    if (message.has_value()) {
      on_message(message.value(), now_us);
    } else {
      log::warn("frame refused", {{"reason", message.error().what}});
    }
  }
  wake_.notify();
}

void Link::on_message(const wire::Message& message, std::int64_t now_us) {
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    send(wire::Pong{ping->tag});
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    on_welcome(*welcome, now_us);
  } else if (phase_ != Phase::kWelcome) {
    // Meant for the connection before, or from a daemon that was not accepted.
    log::debug("message before WELCOME ignored", {{"type", wire::message_name(message)}});
  } else {
    on_order(message, now_us);
  }
}

/// Does what the daemon that has accepted this worker wants.
void Link::on_order(const wire::Message& message, std::int64_t now_us) {
  if (const auto* ack = std::get_if<wire::Ack>(&message)) {
    on_ack(*ack);
  } else if (const auto* dispatch = std::get_if<wire::Dispatch>(&message)) {
    on_dispatch(*dispatch, now_us);
  } else if (const auto* adopt = std::get_if<wire::Adopt>(&message)) {
    on_adopt(*adopt);
  } else if (const auto* drop = std::get_if<wire::Drop>(&message)) {
    table_.drop(*drop);
  } else if (const auto* cancel = std::get_if<wire::CancelWork>(&message)) {
    crash_point(CrashPoint::kWorkerCancelRead);
    if (!is_stale(cancel->fence)) table_.cancel(*cancel);
  } else if (const auto* load = std::get_if<wire::Load>(&message)) {
    on_load(*load);
  } else if (const auto* unload = std::get_if<wire::Unload>(&message)) {
    on_unload(*unload);
  } else if (const auto* drain = std::get_if<wire::Drain>(&message)) {
    daemon_drains_us_ = !drain->resume;
    drained_sent_ = false;
  }
}

void Link::on_ack(const wire::Ack& ack) {
  crash_point(CrashPoint::kWorkerAckRead);
  for (const wire::AckItem& item : ack.items) table_.ack(item);
}

void Link::on_adopt(const wire::Adopt& adopt) {
  crash_point(CrashPoint::kWorkerAdoptRead);
  if (!is_stale(adopt.fence)) table_.adopt(adopt);
  crash_point(CrashPoint::kWorkerAdopted);
}

void Link::on_welcome(const wire::Welcome& welcome, std::int64_t now_us) {
  if (welcome.epoch < last_epoch_) {
    log::error("daemon refused: its epoch is older than one seen before; two daemons?",
               {{"epoch", welcome.epoch}, {"seen", last_epoch_}});
    phase_ = Phase::kGreeting;
    return;
  }
  if (phase_ == Phase::kAlone) return;
  last_epoch_ = welcome.epoch;
  if (welcome.greet_again) {
    log::info("given up while it was silent: greeting again",
              {{"choices", static_cast<std::uint64_t>(table_.size())}});
    forget_connection();
    phase_ = Phase::kGreeting;
    send_hello(now_us);
    return;
  }
  phase_ = Phase::kWelcome;
  was_welcome_ = true;
  log::info("welcome", {{"epoch", welcome.epoch}, {"worker", welcome.worker_id}});
  crash_point(CrashPoint::kWorkerWelcome);
}

bool Link::is_stale(const wire::Fence& fence) {
  if (fence.epoch >= last_epoch_) return false;
  log::warn("order of an older epoch refused", {{"epoch", fence.epoch}, {"seen", last_epoch_}});
  return true;
}

void Link::on_load(const wire::Load& load) {
  const auto existing = loads_.find(load.load_id);
  if (existing != loads_.end() && existing->second.state != "failed") {
    states_unsent_[load.load_id] = existing->second;
    return;
  }
  wire::LoadedModel& model = loads_[load.load_id];
  model = {};
  model.load_id = load.load_id;
  model.model_sha = load.model_sha;
  model.state = "loading";
  log::info("loading", {{"load", load.load_id}, {"path", load.path}});
  crash_point(CrashPoint::kWorkerLoadBegin);
  compute_->load(load);
}

void Link::on_unload(const wire::Unload& unload) {
  crash_point(CrashPoint::kWorkerUnloadRead);
  table_.return_unfinished(unload.load_id, "the model is being unloaded");
  if (loads_.find(unload.load_id) != loads_.end()) {
    compute_->order(table_.take_orders());  // cancels reach the engine before its end
    compute_->unload(unload.load_id);
    return;
  }
  wire::LoadedModel& gone = states_unsent_[unload.load_id];
  gone.load_id = unload.load_id;
  gone.state = "unloaded";
}

void Link::on_dispatch(const wire::Dispatch& dispatch, std::int64_t now_us) {
  crash_point(CrashPoint::kWorkerDispatchRead);
  if (is_stale(dispatch.fence)) return;
  const auto load = loads_.find(dispatch.load_id);
  if (load == loads_.end() || load->second.state != "ready") {
    return table_.refuse(dispatch,
                         "load " + dispatch.load_id + ": " +
                             (load == loads_.end() ? "not on this worker" : load->second.state));
  }
  if (load->second.model_sha != dispatch.model_sha) {
    return table_.refuse(dispatch, "load " + dispatch.load_id + ": holds another model");
  }
  if (stop_.load() || daemon_drains_us_) return table_.refuse(dispatch, "the worker is draining");
  table_.dispatch(dispatch, now_us);
}

void Link::on_compute_event(ComputeEvent& event) {
  if (const auto* batch = std::get_if<ProducedBatch>(&event)) {
    for (const engine::Produced& produced : batch->produced) table_.produced(produced);
  } else if (const auto* failed = std::get_if<AddFailed>(&event)) {
    table_.add_failed(failed->key, failed->error);
  } else if (auto* changed = std::get_if<LoadChanged>(&event)) {
    wire::LoadedModel& model = changed->model;
    const wire::MemoryReport now = memory();
    model.memory.total = now.total;
    model.memory.free = now.free;
    model.memory.rss = now.rss;
    model.memory.at_us = now.at_us;
    model.memory.pools = now.pools;
    if (options_.engine == "fake") model.identity.clear();  // a fake engine reads no file
    states_unsent_[model.load_id] = model;
    model.memory.pools.clear();  // HELLO reports the newest
    if (model.state == "unloaded") {
      loads_.erase(model.load_id);
    } else {
      loads_[model.load_id] = model;
    }
    // The newest numbers decide about the next load; the weight cache server gives memory back a
    // moment later.
    if (model.state != "loading" && model.state != "warming") stats_us_ = 0;
  }
}

/// The memory for loads. A device with memory of its own, or a pretended one, has what its loads
/// leave of it.
wire::MemoryReport Link::memory() const {
  wire::MemoryReport report = host_memory(options_.weight_cache_path);
  if (options_.device_memory_bytes == 0) return report;
  report.total = report.free = options_.device_memory_bytes;
  report.pools = device_pools(options_.device_memories, report.pools);
  for (const auto& [id, model] : loads_) {
    report.free -= model.memory.weights + model.memory.kv + model.memory.scratch;
  }
  report.free = std::max<std::int64_t>(report.free, 0);
  return report;
}

bool Link::send(const wire::Message& message) {
  return socket_->send(wire::encode(message)) == wire::SendStatus::kSent;
}

void Link::flush() {
  compute_->order(table_.take_orders());
  for (wire::Returned& item : table_.take_returned()) returned_unsent_.push_back(std::move(item));
  if (phase_ != Phase::kWelcome) return;
  flush_tokens();  // before RETURNED: tokens that were produced count
  flush_returned();
  flush_states();
  const bool draining = stop_.load() || daemon_drains_us_;
  if (stop_.load() && !drain_announced_) drain_announced_ = send(wire::Drain{});
  if (draining && table_.empty() && !drained_sent_) drained_sent_ = send(wire::Drained{});
}

void Link::flush_returned() {
  while (!returned_unsent_.empty() && send(returned_unsent_.front())) {
    returned_unsent_.erase(returned_unsent_.begin());
  }
}

void Link::flush_states() {
  while (!states_unsent_.empty() && send(wire::StateReport{states_unsent_.begin()->second})) {
    states_unsent_.erase(states_unsent_.begin());
    crash_point(CrashPoint::kWorkerLoadReported);
  }
}

void Link::flush_tokens() {
  for (;;) {
    const wire::Tokens shape = table_.unsent(kTokensPerMessage);
    if (shape.events.empty()) return;
    wire::Tokens tokens = shape;
    tokens.step = compute_->status().usage.steps;
    crash_point(CrashPoint::kWorkerTokensBefore);
    if (!send(tokens)) return;
    crash_point(CrashPoint::kWorkerTokensSent);
    table_.mark_sent(tokens);
  }
}

void Link::on_tick(std::int64_t now_us) {
  table_.expire(now_us);
  watch_step(now_us);
  socket_->seek(phase_ != Phase::kAlone, now_us);
  if (phase_ == Phase::kWelcome && now_us - stats_us_ >= kStatsEveryUs) {
    stats_us_ = now_us;
    send_stats();
  }
  if (!stop_.load()) return;
  if (stop_since_us_ == 0) {
    stop_since_us_ = now_us;
    crash_point(CrashPoint::kWorkerStopRequested);
  }
  if (returned_us_ == 0 && now_us - stop_since_us_ > options_.drain_ms * 1000) {
    returned_us_ = now_us;
    table_.return_unfinished("", "the worker ends");
  }
}

void Link::send_stats() {
  const ComputeStatus status = compute_->status();
  wire::WorkerStats stats;
  stats.memory = memory();
  for (const auto& [id, model] : loads_) {
    stats.memory.weights += model.memory.weights;
    stats.memory.kv += model.memory.kv;
    stats.memory.scratch += model.memory.scratch;
  }
  stats.running = status.usage.running;
  stats.pages_used = status.usage.pages_used;
  stats.steps = status.usage.steps;
  stats.tokens = status.usage.tokens;
  stats.prefill_tokens = status.usage.prefill_tokens;
  stats.preemptions = status.usage.preemptions;
  stats.draft_tokens = status.usage.drafts;
  stats.accepted_draft_tokens = status.usage.drafts_accepted;
  stats.allocations = status.usage.allocations;
  stats.step_ms = status.step_ms;
  send(stats);
}

/// Ends the process when a step is stuck: nothing else takes work away from a stuck thread. The
/// journal says what was in the step; the death is counted against that (blame).
void Link::watch_step(std::int64_t now_us) {
  const std::int64_t late_us = now_us - watched_us_ - kTickMs * 1000;
  watched_us_ = now_us;
  const std::uint64_t progress = progress_count();
  if (compute_->status().step_since_us == 0 || progress != last_progress_) {
    last_progress_ = progress;
    progress_us_ = now_us;
    return;
  }
  // If this thread was late (process stopped, machine starved), so was the compute thread.
  if (late_us > kLateUs) progress_us_ += late_us;
  if (now_us - progress_us_ < options_.step_watchdog_ms * 1000) return;
  log::error("step watchdog: no operation of the running step has ended; ending the process",
             {{"ms", (now_us - progress_us_) / 1000},
              {"choices", static_cast<std::uint64_t>(table_.size())}});
  _exit(kExitStuck);
}

bool Link::is_over(std::int64_t now_us) {
  if (stop_.load()) {
    // Without a daemon no one takes the work back; it is done again from the database.
    if (table_.empty() || phase_ == Phase::kAlone) return true;
    return returned_us_ != 0 && now_us - returned_us_ > kFarewellUs;
  }
  if (phase_ != Phase::kAlone || !was_welcome_ || table_.is_generating()) return false;
  if (now_us - alone_since_us_ < options_.orphan_ms * 1000) return false;
  log::warn("no daemon and nothing to do: ending", {{"limit_ms", options_.orphan_ms}});
  return true;
}

}  // namespace holdfast::worker
