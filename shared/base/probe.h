#pragma once
// Liveness probes: the supervisor asks each child over a socket of its own whether its loop still
// turns, and the loop answers. The socket is no door for work, so a flood there delays no answer.

#include <cstdint>

namespace holdfast {

/// Names the child's end of the socket, a descriptor that is handed down.
inline constexpr const char* kProbeFdVariable = "HOLDFAST_PROBE_FD";

/// The child's end. Used by the loop that serves, and by no other thread: an answer means that this
/// loop turns.
class ProbeAnswer {
 public:
  /// Takes the descriptor out of the environment, so that no child of ours answers for us.
  ProbeAnswer();
  ~ProbeAnswer();
  ProbeAnswer(const ProbeAnswer&) = delete;
  ProbeAnswer& operator=(const ProbeAnswer&) = delete;

  /// Readable when there is a probe to answer; -1: nobody asks.
  int fd() const { return fd_; }
  /// Answers what was asked, if anything was. Never blocks.
  void answer();

 private:
  int fd_;
};

}  // namespace holdfast
