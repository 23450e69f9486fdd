#pragma once
// Life of requests and choices: states, the queue, deadlines, ends.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "control/core/api_key_limiter.h"
#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/models.h"
#include "control/core/queue.h"
#include "control/core/requests.h"
#include "control/core/transitions.h"

namespace holdfast::core {

class Canaries;
class ClientStreams;
class Loads;
class Registry;

/// Choices of one model, tenant and priority class that wait and run.
struct QueueLine {
  std::string model;
  std::string tenant;
  PriorityClass priority = PriorityClass::kNormal;
  std::int64_t waiting = 0;         // choices
  std::int64_t running = 0;         // choices
  std::int64_t oldest_wait_us = 0;  // since acceptance, of the oldest that waits
};

/// All requests and the queue. Changes of states go through change(), ways off a worker through
/// end_attempt().
class Lifecycle {
 public:
  Lifecycle(Core& core, Loads& loads, Registry& registry, Canaries& canaries,
            ClientStreams& streams)
      : core_(core), loads_(loads), registry_(registry), canaries_(canaries), streams_(streams) {}

  /// Takes in a request that was accepted now or before this start.
  Request& insert(Request request);
  /// Deletes ended requests whose time in the database is over.
  void on(const Sweep& event);
  /// Takes the request to another state, by the table of transitions alone.
  void change(Request& request, RequestChange what);
  /// Writes the row of a request.
  void write_request(const Request& request, Durability durability);
  /// Writes the row of a choice.
  void write_choice(const Request& request, const Choice& choice, Durability durability);
  /// Returns true if choices wait for the model.
  bool waits(const std::string& model) const;
  /// Puts a choice into the queue of its model, which is loaded if it is not.
  void enqueue(Request& request, Choice& choice);
  /// Takes a choice that waits out of its queue.
  void dequeue(Request& request, Choice& choice);
  /// Counts a choice as running, for the bounds of its tenant, model and worker.
  void count_running(Request& request, Choice& choice);
  /// Ends the attempt of a running or adopting choice: every way off a worker goes through here.
  void end_attempt(Request& request, Choice& choice, const std::string& reason);
  /// Puts a choice back into the queue as resumed work. Its old fence is worth nothing from here
  /// on: the choice is not running, and the next attempt gets a new one.
  void requeue(Request& request, Choice& choice, const std::string& reason);
  /// Quarantines a request that workers died of each time: it waits for an operator.
  void quarantine(Request& request);
  /// Ends one choice; the caller then calls finish_request_if_done().
  void finish_choice(Request& request, Choice& choice, FinishReason finish, const std::string& code,
                     const std::string& error);
  /// Ends the request if none of its choices is open.
  void finish_request_if_done(Request& request);
  /// Ends every open choice the same way: cancel, expiry, failure of the whole.
  void end_request(Request& request, FinishReason finish, const std::string& code,
                   const std::string& error, bool tell_worker);
  /// Cancels a request. Idempotent: a terminal request stays as it is.
  void cancel_request(Request& request);
  /// Ends the requests that nobody will serve with the reason, instead of letting them wait for
  /// ever.
  void fail_waiting(const Model& model);
  /// Moves the request to another model, in its row and in what is counted.
  void set_model_of(Request& request, const ModelRow& model);
  /// Sets a timer for each of the request's deadlines.
  void arm_request(const Request& request);
  /// Ends a request one of whose deadlines is over.
  void check_request(Seq seq);
  /// Returns the number of choices that wait, unread ones among them.
  std::int64_t queued_choices() const;
  /// Returns the request as clients see it.
  wire::RequestInfo info(const Request& request) const;
  /// Returns lines by model, tenant and priority; requests of an unread queue are in none of them.
  std::vector<QueueLine> queue_lines(std::int64_t now_us) const;

  RequestTable& requests() { return requests_; }
  const RequestTable& requests() const { return requests_; }
  /// Queues by model, with the choices that run.
  std::map<std::string, WorkQueue>& queues() { return queues_; }
  /// Usage of API keys, against their limits.
  ApiKeyLimiter& keys() { return keys_; }
  std::int64_t running_choices() const { return requests_.usage().all().running; }
  /// Requests of the queue that the database has and BootQueuePage has not brought yet.
  std::int64_t unread() const { return unread_; }
  void set_unread(std::int64_t unread) { unread_ = unread; }
  /// Live requests in quarantine.
  std::int64_t quarantined() const { return quarantined_; }
  /// Number of times that each of request_transitions() was taken.
  std::span<const std::uint64_t> transition_counts() const { return transition_counts_; }

 private:
  QueueItem queue_item(const Request& request, const Choice& choice) const;
  void stop_counting(Request& request, Choice& choice);
  void record_end_stats(const Request& request, RequestChange what);
  void check_class(Request& request);

  Core& core_;
  Loads& loads_;
  Registry& registry_;
  Canaries& canaries_;
  ClientStreams& streams_;

  RequestTable requests_;
  std::map<std::string, WorkQueue> queues_;  // by model, with the choices that run
  ApiKeyLimiter keys_;
  std::vector<std::uint64_t> transition_counts_ =
      std::vector<std::uint64_t>(request_transitions().size());
  std::int64_t quarantined_ = 0;
  std::int64_t unread_ = 0;
};

}  // namespace holdfast::core
