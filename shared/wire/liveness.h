#pragma once
// Datagrams by which a node and its daemon tell each other that they live, each 10 ms in both
// directions. TCP cannot: Linux repeats a lone lost packet after 200 ms only. A datagram is
// believed if it ends with the keyed BLAKE2b of all before; the key is of one session, and comes to
// the node over its encrypted connection. schema/protocol.md, "Datagrams of liveness".

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::wire {

inline constexpr std::size_t kLivenessKeyBytes = 32;
inline constexpr std::int64_t kLivenessEveryUs = 10'000;
/// Bytes of a datagram at most: no network has to divide it.
inline constexpr std::size_t kDatagramBytesMax = 1'200;
/// Workers of a datagram at most; of a node with more, each is in every second one, third one, ….
inline constexpr std::size_t kDatagramWorkersMax = 48;

using LivenessKey = std::array<std::uint8_t, kLivenessKeyBytes>;

/// A session of a node: drawn by the daemon when the node joins.
struct LivenessSession {
  std::uint64_t id = 0;
  LivenessKey key{};
};
/// Draws a session from the system's random numbers; its id is not 0.
LivenessSession new_liveness_session();
/// Returns the key as text (Z85), and reads it; nullopt if the text is none.
std::string liveness_key_text(const LivenessKey& key);
std::optional<LivenessKey> parse_liveness_key(const std::string& text);

/// A worker's process as its node sees it.
struct WorkerFact {
  enum class State : std::uint8_t { kAlive, kStopped, kEnded };
  std::uint32_t pid = 0;  // as in its HELLO
  State state = State::kAlive;
  std::uint32_t stopped_ms = 0;  // since when it is stopped
  /// Time for which its threads have waited for a processor, a disk or memory, since the node first
  /// saw it.
  std::uint64_t held_up_us = 0;
  bool operator==(const WorkerFact&) const = default;
};

/// A datagram of a node.
struct NodeDatagram {
  std::uint64_t session = 0;
  std::uint64_t counter = 0;        // of the node's datagrams, from 1 on
  std::uint64_t last_received = 0;  // the highest counter of the daemon's; 0: none came
  std::uint32_t run_delay_us = 0;   // the sender's wait for a processor since the one before
  std::vector<WorkerFact> workers;
  bool operator==(const NodeDatagram&) const = default;
};
/// A datagram of the daemon.
struct DaemonDatagram {
  std::uint64_t session = 0;
  std::uint64_t counter = 0;  // from 1 on
  bool operator==(const DaemonDatagram&) const = default;
};

/// Writes a datagram with its tag. At most kDatagramWorkersMax workers (CHECKed).
std::string seal(const NodeDatagram& datagram, const LivenessKey& key);
std::string seal(const DaemonDatagram& datagram, const LivenessKey& key);

/// Returns the session that a node's datagram names, before anything of it is believed; nullopt if
/// it has not the form of one.
std::optional<std::uint64_t> session_of_node_datagram(std::string_view bytes);
/// Reads a datagram; nullopt if it has another form, another key's tag or another direction.
std::optional<NodeDatagram> open_node_datagram(std::string_view bytes, const LivenessKey& key);
std::optional<DaemonDatagram> open_daemon_datagram(std::string_view bytes, const LivenessKey& key);

}  // namespace holdfast::wire
