#pragma once
// Liveness probes: the supervisor asks each child over a socket of its own whether its loop runs,
// and the loop answers. The socket carries no requests, so that a flood of them delays no answer.

#include <cstdint>

namespace holdfast {

/// The environment variable with the child's end of the socket, an inherited descriptor.
inline constexpr const char* kProbeFdVariable = "HOLDFAST_PROBE_FD";

/// The child's end. Only the thread of the serving loop uses it: an answer means that this loop
/// runs.
class ProbeAnswer {
 public:
  /// Takes the descriptor out of the environment, so that no child of ours answers for us.
  ProbeAnswer();
  ~ProbeAnswer();
  ProbeAnswer(const ProbeAnswer&) = delete;
  ProbeAnswer& operator=(const ProbeAnswer&) = delete;

  /// Returns a descriptor that is readable when there is a probe to answer; -1: there are no
  /// probes.
  int fd() const { return fd_; }
  /// Answers the pending probes. Never blocks.
  void answer();

 private:
  int fd_;
};

}  // namespace holdfast
