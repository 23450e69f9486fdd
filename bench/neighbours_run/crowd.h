#pragma once
// Connections of strangers, in a process of their own: they have no key, say little, and return
// when they are thrown out. They cost the machine little, and the gateway what they can.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::bench {

/// What one connection does. In turn, so that there are as many of each.
enum class Stranger : std::uint8_t {
  kIdle,      // says nothing
  kHalfHead,  // half a head, then nothing
  kHalfBody,  // a head without a key, then half a body
  kDrip       // a head that comes on by a byte a second
};
/// What it says when it is connected, and each second after that.
std::string first_words(Stranger kind);
std::string next_words(Stranger kind);

/// The program of that process: `count` connections to the port until it is killed. Once a tick it
/// says on stdout what they came to.
int run_crowd(int port, int count);

struct CrowdState {
  std::int64_t open = 0;       // now
  std::int64_t connected = 0;  // in all
  std::int64_t dropped = 0;    // by the other side
};
/// The last whole line that the process said; all zero if there is none yet.
CrowdState parse_crowd(const std::string& output);

/// The process, from construction to destruction.
class Crowd {
 public:
  static Result<Crowd> start(int port, int count, const std::string& log);
  ~Crowd();
  Crowd(Crowd&& other) noexcept;
  Crowd& operator=(Crowd&&) = delete;
  CrowdState state() const;
  pid_t pid() const { return pid_; }

 private:
  Crowd(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  pid_t pid_;
  std::string log_;
};

}  // namespace holdfast::bench
