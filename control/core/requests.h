#pragma once
// Requests and their choices in memory.

#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "control/core/rows.h"
#include "control/core/transitions.h"
#include "control/core/usage_tracker.h"

namespace holdfast::core {

/// Where a choice is on its way through the daemon.
enum class ChoicePhase : std::uint8_t {
  kQueued,
  kRunning,
  kAdopting,  // after a start: a worker may still run it under `fence`
  kEnded,
};

/// A choice as the daemon has it in memory: its row and what is not stored.
struct Choice {
  ChoiceRow row;
  ChoicePhase phase = ChoicePhase::kQueued;
  std::vector<TokenId> ids;                      // committed, all of them, while the request lives
  Fence fence;                                   // of the current attempt; stays after the end
  PeerId worker = 0;                             // while running
  std::string worker_key, incarnation, load_id;  // of the attempt
  std::int64_t pages = 0;                        // charged to its load while running
  std::int64_t pages_at_most = 0;                // at its longest, as usage counts it
  std::int64_t started_us = 0;
  std::int64_t first_token_us = 0;  // when its token 0 came to this process; 0 = it did not
  std::int64_t last_token_us = 0;   // when its newest token came to this process; 0 = none did
  bool resumed = false;             // was dispatched before
  bool noted = false;               // its token 0 has or may have an extra, whatever was asked for
  std::int64_t second_index = -1;   // where a second attempt began; no other until it moves
};

/// A request as the daemon has it in memory: its row, its choices and what is not stored.
struct Request {
  RequestRow row;
  wire::Sampling sampling;
  std::vector<std::string> stops;
  bool echo = false;
  std::string meta;
  std::vector<std::int64_t> prompt_tokens;
  std::vector<Choice> choices;
  std::int64_t payload_bytes = 0;
  std::int64_t submitted_us = 0;  // monotonic, for Stats
  std::int64_t accepted_us = 0;
  std::int64_t queue_deadline_us = 0;  // monotonic; 0 = none
  std::int64_t total_deadline_us = 0;
  std::int64_t orphan_deadline_us = 0;
  bool failure_counted = false;  // by its canary, when it was quarantined
  std::int64_t class_deadline_us = 0;
  std::int32_t subscribers = 0;
  std::int32_t running = 0;  // choices running or adopting

  bool terminal() const { return wire::is_terminal(row.state); }
  std::int32_t open_choices() const;
};

/// Number of tokens of the choice's prompt and of those that are committed.
std::int64_t tokens_of(const Request& request, const Choice& choice);

/// Number of indexes that a choice may fill: its tokens, or the one that stands for scores of the
/// prompt alone.
std::int64_t indexes_at_most(const Request& request);

/// The most KV pages that this choice comes to need.
std::int64_t pages_at_most(const Request& request, const Choice& choice);

/// Table of all requests that have not ended and a bounded number of ended ones. Finds by seq, id
/// and (tenant, idempotency key).
class RequestTable {
 public:
  Request* by_seq(Seq seq);
  Request* by_id(std::string_view id);
  Request* by_key(const std::string& tenant, const std::string& idem_key);
  /// Takes the request in; its seq and id must be new. The pointer stays valid until it is
  /// forgotten.
  Request* insert(Request request);
  /// Counts a request as ended; to be called once when it has become terminal.
  void ended(Request& request);
  /// Forgets ended requests beyond `ended_max` that nobody streams, oldest first. To be called only
  /// after a commit: a forgotten request must be found in the database as it was here.
  void trim(std::int64_t ended_max);
  /// Forgets an ended request that is going to be deleted. False if it is live or is being
  /// streamed.
  bool retire(Seq seq);
  UsageTracker& usage() { return usage_; }
  const UsageTracker& usage() const { return usage_; }
  const std::map<Seq, Request>& all() const { return requests_; }
  std::map<Seq, Request>& all() { return requests_; }

 private:
  void forget(Seq seq);
  std::map<Seq, Request> requests_;
  std::unordered_map<std::string, Seq> by_id_;
  std::map<std::pair<std::string, std::string>, Seq> by_key_;
  UsageTracker usage_;
  std::list<Seq> ended_;
};

}  // namespace holdfast::core
