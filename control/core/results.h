#pragma once
// Results of workers: tokens are compared, committed and counted.

#include <cstddef>
#include <cstdint>
#include <string>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/requests.h"
#include "control/core/rows.h"
#include "control/core/workers.h"

namespace holdfast::core {

class Breakers;
class Canaries;
class ClientStreams;
class Fleet;
class Lifecycle;
class Loads;

/// Takes the results of workers. A token counts only under the current fence and at the next
/// index.
class Results {
 public:
  Results(Core& core, Lifecycle& lifecycle, Loads& loads, Fleet& fleet, Breakers& breakers,
          Canaries& canaries, ClientStreams& streams)
      : core_(core),
        lifecycle_(lifecycle),
        loads_(loads),
        fleet_(fleet),
        breakers_(breakers),
        canaries_(canaries),
        streams_(streams) {}

  void worker_message(PeerId peer, const wire::Tokens& m);
  void worker_message(PeerId peer, const wire::Returned& m);

 private:
  void token_event(Worker& worker, const wire::TokenEvent& event, wire::Ack& ack);
  bool same_as_stored(const Request& request, const Choice& choice,
                      const wire::TokenEvent& event) const;
  void determinism_violation(Worker& worker, Request& request, Choice& choice,
                             const wire::TokenEvent& event);
  void bind_class(Request& request, const std::string& numerics_class);
  void count_cached(const Request& request, const Choice& choice, std::int64_t cached);
  static void note_cached(const Request& request, Choice& choice, std::int64_t cached,
                          InsertChunk& chunk);
  void count_tokens(const Request& request, Choice& choice, std::size_t count);
  void commit_tokens(Request& request, Choice& choice, const wire::TokenEvent& event,
                     std::int64_t skip);

  Core& core_;
  Lifecycle& lifecycle_;
  Loads& loads_;
  Fleet& fleet_;
  Breakers& breakers_;
  Canaries& canaries_;
  ClientStreams& streams_;
};

}  // namespace holdfast::core
