#include "control/endpoints/worker_watch.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace holdfast::daemon {
namespace {

constexpr std::int64_t kBusyLookUs = 20'000;
constexpr std::int64_t kIdleLookUs = 100'000;
constexpr std::int64_t kPingAgainUs = 1'000'000;
// A look that is late by up to this counts as punctual; more is the daemon's own fault.
constexpr std::int64_t kPunctualUs = 5'000;

}  // namespace

void WorkerWatch::greeted(core::PeerId peer, const wire::Hello& hello, std::int64_t now_us) {
  Watched& watched = watched_[peer];
  received(peer, now_us);
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

/// Adds to the silence `counted_us`, the part of the time since the last look in which the worker
/// could have been heard.
void WorkerWatch::count(Watched& watched, std::int64_t counted_us, std::int64_t now_us) {
  const bool stopped = watched.process && watched.process->state() == ProcessView::State::kStopped;
  if (!stopped) {
    watched.stopped_since_us = 0;
  } else if (watched.stopped_since_us == 0) {
    watched.stopped_since_us = now_us;
  }
  if (watched.pinged_us == 0) return;
  watched.silent_us += counted_us;
  if (stopped) return;  // a stop has a bound of its own
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
  } else if (watched.process) {
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
    if (watched.pinged_us == 0 && watched.process) watched.process->begin_count(span.now_us);
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
