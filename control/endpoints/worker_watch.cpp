#include "control/endpoints/worker_watch.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "control/core/nodes.h"

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kBusyLookUs = 20'000;
constexpr std::int64_t kIdleLookUs = 100'000;
constexpr std::int64_t kPingAgainUs = 1'000'000;
// A look that is late by up to this counts as punctual; more is the daemon's own fault.
constexpr std::int64_t kPunctualUs = 5'000;

}  // namespace

void WorkerWatch::greeted(core::PeerId peer, const wire::Hello& hello, bool is_local,
                          std::int64_t now_us) {
  Watched& watched = watched_[peer];
  received(peer, now_us);
  if (!is_local) {
    const auto pid = static_cast<std::uint32_t>(hello.pid);
    const std::string node(core::node_of(hello.worker_key));
    if (watched.remote && watched.remote->node == node && watched.remote->pid == pid) return;
    watched.remote = Remote{};
    watched.remote->node = node;
    watched.remote->pid = pid;
    return;
  }
  if (watched.process.has_value() || watched.ended || hello.started_ticks == 0) return;
  watched.process = ProcessView::open(static_cast<pid_t>(hello.pid), hello.started_ticks);
}

void WorkerWatch::received(core::PeerId peer, std::int64_t now_us) {
  const auto it = watched_.find(peer);
  if (it == watched_.end()) return;
  Watched& watched = it->second;
  watched.last_received_us = now_us;
  watched.pinged_us = watched.silent_us = watched.unexcused_us = 0;
}

/// Returns true if the process was stopped or goes on.
bool WorkerWatch::tell_one(Remote& remote, const wire::WorkerFact& fact, std::int64_t now_us) {
  // A count that begins anew excuses nothing at first.
  if (!remote.told || fact.held_up_us < remote.excused_us) remote.excused_us = fact.held_up_us;
  remote.told = true;
  remote.held_up_us = fact.held_up_us;
  const bool stopped = fact.state == wire::WorkerFact::State::kStopped;
  if (stopped == remote.stopped) return false;
  remote.stopped = stopped;
  remote.stopped_at_us = now_us - std::int64_t{fact.stopped_ms} * 1000;
  return true;
}

void WorkerWatch::tell(const std::string& node, const std::vector<wire::WorkerFact>& workers,
                       std::int64_t now_us) {
  for (auto& [peer, watched] : watched_) {
    if (!watched.remote || watched.remote->node != node) continue;
    const auto fact = std::find_if(workers.begin(), workers.end(), [&](const auto& worker) {
      return worker.pid == watched.remote->pid;
    });
    if (fact == workers.end()) continue;
    if (tell_one(*watched.remote, *fact, now_us)) next_us_ = std::min(next_us_, now_us);
  }
}

void WorkerWatch::forget_told(const std::string& node) {
  for (auto& [peer, watched] : watched_) {
    if (watched.remote && watched.remote->node == node) {
      watched.remote->told = watched.remote->stopped = false;
    }
  }
}

std::vector<int> WorkerWatch::exit_fds() const {
  std::vector<int> fds;
  for (const auto& [peer, watched] : watched_) {
    if (watched.process && !watched.ended && watched.process->exit_fd() >= 0) {
      fds.push_back(watched.process->exit_fd());
    }
  }
  return fds;
}

std::optional<std::int64_t> WorkerWatch::next_look_us() const {
  if (watched_.empty()) return std::nullopt;
  return next_us_;
}

bool WorkerWatch::has_ended(Watched& watched) {
  if (!watched.process || watched.ended) return false;
  pollfd end{watched.process->exit_fd(), POLLIN, 0};
  const bool over =
      end.fd >= 0 ? poll(&end, 1, 0) > 0 : watched.process->state() == ProcessView::State::kEnded;
  watched.ended = over;
  return over;
}

bool WorkerWatch::is_stopped(const Watched& watched) {
  if (watched.remote) return watched.remote->stopped;
  return watched.process && watched.process->state() == ProcessView::State::kStopped;
}

/// Begins to count delays of a process: those of before excuse nothing.
void WorkerWatch::begin_count(Watched& watched, std::int64_t now_us) {
  if (watched.process) watched.process->begin_count(now_us);
  if (watched.remote) watched.remote->excused_us = watched.remote->held_up_us;
}

/// Adds to the silence `counted_us`, the part of the time since the last look in which the worker
/// could have been heard.
void WorkerWatch::count(Watched& watched, std::int64_t counted_us, std::int64_t now_us) {
  const bool stopped = is_stopped(watched);
  if (!stopped) {
    watched.stopped_since_us = 0;
  } else if (watched.stopped_since_us == 0) {
    watched.stopped_since_us = watched.remote ? watched.remote->stopped_at_us : now_us;
  }
  if (watched.pinged_us == 0) return;
  watched.silent_us += counted_us;
  if (stopped) return;  // a stop has a bound of its own
  if (watched.remote) {
    // Told late by up to a datagram: what exceeds this step excuses the one before.
    const std::uint64_t held_up_us = watched.remote->held_up_us - watched.remote->excused_us;
    watched.remote->excused_us = watched.remote->held_up_us;
    const std::int64_t own_us = counted_us - static_cast<std::int64_t>(held_up_us);
    watched.unexcused_us = std::max<std::int64_t>(watched.unexcused_us + own_us, 0);
    return;
  }
  const std::int64_t held_up_us = watched.process ? watched.process->held_up_us(now_us) : 0;
  watched.unexcused_us += std::max<std::int64_t>(counted_us - held_up_us, 0);
}

core::WorkerHealth WorkerWatch::health_of(core::PeerId peer, const Watched& watched,
                                          std::int64_t now_us) {
  using Process = core::WorkerHealth::Process;
  core::WorkerHealth health;
  health.peer = peer;
  health.silent_us = watched.silent_us;
  health.unexcused_us = watched.unexcused_us;
  if (watched.ended) {
    health.process = Process::kEnded;
  } else if (watched.stopped_since_us != 0) {
    health.process = Process::kStopped;
    health.stopped_us = now_us - watched.stopped_since_us;
  } else if (watched.process || (watched.remote && watched.remote->told)) {
    health.process = Process::kAlive;
  }
  return health;
}

/// Counts the silence of a worker; notes a ping if it is quiet, and its health if that is not well.
void WorkerWatch::look_at(core::PeerId peer, Watched& watched, const Span& span, Look& look) {
  if (watched.ended) return;
  count(watched, span.counted_us, span.now_us);
  const bool quiet = span.now_us - watched.last_received_us >= span.heartbeat_us;
  if (quiet && span.now_us - watched.pinged_us >= kPingAgainUs) {
    if (watched.pinged_us == 0) begin_count(watched, span.now_us);
    watched.pinged_us = span.now_us;
    look.to_ping.push_back(peer);
  }
  const bool well = watched.silent_us == 0 && watched.stopped_since_us == 0;
  if (!well || watched.told) look.health.push_back(health_of(peer, watched, span.now_us));
  watched.told = !well;
}

WorkerWatch::Look WorkerWatch::look(const core::Config& config, bool busy, std::int64_t now_us) {
  Look look;
  const std::int64_t period_us = busy ? kBusyLookUs : kIdleLookUs;
  next_us_ = std::min(next_us_, looked_us_ + period_us);
  const bool due = now_us >= next_us_;
  if (!due && !exit_noted_) return look;
  exit_noted_ = false;
  for (auto& [peer, watched] : watched_) {
    if (has_ended(watched)) look.health.push_back(health_of(peer, watched, now_us));
  }
  if (!due) return look;
  // Silence counts only while the daemon could hear: a late look adds no more than a punctual one.
  const std::int64_t planned_us = next_us_ - looked_us_ + kPunctualUs;
  const std::int64_t counted_us = std::min(now_us - looked_us_, planned_us);
  looked_us_ = now_us;
  next_us_ = now_us + period_us;
  if (config.link_worker_heartbeat_ms == 0) return look;
  const Span span{counted_us, now_us, config.link_worker_heartbeat_ms * 1000};
  for (auto& [peer, watched] : watched_) look_at(peer, watched, span, look);
  return look;
}

}  // namespace holdfast::daemon
