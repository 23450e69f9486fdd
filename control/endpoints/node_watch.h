#pragma once
// Sessions of liveness with nodes (shared/wire/liveness.h): believes or drops their datagrams,
// counts silences, says what is due to be sent. Reads no clock and has no socket: node_listener.h
// does. Gives facts only; the machine judges them (control/core/nodes_liveness.cpp).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/core/events.h"
#include "shared/wire/liveness.h"
#include "shared/wire/udp.h"

namespace holdfast::daemon {

/// The processes of a node's workers, as its last datagrams told.
struct NodeWorkers {
  std::string node;
  std::vector<wire::WorkerFact> workers;
};

/// All sessions. Not thread-safe.
class NodeWatch {
 public:
  /// Returns the session of a node's process; a new one if it has none yet, in place of that of an
  /// earlier process.
  wire::LivenessSession session(const std::string& node, const std::string& incarnation);
  /// Ends the session of a node: nothing is believed of it any more.
  void close(const std::string& node);
  std::vector<std::string> nodes() const;

  /// Counts the time up to now. A step longer than the daemon had planned counts as planned: for
  /// the rest it could not hear. Call it before received() and due().
  void advance(std::int64_t now_us);
  /// Takes the time up to now off: datagrams that have arrived are unread still.
  void skip(std::int64_t now_us) { advanced_us_ = now_us; }
  /// Takes in a datagram. False: it is not believed, as it has another form, session or tag, or as
  /// it is not newer than the last one (a copy, or overtaken).
  bool received(std::string_view datagram, const wire::UdpAddress& from);

  struct Outgoing {
    wire::UdpAddress to;
    std::string datagram;
  };
  /// Returns the datagrams to send now, one to each node that has been heard of.
  std::vector<Outgoing> due();

  /// True if take() has something that must not wait for the next second.
  bool is_urgent() const;
  struct Told {
    std::vector<core::NodeHealth>
        health;                        // of nodes that are not well, or are again; all: a second
    std::vector<NodeWorkers> workers;  // of all nodes
  };
  Told take();
  /// Datagrams that were not believed for their form, session or tag.
  std::uint64_t refused() const { return refused_; }
  /// Datagrams that were not newer than another one.
  std::uint64_t stale() const { return stale_; }

 private:
  /// A largest value of the last one to two windows of time.
  struct Peak {
    std::int64_t now = 0, before = 0;
    std::int64_t window = 0;
    void add(std::int64_t value, std::int64_t window_number);
    std::int64_t value() const { return now > before ? now : before; }
  };
  struct Session {
    std::string node, incarnation;
    wire::LivenessSession secret;
    wire::UdpAddress address;      // of the last datagram that was believed
    std::uint64_t received = 0;    // highest counter; 0: none came
    std::uint64_t arrived = 0;     // datagrams
    std::uint64_t sent = 0;        // highest counter of ours
    std::uint64_t echoed = 0;      // highest of these that the node has received
    std::int64_t received_us = 0;  // all in running time, see running_us_
    std::int64_t echoed_us = 0;    // when `echoed` went up
    std::int64_t sent_us = 0;
    std::int64_t told_us = 0;
    bool told_unwell = false;
    bool news = false;  // a first datagram, or a worker's process changed its state
    Peak silence, delay;
    std::map<std::uint32_t, wire::WorkerFact> workers;  // by pid
  };
  bool take_in(Session& session, const wire::NodeDatagram& datagram, const wire::UdpAddress& from);
  static bool take_workers(Session& session, const std::vector<wire::WorkerFact>& workers);
  std::int64_t silent_us(const Session& session) const;
  static std::int64_t deaf_us(const Session& session);
  std::int64_t quiet_us(const Session& session) const;
  bool is_to_tell(const Session& session) const;
  core::NodeHealth health_of(const Session& session) const;

  std::map<std::uint64_t, Session> sessions_;  // by id
  // The daemon's own running time: monotonic, without the time for which it stood still.
  std::int64_t running_us_ = 0;
  std::int64_t advanced_us_ = 0;  // on the clock; 0: not yet
  std::uint64_t refused_ = 0;
  std::uint64_t stale_ = 0;
};

}  // namespace holdfast::daemon
