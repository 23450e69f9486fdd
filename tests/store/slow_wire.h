#pragma once
// Two processes' connection as if they were on two machines: what is under way takes a millisecond,
// and is lost with the wire. Between sockets of one machine the kernel would deliver it even after
// its sender was killed.

#include <sys/types.h>

#include <optional>
#include <string>

#include "shared/wire/messages.h"

namespace holdfast::store {

/// One end of the wire, a stream socket with frames on it. Blocking writes.
class WireEnd {
 public:
  explicit WireEnd(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  /// False once the other end is gone.
  bool send(const wire::Message& message) const;
  /// Returns the next message; waits `wait_ms` at most (-1: for ever). nullopt: none came, or the
  /// other end is gone (is_over()).
  std::optional<wire::Message> receive(int wait_ms);
  bool is_over() const { return over_; }

 private:
  int fd_;
  std::string buffer_;
  bool over_ = false;
};

/// A process that passes bytes on between its two ends, each a millisecond later.
class SlowWire {
 public:
  SlowWire();
  ~SlowWire();  // cuts it
  SlowWire(const SlowWire&) = delete;
  SlowWire& operator=(const SlowWire&) = delete;
  int left() const { return ends_[0]; }
  int right() const { return ends_[1]; }
  /// Closes an end in this process, once another process has it.
  void close_left();
  void close_right();
  /// Cuts the wire: bytes that are under way are lost. (SIGKILL)
  void cut();

 private:
  int ends_[2] = {-1, -1};
  pid_t relay_ = 0;
};

}  // namespace holdfast::store
