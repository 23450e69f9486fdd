#pragma once
// A node's conversation with its daemon on another machine: reports each second, how workers ended,
// the farewell. Runs on threads of its own; the main thread forks, reaps and reads the state here.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/serve/worker_end.h"
#include "shared/client/peer_key.h"
#include "shared/wire/liveness.h"

namespace holdfast::cli {

/// Options of the link.
struct NodeLinkOptions {
  std::string endpoint;  // "tcp://HOST:PORT"
  client::PeerKeyFile key;
  std::string index_file;          // the models of this machine are written there
  std::vector<std::string> roots;  // where they are looked for; what is fetched gets to the first
  bool quiet = false;              // no lines about models that come
  std::string domain;              // what fails together with this machine; empty: nothing
  int threads = 1;                 // of its workers
  /// Called on a thread of the link with the session of datagrams that an answer names; they are
  /// the same again and again. Not called by a daemon that takes no datagrams.
  std::function<void(const wire::LivenessSession&)> on_session;
};

/// The threads that call the daemon and look for models. Its methods may be called from any thread.
class NodeLink {
 public:
  enum class Phase : std::uint8_t {
    kJoining,  // no answer yet
    kJoined,
    kRefused,  // the daemon does not want this node: `why`
  };
  struct State {
    Phase phase = Phase::kJoining;
    std::string why;        // of kRefused; while joining: why there was no answer
    bool answered = false;  // the last report was answered
    std::string reading;    // the file that is being hashed; empty: none
  };

  /// Starts the threads.
  explicit NodeLink(NodeLinkOptions options);
  ~NodeLink();  // ends them

  State state() const;
  /// Reports a worker's end, in order, until it is acknowledged.
  void worker_exited(WorkerEnd end);
  /// Reports from now on that the node was told to end, so that it gets nothing new.
  void leave();
  /// Says that the node is gone; waits for the answer, at most `limit_ms`.
  void farewell(std::int64_t limit_ms);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace holdfast::cli
