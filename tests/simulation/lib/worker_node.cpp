#include "tests/simulation/lib/worker_node.h"

#include <algorithm>

#include "control/core/config.h"
#include "shared/base/step_journal.h"
#include "shared/wire/frame.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kHeartbeatUs = 60 * kMs;  // silence after which a cut connection is closed
constexpr std::int64_t kLookMs = 20;             // between two looks of the daemon at its process

/// The index at which this prompt kills; -1 = never.
std::int64_t poison_of(const std::vector<wire::TokenId>& prompt) {
  const std::int64_t at = prompt.front() - kPoison;
  return at >= 0 && at < kPoisonKinds ? at : -1;
}

}  // namespace

WorkerNode::WorkerNode(World& world, Network& network, ControlPlane& daemon, Auditor& auditor,
                       int index, SupervisorNode* node)
    : world_(world),
      network_(network),
      daemon_(daemon),
      auditor_(auditor),
      index_(index),
      node_(node),
      numerics_class_(world.swarm.two_classes && index == world.swarm.workers - 1 ? "c2" : "c1"),
      table_(static_cast<std::size_t>(world.swarm.ring_tokens)) {}

// ---- the process

std::string WorkerNode::first_key() const {
  return (node_ != nullptr ? node_->name() + "/w" : "w") + std::to_string(index_);
}

void WorkerNode::start() {
  if (alive_ || (node_ != nullptr && !node_->runs())) return;
  alive_ = true;
  ++life_;
  ++incarnation_;
  if (incarnation_ > 1 && world_.accident(world_.swarm.new_worker)) {
    world_.hit(Fault::kWorkerReplaced);
    key_ = first_key() + "." + std::to_string(incarnation_);
  }
  pid_ = index_ * 100'000 + incarnation_ + 1;
  table_ = worker::WorkTable(static_cast<std::size_t>(world_.swarm.ring_tokens));
  loads_.clear();
  states_unsent_.clear();
  sequences_.clear();
  sent_.clear();
  old_fences_.clear();
  fences_.clear();
  said_.clear();
  backlog_.clear();
  paused_until_us_ = 0;
  connection_ = 0;
  killer_.reset();
  phase_ = Phase::kAlone;
  last_epoch_ = 0;
  network_.connect(this, Role::kWorker);
  step();
}

void WorkerNode::die(int signal, bool oom) {
  if (!alive_) return;
  world_.say([&] {
    return "worker " + std::to_string(index_) + " dies, signal " + std::to_string(signal);
  });
  alive_ = false;
  ++life_;
  give_memory_back({});
  const bool counts = oom || (signal != 0 && signal != 9 && signal != 15);
  const bool loading = std::any_of(loads_.begin(), loads_.end(),
                                   [](const auto& item) { return item.second.state != "ready"; });
  if (counts && loading) auditor_.loads_failed();
  const bool told = node_ == nullptr || node_->speaks();  // by its supervisor
  if (world_.random.below(2) == 0 &&
      told) {  // on the daemon's host: it sees the end of the process
    world_.after(world_.random.between(0, 5) * kMs, [this, peer = connection_] {
      daemon_.operate(core::WorkerHealth{peer, core::WorkerHealth::Process::kEnded, 0, 0, 0});
    });
  }
  network_.cut(connection_, world_.random.between(0, 80) * kMs, -1);
  connection_ = 0;
  core::WorkerExit exit;
  exit.pid = pid_;
  if (node_ != nullptr) exit.worker_key = key_;
  exit.signal = signal;
  exit.oom = oom;
  std::vector<Name> step;
  for (const auto& [key, sequence] : sequences_) {
    if (!sequence.paused) step.push_back(sequence.name);
  }
  const bool step_reported = !world_.accident(world_.swarm.step_unknown);
  if (step_reported) {
    exit.step.emplace();
    for (const Name& name : step) exit.step->push_back(step_mark(name.first, name.second));
  } else {
    world_.hit(Fault::kStepUnknown);
  }
  if (counts) auditor_.worker_crashed(step_reported ? &step : nullptr);
  if (world_.accident(world_.swarm.exit_lost) || !told) {
    world_.hit(Fault::kExitReportLost);
  } else {
    const std::int64_t late_ms = world_.random.between(0, world_.swarm.exit_report_ms);
    if (late_ms > 50) world_.hit(Fault::kExitReportLate);
    world_.after(late_ms * kMs, [this, exit, killer = std::exchange(killer_, {})] {
      if (daemon_.operate(exit) && killer) auditor_.killer_reported(killer->first, killer->second);
    });
  }
  const std::uint64_t life = life_;
  world_.after(world_.random.between(50, 500) * kMs, [this, life] {
    if (life == life_) start();
  });
}

void WorkerNode::lose_machine(std::int64_t noticed_us) {
  if (!alive_) return;
  alive_ = false;
  ++life_;
  give_memory_back({});
  network_.cut(std::exchange(connection_, 0), noticed_us, -1);
}

/// Tells what the daemon sees of this process, unless it is another one by then.
void WorkerNode::tell_health(core::WorkerHealth health, std::int64_t after_us) {
  health.peer = connection_;
  const std::uint64_t life = life_;
  world_.after(after_us + world_.random.between(0, kLookMs) * kMs, [this, health, life] {
    if (life != life_ || health.peer != connection_) return;
    const bool well = health.process == core::WorkerHealth::Process::kAlive && !health.silent_us;
    const bool told = node_ == nullptr || node_->speaks();
    if (told && well == (paused_until_us_ <= world_.now_us)) daemon_.operate(health);
  });
}

void WorkerNode::go_quiet(Quiet why, std::int64_t us) {
  using Process = core::WorkerHealth::Process;
  if (!alive_ || paused_until_us_ > world_.now_us) return;
  paused_until_us_ = world_.now_us + us;
  world_.say([&] {
    return "worker " + std::to_string(index_) + " is quiet for " + std::to_string(us / kMs) +
           " ms, kind " + std::to_string(static_cast<int>(why));
  });
  const core::Config config;
  if (why == Quiet::kStopped) {
    tell_health({0, Process::kStopped, 0, 0, 0}, 0);
    const std::int64_t bound_us = config.link_worker_stopped_ms * 1000;
    if (us > bound_us) tell_health({0, Process::kStopped, 0, 0, bound_us}, bound_us);
  } else {
    const std::int64_t silent_us = config.link_worker_timeout_ms * 1000;
    const std::int64_t lost_us = config.link_worker_lost_ms * 1000;
    const bool hung = why == Quiet::kHung;
    if (us > silent_us) tell_health({0, Process::kAlive, silent_us, 0, 0}, silent_us);
    if (us > lost_us) tell_health({0, Process::kAlive, us, hung ? lost_us : 0, 0}, lost_us);
  }
  const std::uint64_t life = life_;
  world_.after(us, [this, life] {
    if (life == life_) wake_up();
  });
}

void WorkerNode::wake_up() {
  tell_health({0, core::WorkerHealth::Process::kAlive, 0, 0, 0}, 0);
  for (auto& [connection, message] : std::exchange(backlog_, {})) {
    if (alive_ && connection == connection_) handle(message);
  }
}

void WorkerNode::drain() {
  if (!alive_ || phase_ != Phase::kWelcome) return;
  send(wire::Drain{});
  const std::uint64_t life = life_;
  world_.after(world_.random.between(1, 300) * kMs, [this, life] {
    if (life != life_) return;
    table_.return_unfinished("", "the worker ends");
    flush();
    world_.after(world_.random.between(1, 50) * kMs, [this, life] {
      if (life == life_) die(0, false);
    });
  });
}

void WorkerNode::isolate(std::int64_t us) {
  network_.isolate(this, world_.now_us + us);
  network_.cut(connection_, kHeartbeatUs, kHeartbeatUs);
  cut_off_since_us_ = world_.now_us;
}

// ---- the conversation (worker/link/link.cpp)

void WorkerNode::on_connected(PeerId connection) {
  if (!alive_ || paused_until_us_ > world_.now_us) {
    network_.cut(connection, 0, -1);
    const std::int64_t wait_us = std::max<std::int64_t>(paused_until_us_ - world_.now_us, 10 * kMs);
    world_.after(wait_us, [this] { network_.connect(this, Role::kWorker); });
    return;
  }
  if (connection_ != 0) {
    // The old one's loss is on its way; here it ends at once.
    network_.cut(connection_, world_.random.between(0, 100) * kMs, -1);
  }
  if (cut_off_since_us_ >= 0 && world_.now_us - cut_off_since_us_ > kSecond) {
    world_.hit(Fault::kWorkerLate);
  }
  cut_off_since_us_ = -1;
  connection_ = connection;
  table_.connection_lost();
  phase_ = Phase::kGreeting;
  greet();
}

void WorkerNode::on_lost(PeerId connection) {
  if (connection != connection_ || !alive_) return;
  connection_ = 0;
  phase_ = Phase::kAlone;
  table_.connection_lost();
  network_.connect(this, Role::kWorker);
}

void WorkerNode::greet() {
  wire::Hello hello;
  hello.worker_key = key_;
  hello.incarnation = hello.worker_key + "-" + std::to_string(incarnation_);
  hello.pid = pid_;
  hello.host = host();
  hello.device = "cpu";
  hello.memory.total = memory_total();
  for (const auto& [id, model] : loads_) hello.models.push_back(model);
  hello.active = table_.active();
  hello.last_epoch = last_epoch_;
  states_unsent_.clear();  // it tells them all
  send(std::move(hello));
}

void WorkerNode::on_message(PeerId connection, wire::Message& message) {
  if (!alive_ || connection != connection_) return;
  if (paused_until_us_ > world_.now_us) {
    backlog_.emplace_back(connection, std::move(message));
  } else {
    handle(message);
  }
}

void WorkerNode::handle(wire::Message& message) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    if (welcome->epoch < last_epoch_) return;
    last_epoch_ = welcome->epoch;
    if (welcome->greet_again) {
      world_.hit(Fault::kGreetedAgain);
      table_.connection_lost();
      phase_ = Phase::kGreeting;
      return greet();
    }
    phase_ = Phase::kWelcome;
    for (const auto& [id, model] : std::exchange(states_unsent_, {})) {
      send(wire::StateReport{model});
    }
  } else if (phase_ != Phase::kWelcome) {
    return;
  } else if (const auto* ack = std::get_if<wire::Ack>(&message)) {
    on_ack(*ack);
  } else if (const auto* dispatch = std::get_if<wire::Dispatch>(&message)) {
    if (dispatch->fence.epoch >= last_epoch_) on_dispatch(*dispatch);
  } else if (const auto* adopt = std::get_if<wire::Adopt>(&message)) {
    if (adopt->fence.epoch < last_epoch_) return;
    remember_fence(adopt->request_id, adopt->choice, adopt->fence);
    table_.adopt(*adopt);
  } else if (const auto* drop = std::get_if<wire::Drop>(&message)) {
    table_.drop(*drop);
  } else if (const auto* cancel = std::get_if<wire::CancelWork>(&message)) {
    if (cancel->fence.epoch >= last_epoch_) table_.cancel(*cancel);
  } else if (const auto* load = std::get_if<wire::Load>(&message)) {
    on_load(*load);
  } else if (const auto* unload = std::get_if<wire::Unload>(&message)) {
    on_unload(*unload);
  }
  flush();
}

void WorkerNode::on_ack(const wire::Ack& ack) {
  for (const wire::AckItem& item : ack.items) {
    const Name name{item.request_id, item.choice};
    const auto sent = sent_.find(name);
    if (!item.finished && (sent == sent_.end() || item.upto > sent->second)) {
      world_.fail("I5 ACK of " + item.request_id + " up to " + std::to_string(item.upto) +
                  ", which its worker never sent");
    }
    table_.ack(item);
  }
}

/// The host, which two workers share.
std::string WorkerNode::host() const {
  return node_ != nullptr ? "host of " + node_->name() : "h" + std::to_string(index_ / 2);
}

std::int64_t WorkerNode::memory_total() const {
  return world_.swarm.small_memory ? 4000 : 40'000;
}

/// Counts what was reserved for this load as ours until it ends, or we do.
void WorkerNode::hold_memory(const wire::Load& load) {
  auto& held = world_.memory_held[host()];
  held[std::to_string(pid_) + "/" + load.load_id] = load.bytes;
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : held) sum += bytes;
  const std::int64_t most = memory_total() / 100 * core::Config().models_memory_percent;
  if (sum <= most) return;
  world_.fail("I16 " + std::to_string(sum) + " bytes are reserved on " + host() + ", at most " +
              std::to_string(most) + " may be");
}

void WorkerNode::give_memory_back(const std::string& load_id) {
  auto& held = world_.memory_held[host()];
  std::erase_if(held, [&](const auto& item) {
    return load_id.empty() ? item.first.starts_with(std::to_string(pid_) + "/")
                           : item.first == std::to_string(pid_) + "/" + load_id;
  });
}

void WorkerNode::on_load(const wire::Load& load) {
  if (loads_.count(load.load_id) > 0) return;
  hold_memory(load);
  wire::LoadedModel& model = loads_[load.load_id];
  model.load_id = load.load_id;
  model.model_sha = load.model_sha;
  model.slots = load.slots;
  model.pages_total = load.pages;
  model.context = load.context;
  model.numerics_class = numerics_class_;
  report(load.load_id, "loading", 0);
  if (world_.accident(world_.swarm.load_fails)) {
    world_.hit(Fault::kLoadFailed);
    auditor_.loads_failed();
    return report(load.load_id, "failed", world_.random.between(1, 200) * kMs);
  }
  const std::int64_t took_us = world_.random.between(1, 300) * kMs;
  if (world_.random.below(2) == 0) report(load.load_id, "warming", took_us / 2);
  report(load.load_id, "ready", took_us);
}

void WorkerNode::report(const std::string& load_id, const std::string& state,
                        std::int64_t after_us) {
  const std::uint64_t life = life_;
  world_.after(after_us, [this, life, load_id, state] {
    const auto it = loads_.find(load_id);
    if (life != life_ || it == loads_.end()) return;
    it->second.state = state;
    const wire::LoadedModel model = it->second;
    if (state == "failed") {
      loads_.erase(it);
      give_memory_back(load_id);
    }
    if (phase_ == Phase::kWelcome) {
      send(wire::StateReport{model});
    } else {
      states_unsent_[load_id] = model;
    }
  });
}

void WorkerNode::on_unload(const wire::Unload& unload) {
  table_.return_unfinished(unload.load_id, "the model is being unloaded");
  wire::LoadedModel gone;
  gone.load_id = unload.load_id;
  gone.state = "unloaded";
  loads_.erase(unload.load_id);
  give_memory_back(unload.load_id);
  flush();
  send(wire::StateReport{gone});
}

void WorkerNode::on_dispatch(const wire::Dispatch& d) {
  const auto load = loads_.find(d.load_id);
  if (load == loads_.end() || load->second.state != "ready") {
    return table_.refuse(d, "load " + d.load_id + " is not here");
  }
  if (world_.accident(world_.swarm.return_dispatch)) {
    world_.hit(Fault::kDispatchReturned);
    return table_.refuse(d, "no pages");
  }
  remember_fence(d.request_id, d.choice, d.fence);
  dispatched_ = {d.request_id, d.choice};
  table_.dispatch(d, world_.now_us);
  const Name name{d.request_id, d.choice};
  const auto committed = static_cast<std::int64_t>(d.committed_ids.size());
  sent_[name] = std::max(sent_[name], committed);
  said_[name] = d.committed_ids;
  obey_orders();
  std::int64_t running = 0;
  for (const auto& [key, sequence] : sequences_) {
    running += sequence.load_id == d.load_id && !sequence.ended;
  }
  if (running > load->second.slots) {
    world_.fail("I10 worker " + std::to_string(index_) + " has " + std::to_string(running) +
                " sequences in " + std::to_string(load->second.slots) + " slots");
  }
}

void WorkerNode::remember_fence(const std::string& id, std::int32_t choice, core::Fence fence) {
  const Name name{id, choice};
  if (const auto it = fences_.find(name); it != fences_.end()) old_fences_[name] = it->second;
  fences_[name] = fence;
}

// ---- the engine

void WorkerNode::obey_orders() {
  for (worker::Order& order : table_.take_orders()) {
    const auto it = sequences_.find(order.key);
    switch (order.kind) {
      case worker::Order::Kind::kAdd: {
        engine::SequenceSpec& spec = order.spec;
        const std::string& sha = loads_.at(order.load_id).model_sha;
        const std::string variant = numerics_class_ + (world_.swarm.aliases ? sha : "");
        Sequence sequence{dispatched_,
                          order.load_id,
                          sha,
                          Stream(spec.sampling.seed, spec.choice, spec.prompt, variant),
                          0,
                          spec.max_tokens,
                          poison_of(spec.prompt),
                          false,
                          false,
                          {}};
        if (spec.sampling.prompt_logprobs >= 0 && spec.committed.empty()) {
          sequence.scores = reference_scores(spec.prompt);
        }
        for (const core::TokenId id : spec.committed) sequence.stream.take(id);
        sequence.next = static_cast<std::int64_t>(spec.committed.size());
        sequences_.emplace(order.key, std::move(sequence));
        break;
      }
      case worker::Order::Kind::kCancel:
        sequences_.erase(order.key);
        break;
      case worker::Order::Kind::kPause:
      case worker::Order::Kind::kResume:
        if (it != sequences_.end()) it->second.paused = order.kind == worker::Order::Kind::kPause;
        if (order.kind == worker::Order::Kind::kPause) world_.hit(Fault::kRingFull);
        break;
    }
  }
}

/// Runs a step of the engine; false if the process has died of it.
bool WorkerNode::step_engine() {
  std::vector<engine::SequenceKey> ended;
  for (auto& [key, sequence] : sequences_) {
    if (sequence.paused) continue;
    if (sequence.poison_at == sequence.next && !world_.healed) {
      world_.hit(Fault::kWorkerCrashed);
      killer_ = sequence.name;
      die(11, false);
      return false;
    }
    engine::Produced produced;
    produced.key = key;
    produced.start = sequence.next;
    const bool below_limit = sequence.next < sequence.max_tokens;
    // Committed ids may hold the end already: the worker died between token and finish.
    const bool over = sequence.next > 0 && sequence.stream.ended();
    if (below_limit && !over) {
      produced.ids.push_back(sequence.stream.next());
      ++sequence.next;
      ++world_.counts.tokens;
    } else if (sequence.max_tokens == 0 && !sequence.scores.empty()) {
      produced.ids.push_back(wire::kScoresToken);
      ++sequence.next;
    }
    if (!sequence.scores.empty()) {
      world_.hit(Fault::kPromptScored);
      produced.extra = {std::exchange(sequence.scores, {})};
    }
    if (below_limit && !over && sequence.model_sha == kBadModel &&
        world_.accident(world_.swarm.bad_model)) {
      world_.hit(Fault::kModelBroken);
      produced.ids.clear();
      produced.extra.clear();
      produced.finish = wire::FinishReason::kError;
      produced.error = Error{Errc::kInternal, "the model is broken"};
    } else if (sequence.next > 0 && sequence.stream.ended()) {
      produced.finish = wire::FinishReason::kStop;
    } else if (sequence.next >= sequence.max_tokens) {
      produced.finish = wire::FinishReason::kLength;
    }
    if (produced.finish != wire::FinishReason::kNone) ended.push_back(key);
    table_.produced(produced);
  }
  for (const auto key : ended) sequences_.erase(key);
  return true;
}

void WorkerNode::step() {
  const std::uint64_t life = life_;
  std::int64_t next_us = world_.swarm.step_us;
  if (paused_until_us_ > world_.now_us) {
    next_us = paused_until_us_ - world_.now_us;
  } else {
    if (world_.accident(world_.swarm.slow_worker)) {
      world_.hit(Fault::kWorkerSlow);
      next_us *= 100;
    }
    obey_orders();
    if (!step_engine()) return;
    table_.expire(world_.now_us);
    flush();
    if (sequences_.empty()) next_us *= 2;
  }
  world_.after(next_us, [this, life] {
    if (life == life_ && alive_) step();
  });
}

void WorkerNode::flush() {
  obey_orders();
  if (phase_ != Phase::kWelcome) {
    (void)table_.take_returned();
    return;
  }
  send_tokens();
  for (wire::Returned& item : table_.take_returned()) send(std::move(item));
}

void WorkerNode::send_tokens() {
  wire::Tokens tokens = table_.unsent(1024);
  if (tokens.events.empty()) return;
  table_.mark_sent(tokens);
  for (wire::TokenEvent& event : tokens.events) {
    const Name name{event.request_id, event.choice};
    auto& said = said_[name];
    const std::int64_t end = event.start + static_cast<std::int64_t>(event.ids.size());
    said.resize(static_cast<std::size_t>(event.start));
    said.insert(said.end(), event.ids.begin(), event.ids.end());
    sent_[name] = std::max(sent_[name], end);
    bend(event);
  }
  send(std::move(tokens));
  send_stale();
}

/// Spoils a message as a broken worker may do.
void WorkerNode::bend(wire::TokenEvent& event) {
  const Swarm& s = world_.swarm;
  const auto& said = said_[{event.request_id, event.choice}];
  if (!event.ids.empty() && world_.accident(s.gap)) {
    world_.hit(Fault::kGap);
    event.ids.erase(event.ids.begin());
    if (!event.extra.empty()) event.extra.erase(event.extra.begin());
    ++event.start;
    return;
  }
  const bool lies = world_.accident(s.lie);
  if (event.start == 0 || (!lies && !world_.accident(s.repeat))) return;
  const std::int64_t back = world_.random.between(1, std::min<std::int64_t>(event.start, 4));
  event.ids.insert(event.ids.begin(), said.begin() + (event.start - back),
                   said.begin() + event.start);
  if (!event.extra.empty()) {
    event.extra.insert(event.extra.begin(), static_cast<std::size_t>(back), std::string());
  }
  event.start -= back;
  if (lies) {
    event.ids[0] = (event.ids[0] + 1) % 32'000;
    world_.hit(Fault::kWrongToken);
  } else {
    world_.hit(Fault::kRepeated);
  }
}

/// Sends wrong tokens under a fence that is not the current one any more.
void WorkerNode::send_stale() {
  if (old_fences_.empty() || !world_.accident(world_.swarm.stale)) return;
  const auto it = std::next(old_fences_.begin(),
                            static_cast<std::ptrdiff_t>(world_.random.below(old_fences_.size())));
  wire::TokenEvent event;
  event.request_id = it->first.first;
  event.choice = it->first.second;
  event.fence = it->second;
  event.start = sent_[it->first];
  event.ids = {static_cast<core::TokenId>(world_.random.below(32'000))};
  world_.hit(Fault::kStaleTokens);
  wire::Tokens tokens;
  tokens.events.push_back(std::move(event));
  send(std::move(tokens));
}

void WorkerNode::send(wire::Message message) {
  if (connection_ != 0) network_.send_to_daemon(connection_, std::move(message));
}

}  // namespace holdfast::simulation
