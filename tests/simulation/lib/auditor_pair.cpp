// Audits a pair: what a primary says after its term, and what a standby's copy has.
#include <set>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

void Auditor::term_began(std::uint64_t term) {
  term_ = std::max(term_, term);
}

void Auditor::all_is_durable(std::uint64_t term) {
  if (is_current(term)) all_is_durable();
}

/// Tokens of a primary whose term is over are the right ones; it acknowledges nothing that the new
/// primary does not have.
void Auditor::old_primary_says(const wire::Message& message, std::uint64_t term) {
  world_.hit(Fault::kOldPrimarySpoke);
  if (const auto* m = std::get_if<wire::Event>(&message)) {
    TrackedRequest* tracked = find(m->request_id, "EVENT");
    if (tracked == nullptr) return;
    check_tokens(m->request_id, *tracked, m->choice, m->start, m->ids, "EVENT of an old primary");
  } else if (const auto* m = std::get_if<wire::Accepted>(&message)) {
    check_old_promise(m->info, term);
  } else if (const auto* m = std::get_if<wire::Attached>(&message)) {
    check_old_promise(m->info, term);
  } else if (const auto* m = std::get_if<wire::StatusReply>(&message)) {
    check_old_promise(m->info, term);
  } else if (const auto* m = std::get_if<wire::Fin>(&message)) {
    check_old_promise(m->info, term);
  }
}

/// I17: what the answer says is durable, is in the database of the later term.
void Auditor::check_old_promise(const wire::RequestInfo& info, std::uint64_t term) {
  const auto row = copied_.find(info.request_id);
  const auto tracked = tracked_.find(info.request_id);
  const bool has = row != copied_.end() || (tracked != tracked_.end() && tracked->second.accepted);
  const bool ended = !wire::is_terminal(info.state) ||
                     (row != copied_.end() && row->second == wire::state_name(info.state)) ||
                     (tracked != tracked_.end() && tracked->second.fin &&
                      tracked->second.fin->state == info.state);
  if (has && ended) return;
  world_.fail("I17 the primary of term " + std::to_string(term) + " says that " + info.request_id +
              " is " + std::string(wire::state_name(info.state)) + " after term " +
              std::to_string(term_) + " began without that");
}

/// I18: what was acknowledged is in the copy, as it was told.
void Auditor::look_at_copy(const StoredRows& observed) {
  if (!observed.trouble.empty()) return world_.fail("I18 the copy: " + observed.trouble);
  std::set<std::string> there;
  for (const StoredRows::Request& row : observed.requests) {
    there.insert(row.id);
    const auto it = tracked_.find(row.id);
    if (it == tracked_.end() || it->second.request < 0) continue;
    const TrackedRequest& tracked = it->second;
    if (tracked.fin && row.state != wire::state_name(tracked.fin->state)) {
      world_.fail("I18 " + row.id + " was told as " +
                  std::string(wire::state_name(tracked.fin->state)) + ", the copy says " +
                  row.state);
    }
    for (std::size_t c = 0; c < row.choices.size() && c < tracked.choices.size(); ++c) {
      if (row.choices[c].next_index >= tracked.choices[c].durable) continue;
      world_.fail("I18 the copy of " + row.id + "/" + std::to_string(c) + " has " +
                  std::to_string(row.choices[c].next_index) + " tokens, " +
                  std::to_string(tracked.choices[c].durable) + " are durable");
    }
  }
  for (const auto& [id, tracked] : tracked_) {
    if (tracked.accepted && there.count(id) == 0 && !gone_is_lawful(tracked)) {
      world_.fail("I18 " + id + " was accepted and is not in the copy");
    }
  }
}

}  // namespace holdfast::simulation
