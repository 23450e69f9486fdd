#pragma once
// The outside judge. It knows what clients asked for and saw, what left the daemon, the reference
// answers, and the rows that it reads itself after each recovery; it shares no code with machine
// and store. The invariants are those of docs/inside/durability.md, I1 to I19.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/core/types.h"
#include "shared/wire/messages.h"
#include "tests/simulation/lib/reference.h"
#include "tests/simulation/lib/sim_request.h"
#include "tests/simulation/lib/stored_rows.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

class Auditor {
 public:
  Auditor(World& world, const std::vector<SimRequest>& requests)
      : world_(world), requests_(requests) {}

  /// A client sends this submission for the first time.
  void attempted(int request);

  // ---- what leaves the daemon
  void left(core::PeerId to, const wire::Message& message, std::uint64_t term);
  void paused(bool paused) {
    paused_ = paused;
    --pauses_open_;
  }
  void pause_requested() { ++pauses_open_; }

  // ---- what reaches it
  void arrived(core::PeerId from, const wire::Message& message);
  void group_ended();

  // ---- a pair
  /// A machine is the primary of this term from here on; 0: there is no pair.
  void term_began(std::uint64_t term);
  /// False for a primary whose term is over, and that does not know it yet.
  bool is_current(std::uint64_t term) const { return term >= term_; }
  /// A group of durability FULL is done: what left before it is there to stay.
  void all_is_durable(std::uint64_t term);
  /// Checks a standby's copy that the record calls in step, at any time.
  void look_at_copy(const StoredRows& observed);

  // ---- nodes
  void node_drain_requested(const std::string& node) { drains_[node] = Drain::kRequested; }
  void node_drained(const std::string& node);
  void node_resumed(const std::string& node) { drains_.erase(node); }
  /// A node's report reaches the daemon; it tells in it whether it wants to end.
  void node_reported(const std::string& node, bool leaving);

  // ---- accidents that change what is allowed
  void cancelled_by_operator(const std::string& id) { tracked_[id].may_cancel = true; }
  void moved(const std::string& id) { tracked_[id].moved = true; }
  void damaged(const std::string& id) { tracked_[id].may_fail = true; }
  void damaged_any() { any_may_fail_ = true; }
  /// A worker died by a crash or for its memory, with these choices in its step; empty: the
  /// supervisor does not know which.
  using ChoiceName = std::pair<std::string, std::int32_t>;
  void worker_crashed(const std::vector<ChoiceName>* step);
  /// A choice killed its worker, and the supervisor's word on that has reached the daemon.
  void killer_reported(const std::string& id, std::int32_t choice);
  void daemon_died();
  void requeue_requested(const std::string& id);
  void loads_failed() { loads_may_fail_ = true; }

  // ---- looks at the database
  /// Checks the rows after a death of the daemon, before the next daemon opens the file.
  /// `took_over`: they are a standby's copy, which is the database from here on.
  void rows(const StoredRows& observed, bool power_failed, bool took_over = false);
  /// Checks at the end that every accepted request has ended, as its clients were told and as it
  /// had to.
  void finish(const StoredRows& observed);
  /// True if the request's rows were damaged.
  bool may_fail(const std::string& id) const;
  /// True if the request may have been deleted by now: it can have ended, longer ago than this seed
  /// retains requests.
  bool may_be_gone(const std::string& id) const;

 private:
  static constexpr int kVariants = 4;  // see variants_of()
  struct ObservedChoice {              // one choice
    std::int64_t emitted = 0;          // indices below this left the daemon
    std::int64_t durable = 0;          // … before something that was synced left it
    core::Fence fence;                 // newest that left
    core::PeerId worker = 0;
    std::int64_t deaths = 0;  // that count, with it in the step
    std::int64_t kills = 0;   // reported to this daemon since it was last released
    void left(std::int64_t end) {
      if (end > emitted) kills = 0;  // it has moved on
      emitted = std::max(emitted, end);
    }
    std::int64_t frozen = -1;  // index at the answer to a cancel
    bool end_came = false;     // its last token reached the daemon
    bool begun = false;        // it was given to a worker
  };
  struct TrackedRequest {
    int request = -1;
    bool accepted = false, first_answer = false, may_cancel = false, may_fail = false;
    bool moved = false, dispatched = false;
    bool lived = false;  // it was given to a worker
    std::int64_t accept_order = 0;
    std::int64_t alive_us = 0;  // it had certainly not ended then
    std::set<std::string> overtaken_by;
    std::map<std::string, std::int64_t> passed;  // tokens begun by other tenants while it waited
    std::optional<wire::RequestInfo> fin;
    std::vector<ObservedChoice> choices;
    int variants = 3;       // bits of the possible ones, see variants_of()
    std::string model_sha;  // of the last dispatch
  };

  void on_submit(const wire::Submit& m);
  void begin_anew(TrackedRequest& tracked);
  void old_primary_says(const wire::Message& message, std::uint64_t term);
  void check_old_promise(const wire::RequestInfo& info, std::uint64_t term);
  void look_for_end(const wire::TokenEvent& event);
  bool can_have_ended(const TrackedRequest& tracked) const;
  bool gone_is_lawful(const TrackedRequest& tracked) const;
  void check_key(const SimRequest& request, const std::string& id);
  void on_accepted(const wire::Accepted& m);
  void on_event(const wire::Event& m);
  void on_info(const wire::RequestInfo& info);
  void on_fin(const wire::RequestInfo& info);
  void on_status(const wire::StatusReply& m);
  void on_fence(core::PeerId to, const std::string& id, std::int32_t choice, core::Fence fence);
  void on_dispatch(core::PeerId to, const wire::Dispatch& m);
  void on_ack(core::PeerId to, const wire::AckItem& item);
  void check_order(const std::string& id, TrackedRequest& tracked);
  void check_shares(const std::string& id, TrackedRequest& tracked, std::int32_t choice);
  void has_a_share(const TrackedRequest& tracked);
  void check_end(const std::string& id, TrackedRequest& tracked, const wire::RequestInfo& info);
  void check_killer(const std::string& id, const ObservedChoice& observed);
  void check_quarantine(const std::string& id, const TrackedRequest& tracked);
  void check_row(const StoredRows::Request& row, bool power_failed);
  void check_scores(const TrackedRequest& tracked, const wire::Event& m);
  void check_tokens(const std::string& id, TrackedRequest& tracked, std::int32_t choice,
                    std::int64_t start, const std::vector<wire::TokenId>& ids, const char* where);
  void look_for_lie(core::PeerId from, const wire::TokenEvent& event);
  const Answer& answer(int request, std::int32_t choice, int variant);
  int variants_of(const SimRequest& request) const;
  bool possible(const TrackedRequest& tracked, int variant) const;
  void check_model(const std::string& id, const TrackedRequest& tracked, const std::string& model);
  bool classes_may_go() const;
  TrackedRequest* find(const std::string& id, const char* where);
  void all_is_durable();

  World& world_;
  const std::vector<SimRequest>& requests_;
  std::map<std::string, TrackedRequest> tracked_;
  std::map<std::pair<std::string, std::string>, std::string> keys_;  // tenant, key -> id
  std::map<std::tuple<int, std::int32_t, int>, Answer> answers_;
  std::set<std::pair<std::string, core::Fence>> lies_, new_lies_;
  std::uint64_t term_ = 0;                     // the latest
  std::map<std::string, std::string> copied_;  // request -> state, when that term began
  enum class Drain : std::uint8_t { kRequested, kAnswered };
  void check_node(core::PeerId to, const std::string& id);
  std::map<std::string, Drain> drains_;          // of nodes, by an operator
  std::set<std::string> leaving_, new_leaving_;  // nodes that this daemon knows to end
  std::map<core::PeerId, std::string> worker_keys_;
  core::Fence newest_fence_;
  std::int64_t accepts_ = 0;
  std::int64_t unknown_steps_ = 0;  // deaths that count, of unknown blame
  bool paused_ = false;
  int pauses_open_ = 0;  // orders that were not answered
  bool loads_may_fail_ = false, any_may_fail_ = false;
};

}  // namespace holdfast::simulation
