#pragma once
// Connections of strangers, in a process of their own: they have no key, send little, and return
// when they are dropped. They cost the machine little, and the gateway what they can.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::bench {

/// The behaviour of one connection. Kinds alternate, so that there are as many of each.
enum class Stranger : std::uint8_t {
  kIdle,      // sends nothing
  kHalfHead,  // half a head, then nothing
  kHalfBody,  // a head without a key, then half a body
  kDrip       // a head that continues by a byte a second
};
/// The text that a stranger sends when it is connected, and each second after that.
std::string first_words(Stranger kind);
std::string next_words(Stranger kind);

/// The program of that process: `count` connections to the port until it is killed. Once a tick it
/// prints their counts to stdout.
int run_crowd(int port, int count);

struct CrowdState {
  std::int64_t open = 0;       // now
  std::int64_t connected = 0;  // in total
  std::int64_t dropped = 0;    // by the gateway
};
/// The last whole line of the process's output; all zero if there is none yet.
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
