#pragma once
// Sockets of machines in the hands of the test itself: datagrams with a number each, and a TCP
// connection between two machines.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tests/cluster/namespaces.h"

namespace holdfast::cluster {

/// Returns CLOCK_MONOTONIC in microseconds, which is one clock for all machines.
std::int64_t monotonic_us();

/// Calls `done` every few milliseconds until it returns true. Returns false after the patience.
bool becomes_true(const std::function<bool()>& done, int patience_ms = 20'000);

/// A UDP socket of a machine at the bench's port.
class Datagrams {
 public:
  Datagrams(const Machines& machines, int machine);
  ~Datagrams();
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  /// Sends a number to the bench's port of a machine, in a datagram of `bytes`, at least 4.
  void send(int machine, int number, std::size_t bytes = 32) const;
  /// Returns the number of the next datagram; nullopt after the patience.
  std::optional<int> receive(int patience_ms) const;

 private:
  int fd_ = -1;
};

/// A TCP connection between two machines, whose both ends the test holds.
class Stream {
 public:
  /// Connects `from` to `to`.
  Stream(const Machines& machines, int from, int to);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Sends bytes from an end while the other reads, and waits for them. Returns what arrived:
  /// less if nothing came for `patience_ms`.
  std::string carry(int sender, const std::string& bytes, int patience_ms = 10'000) const;
  int from_fd() const { return from_fd_; }
  int to_fd() const { return to_fd_; }

 private:
  int from_fd_ = -1;
  int to_fd_ = -1;
};

/// Opens a listening TCP socket of a machine at the bench's port.
int listen_in(const Machines& machines, int machine);
/// Returns the next connection of a listening socket; -1 after the patience.
int accept_within(int listener, int patience_ms);
/// Reads a connection. Ends at its end, at `bytes_max`, and when nothing came for the patience;
/// `ended` says whether it was the end.
std::string read_stream(int fd, std::size_t bytes_max, int patience_ms, bool* ended = nullptr);
/// Connects the calling process, which runs in a machine, to the bench's port of another. Returns
/// the descriptor, -1 if it cannot.
int connect_from_here(int machine);

}  // namespace holdfast::cluster
