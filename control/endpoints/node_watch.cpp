#include "control/endpoints/node_watch.h"

#include <algorithm>
#include <utility>

namespace holdfast::daemon {
namespace {

// The loop turns each 5 ms; a turn that is late by up to as much counts as punctual.
constexpr std::int64_t kStepMaxUs = 10'000;
// A node that owes three datagrams is told of at once, long before it is suspected.
constexpr std::int64_t kUnwellUs = 30'000;
constexpr std::int64_t kTellUs = 1'000'000;
constexpr std::int64_t kSilenceWindowUs = 30'000'000;
constexpr std::int64_t kDelayWindowUs = 5'000'000;
// More than a node has (holdfast node --workers): a node cannot fill the daemon's memory.
constexpr std::size_t kWorkersMax = 2'048;

}  // namespace

void NodeWatch::Peak::add(std::int64_t value, std::int64_t window_number) {
  if (window_number != window) {
    before = window_number == window + 1 ? now : 0;
    now = 0;
    window = window_number;
  }
  now = std::max(now, value);
}

wire::LivenessSession NodeWatch::session(const std::string& node, const std::string& incarnation) {
  for (const auto& [id, session] : sessions_) {
    if (session.node == node && session.incarnation == incarnation) return session.secret;
  }
  close(node);
  Session fresh;
  fresh.node = node;
  fresh.incarnation = incarnation;
  fresh.secret = wire::new_liveness_session();
  const wire::LivenessSession secret = fresh.secret;
  sessions_.insert_or_assign(secret.id, std::move(fresh));
  return secret;
}

void NodeWatch::close(const std::string& node) {
  std::erase_if(sessions_, [&](const auto& item) { return item.second.node == node; });
}

std::vector<std::string> NodeWatch::nodes() const {
  std::vector<std::string> names;
  for (const auto& [id, session] : sessions_) names.push_back(session.node);
  return names;
}

void NodeWatch::advance(std::int64_t now_us) {
  if (advanced_us_ != 0) {
    running_us_ += std::clamp<std::int64_t>(now_us - advanced_us_, 0, kStepMaxUs);
  }
  advanced_us_ = now_us;
}

bool NodeWatch::received(std::string_view datagram, const wire::UdpAddress& from) {
  const auto id = wire::session_of_node_datagram(datagram);
  const auto session = id ? sessions_.find(*id) : sessions_.end();
  if (session == sessions_.end()) return ++refused_, false;
  const auto opened = wire::open_node_datagram(datagram, session->second.secret.key);
  if (!opened) return ++refused_, false;
  return take_in(session->second, *opened, from);
}

bool NodeWatch::take_in(Session& session, const wire::NodeDatagram& datagram,
                        const wire::UdpAddress& from) {
  if (datagram.counter <= session.received) return ++stale_, false;
  const bool first = session.received == 0;
  if (!first) session.silence.add(silent_us(session), running_us_ / kSilenceWindowUs);
  session.received = datagram.counter;
  ++session.arrived;
  session.received_us = running_us_;
  session.address = from;
  session.delay.add(datagram.run_delay_us, running_us_ / kDelayWindowUs);
  if (datagram.last_received > session.echoed && datagram.last_received <= session.sent) {
    session.echoed = datagram.last_received;
    session.echoed_us = running_us_;
  }
  const bool changed = take_workers(session, datagram.workers);
  session.news = session.news || first || changed;
  return true;
}

/// Returns true if a process was stopped or goes on.
bool NodeWatch::take_workers(Session& session, const std::vector<wire::WorkerFact>& workers) {
  bool changed = false;
  if (session.workers.size() + workers.size() > kWorkersMax) session.workers.clear();
  for (const wire::WorkerFact& worker : workers) {
    const auto before = session.workers.find(worker.pid);
    const bool alive = worker.state == wire::WorkerFact::State::kAlive;
    changed = changed ||
              (before == session.workers.end() ? !alive : before->second.state != worker.state);
    if (worker.state == wire::WorkerFact::State::kEnded) {
      session.workers.erase(worker.pid);
    } else {
      session.workers.insert_or_assign(worker.pid, worker);
    }
  }
  return changed;
}

std::int64_t NodeWatch::silent_us(const Session& session) const {
  return running_us_ - session.received_us;
}

/// Returns the time up to the node's last datagram in which it received none of ours; 0 if it never
/// received one: then the way back is closed for another reason than a fault.
std::int64_t NodeWatch::deaf_us(const Session& session) {
  return session.echoed == 0 ? 0 : session.received_us - session.echoed_us;
}

std::int64_t NodeWatch::quiet_us(const Session& session) const {
  return std::max(silent_us(session), deaf_us(session));
}

/// True for a node that is not well, or is again. After a while once a second is enough.
bool NodeWatch::is_to_tell(const Session& session) const {
  if (session.received == 0) return false;
  const std::int64_t quiet = quiet_us(session);
  const bool unwell = quiet >= kUnwellUs;
  return session.news || session.told_unwell != unwell || (unwell && quiet < kTellUs);
}

std::vector<NodeWatch::Outgoing> NodeWatch::due() {
  std::vector<Outgoing> out;
  for (auto& [id, session] : sessions_) {
    const bool early = running_us_ - session.sent_us < wire::kLivenessEveryUs;
    if (session.received == 0 || (session.sent != 0 && early)) continue;
    // On the beat, as long as that is punctual.
    const std::int64_t next_us = session.sent_us + wire::kLivenessEveryUs;
    session.sent_us = running_us_ - next_us < wire::kLivenessEveryUs ? next_us : running_us_;
    out.push_back({session.address,
                   wire::seal(wire::DaemonDatagram{id, ++session.sent}, session.secret.key)});
  }
  return out;
}

bool NodeWatch::is_urgent() const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [this](const auto& item) { return is_to_tell(item.second); });
}

core::NodeHealth NodeWatch::health_of(const Session& session) const {
  core::NodeHealth health;
  health.name = session.node;
  health.silent_us = silent_us(session);
  health.deaf_us = deaf_us(session);
  health.delay_us = session.delay.value();
  health.longest_us = std::max(session.silence.value(), health.silent_us);
  health.missed = session.received - session.arrived;
  return health;
}

NodeWatch::Told NodeWatch::take() {
  Told told;
  for (auto& [id, session] : sessions_) {
    if (session.received == 0) continue;
    const bool due = running_us_ - session.told_us >= kTellUs;
    if (is_to_tell(session) || due) {
      told.health.push_back(health_of(session));
      session.told_us = running_us_;
    }
    session.told_unwell = quiet_us(session) >= kUnwellUs;
    session.news = false;
    NodeWorkers workers{session.node, {}};
    for (const auto& [pid, worker] : session.workers) workers.workers.push_back(worker);
    told.workers.push_back(std::move(workers));
  }
  return told;
}

}  // namespace holdfast::daemon
