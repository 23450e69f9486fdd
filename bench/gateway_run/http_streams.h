#pragma once
// Many HTTP connections from one thread: streams whose events are timed, and plain requests in
// flight. Supports only the HTTP that a bench needs; the gateway's answers are taken as
// well-formed.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::bench {

/// Counts and gaps of the events while they were counted.
struct StreamStats {
  std::vector<double> gap_ms;  // between two events of a stream
  std::int64_t events = 0;
  std::int64_t ended = 0;  // streams that ended or broke before they were closed
  double seconds = 0;
};

/// Streaming completions, each on a connection of its own. Not thread-safe.
class HttpStreams {
 public:
  HttpStreams() = default;
  ~HttpStreams();
  HttpStreams(const HttpStreams&) = delete;
  HttpStreams& operator=(const HttpStreams&) = delete;

  /// Connects and posts one more stream of `max_tokens`.
  Result<void> open(int port, std::int64_t max_tokens, std::int64_t number);
  /// Reads for so long; false: a stream has not had its first event by then.
  bool wait_first_events(double seconds);
  /// Reads for so long and counts the events.
  StreamStats listen(double seconds);
  std::size_t size() const { return streams_.size(); }

 private:
  struct Stream {
    int fd = -1;
    bool ended = false;
    bool any = false;         // it had an event
    int newlines = 0;         // at the end of the text so far
    std::int64_t at_us = -1;  // time of the last event that was counted
  };
  void read_once(StreamStats* stats, int timeout_ms);
  void take(Stream& stream, const char* bytes, std::size_t n, std::int64_t now, StreamStats* stats);

  int epoll_ = -1;
  std::vector<Stream> streams_;
};

/// Posts `count` plain completions of one token over `connections` persistent connections; gives
/// how many were answered with 200.
Result<std::int64_t> post_completions(int port, int connections, std::int64_t count);

}  // namespace holdfast::bench
