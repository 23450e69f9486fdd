#pragma once
// The outside judge. It knows what clients asked for and saw, what left the daemon, the reference
// answers, and the rows that it reads itself after each recovery; it shares no code with machine
// and store. The invariants are those of docs/durability.md, I1 to I15.

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
#include "tests/simulation/lib/rows_seen.h"
#include "tests/simulation/lib/wish.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

class Auditor {
 public:
  Auditor(World& world, const std::vector<Wish>& wishes) : world_(world), wishes_(wishes) {}

  /// A client sends this submission for the first time.
  void attempted(int wish);

  // ---- what leaves the daemon
  void left(core::PeerId to, const wire::Message& message);
  void paused(bool paused) {
    paused_ = paused;
    --pauses_open_;
  }
  void pause_asked() { ++pauses_open_; }

  // ---- what reaches it
  void arrived(core::PeerId from, const wire::Message& message);
  void group_ended() { lies_.insert(new_lies_.begin(), new_lies_.end()); }

  // ---- accidents that change what is allowed
  void cancelled_by_operator(const std::string& id) { known_[id].may_cancel = true; }
  void moved(const std::string& id) { known_[id].moved = true; }
  void damaged(const std::string& id) { known_[id].may_fail = true; }
  void damaged_any() { any_may_fail_ = true; }
  /// A worker died by a crash or for its memory, with these choices in its step; empty: the
  /// supervisor does not know which.
  using ChoiceName = std::pair<std::string, std::int32_t>;
  void worker_crashed(const std::vector<ChoiceName>* step);
  /// A choice killed its worker, and the supervisor's word on that has reached the daemon.
  void killer_reported(const std::string& id, std::int32_t choice);
  void daemon_died();
  void requeue_asked(const std::string& id);
  void loads_failed() { loads_may_fail_ = true; }

  // ---- looks at the database
  /// After a recovery's worth of death, before the next daemon opens the file.
  void rows(const RowsSeen& seen, bool power_failed);
  /// At the end: every accepted request has ended, as its clients were told and as it had to.
  void finish(const RowsSeen& seen);
  /// Its rows were damaged.
  bool may_fail(const std::string& id) const;
  /// It may have been deleted by now: it can have ended, long enough ago for what this seed keeps.
  bool may_be_gone(const std::string& id) const;

 private:
  static constexpr int kVariants = 4;  // see variants_of()
  struct Seen {                        // one choice
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
  struct Known {
    int wish = -1;
    bool accepted = false, first_answer = false, may_cancel = false, may_fail = false;
    bool moved = false, dispatched = false;
    bool lived = false;  // it was given to a worker
    std::int64_t accept_order = 0;
    std::int64_t alive_us = 0;  // it had certainly not ended then
    std::set<std::string> overtaken_by;
    std::map<std::string, std::int64_t> passed;  // tokens begun by other tenants while it waited
    std::optional<wire::RequestInfo> fin;
    std::vector<Seen> choices;
    int variants = 3;       // bits of those that are possible, see variants_of()
    std::string model_sha;  // of the last dispatch
  };

  void on_submit(const wire::Submit& m);
  void look_for_end(const wire::TokenEvent& event);
  bool can_have_ended(const Known& known) const;
  bool gone_is_lawful(const Known& known) const;
  void check_key(const Wish& wish, const std::string& id);
  void on_accepted(const wire::Accepted& m);
  void on_event(const wire::Event& m);
  void on_info(const wire::RequestInfo& info);
  void on_fin(const wire::RequestInfo& info);
  void on_status(const wire::StatusReply& m);
  void on_fence(core::PeerId to, const std::string& id, std::int32_t choice, core::Fence fence);
  void on_dispatch(core::PeerId to, const wire::Dispatch& m);
  void on_ack(core::PeerId to, const wire::AckItem& item);
  void check_order(const std::string& id, Known& known);
  void check_shares(const std::string& id, Known& known, std::int32_t choice);
  void has_a_share(const Known& known);
  void check_end(const std::string& id, Known& known, const wire::RequestInfo& info);
  void check_killer(const std::string& id, const Seen& seen);
  void check_quarantine(const std::string& id, const Known& known);
  void check_row(const RowsSeen::Request& row, bool power_failed);
  void check_scores(const Known& known, const wire::Event& m);
  void check_tokens(const std::string& id, Known& known, std::int32_t choice, std::int64_t start,
                    const std::vector<wire::TokenId>& ids, const char* where);
  void look_for_lie(core::PeerId from, const wire::TokenEvent& event);
  const Answer& answer(int wish, std::int32_t choice, int variant);
  int variants_of(const Wish& wish) const;
  bool possible(const Known& known, int variant) const;
  void check_model(const std::string& id, const Known& known, const std::string& model);
  bool classes_may_go() const;
  Known* find(const std::string& id, const char* where);
  void all_is_durable();

  World& world_;
  const std::vector<Wish>& wishes_;
  std::map<std::string, Known> known_;
  std::map<std::pair<std::string, std::string>, std::string> keys_;  // tenant, key -> id
  std::map<std::tuple<int, std::int32_t, int>, Answer> answers_;
  std::set<std::pair<std::string, core::Fence>> lies_, new_lies_;
  core::Fence newest_fence_;
  std::int64_t accepts_ = 0;
  std::int64_t unknown_steps_ = 0;  // deaths that count, nobody knows against whom
  bool paused_ = false;
  int pauses_open_ = 0;  // orders that were not answered
  bool loads_may_fail_ = false, any_may_fail_ = false;
};

}  // namespace holdfast::simulation
