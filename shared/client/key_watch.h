#pragma once
// The watch of a process that joins a daemon on another machine: whether it answers, and whether it
// still takes the process's key. A connection whose key was revoked stays open and silent, so the
// watch asks something small again and again.

#include <cstdint>
#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/client/peer_key.h"

namespace holdfast::client {

/// A question to the daemon, twice a second, on a thread of its own. Any thread.
class KeyWatch {
 public:
  enum class Phase : std::uint8_t {
    kJoining,  // no answer yet
    kJoined,
    kRefused,  // the daemon does not want this key: `why`. Final
  };
  struct State {
    Phase phase = Phase::kJoining;
    bool answered = false;       // the last question was answered
    std::string why;             // of kRefused; else of a question without an answer
    std::int64_t drain_ms = -1;  // the daemon's drain.limit_ms; -1: it has not told yet
  };

  /// Starts to ask the listener at `endpoint` ("tcp://HOST:PORT") with the key of a gateway or an
  /// operator. Does not wait for an answer. Errors as Client::connect.
  static Result<std::unique_ptr<KeyWatch>> start(const std::string& endpoint,
                                                 const PeerKeyFile& key);
  ~KeyWatch();  // ends the thread, within two seconds
  KeyWatch(const KeyWatch&) = delete;
  KeyWatch& operator=(const KeyWatch&) = delete;

  State state() const;

 private:
  struct Shared;
  explicit KeyWatch(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace holdfast::client
