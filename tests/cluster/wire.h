#pragma once
// A wire between two network namespaces: what one end sends reaches the other after a delay, not
// faster than a rate, and not always. Line is one direction and Wire both with their commands,
// pure, with time as an argument; Relay moves the packets of two TUN devices through them.

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cluster {

/// The two ends of a wire. A direction is named after the end that sends.
enum class End : std::uint8_t { kA, kB };

/// The properties of one direction.
struct LineSettings {
  std::int64_t delay_us = 0;
  std::int64_t loss_permille = 0;     // of the packets, drawn from the seed
  std::int64_t rate_bytes_per_s = 0;  // 0 = as fast as the processor
};

/// The fates of a direction's packets. Each packet that was received is in exactly one of the
/// others.
struct LineCounters {
  std::int64_t received = 0;    // from the device of the sending end
  std::int64_t delivered = 0;   // to the device of the other end
  std::int64_t lost = 0;        // by the draw
  std::int64_t cut = 0;         // sent into a cut or block, or on their way when it began
  std::int64_t overflowed = 0;  // the queue was full
  std::int64_t refused = 0;     // by the device of the other end
  std::int64_t queued = 0;      // on their way now

  bool operator==(const LineCounters&) const = default;
};

/// The counters of both directions.
struct WireCounters {
  LineCounters a, b;

  bool operator==(const WireCounters&) const = default;
};

/// One direction: a bounded first-in first-out queue. Instants are nanoseconds of one monotonic
/// clock. Not thread-safe.
class Line {
 public:
  static constexpr std::size_t kPacketsMax = 8192;
  static constexpr std::size_t kBytesMax = 16u << 20;
  /// Longest wait for the rate, as a router's buffer would have it; a packet that would wait longer
  /// is dropped.
  static constexpr std::int64_t kRateWaitMaxNs = 200'000'000;

  /// Draws which packets are lost from `seed`: packet number n meets the same fate in each run with
  /// one seed and one loss, whenever it is sent.
  explicit Line(std::uint64_t seed) : random_(seed) {}

  /// The settings of packets that are offered from now on.
  LineSettings& settings() { return settings_; }
  /// Drops what is on its way, and everything from now on until heal().
  void cut();
  /// Drops, as cut() does, what comes from or goes to one IPv4 address: four bytes as in a packet.
  void block(const std::string& address);
  /// Ends cut() and every block().
  void heal();

  /// Takes a packet from the sending end: queues or drops it.
  void offer(std::string_view packet, std::int64_t now_ns);
  /// Returns the instant at which the first packet is due; nullopt if the queue is empty.
  std::optional<std::int64_t> next_due_ns() const;
  /// Removes and returns the first packet if it is due.
  std::optional<std::string> take_due(std::int64_t now_ns);
  /// Counts a packet that take_due() gave: taken by the device of the other end, or refused.
  void count_delivery(bool taken) { ++(taken ? counters_.delivered : counters_.refused); }
  LineCounters counters() const;

 private:
  struct Packet {
    std::int64_t due_ns;
    std::string bytes;
  };
  bool has_space_for(std::size_t bytes, std::int64_t wait_ns) const;
  bool is_blocked(std::string_view packet) const;
  std::mt19937_64 random_;
  LineSettings settings_;
  LineCounters counters_;
  std::deque<Packet> queue_;
  std::size_t queued_bytes_ = 0;
  std::int64_t line_free_ns_ = 0;  // when the rate lets the next packet begin
  std::int64_t last_due_ns_ = 0;   // no packet overtakes another when the delay falls
  bool is_cut_ = false;
  std::vector<std::string> blocked_;  // addresses
};

/// Both directions, and the commands that change them. Not thread-safe.
class Wire {
 public:
  explicit Wire(std::uint64_t seed) : lines_{Line(seed), Line(~seed)} {}

  /// The direction that `end` sends into.
  Line& line(End end) { return lines_[static_cast<std::size_t>(end)]; }
  /// Carries out a command. DIRECTION is a, b or both (the default):
  ///   delay MICROSECONDS [DIRECTION]    loss PERMILLE [DIRECTION]
  ///   rate BYTES_PER_SECOND [DIRECTION] cut [DIRECTION]    block ADDRESS [DIRECTION]
  ///   heal [DIRECTION]                  counters
  /// Returns the answer, one line without its end: "ok", for counters "ok a received=… b …", or
  /// "error: …", and then nothing has changed.
  std::string command(const std::string& text);

 private:
  Result<void> change(const std::vector<std::string>& words);
  Result<void> interrupt(const std::vector<std::string>& words);
  std::array<Line, 2> lines_;
};

/// Returns "a received=1 delivered=1 lost=0 … b received=0 …".
std::string counters_text(const WireCounters& counters);
/// Parses that text, with or without the answer's "ok" before it. kInvalidRequest with the text if
/// it is not one.
Result<WireCounters> parse_counters(const std::string& text);

/// Moves packets between two TUN devices through a wire, and answers commands on a Unix socket.
/// Waits in one poll: an idle relay uses no processor.
class Relay {
 public:
  /// Descriptors stay the caller's and do not block: the devices of both ends, and a listening
  /// stream socket, -1 for none.
  struct Descriptors {
    int a = -1;
    int b = -1;
    int listener = -1;
  };
  Relay(Wire& wire, const Descriptors& descriptors) : wire_(wire), descriptors_(descriptors) {}
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Relays until a device is gone; returns the error, kIo, that says which.
  Error run();

 private:
  struct Connection {
    int fd = -1;
    std::string input;  // the beginning of a command
  };
  static constexpr std::size_t kConnectionsMax = 8;
  static constexpr std::size_t kCommandBytesMax = 256;

  int device(End end) const { return end == End::kA ? descriptors_.a : descriptors_.b; }
  Result<void> deliver(End from);
  Result<void> take_in(End from);
  std::optional<std::int64_t> next_due_ns();
  Result<void> wait_and_serve();
  void serve_ready(const std::vector<pollfd>& items);
  void accept_connection();
  bool serve(Connection& connection);
  bool answer_commands(Connection& connection);

  Wire& wire_;
  const Descriptors descriptors_;
  std::vector<Connection> connections_;
};

}  // namespace holdfast::cluster
