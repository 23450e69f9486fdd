// Audits the rows of the database, and the causes of ends.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {
namespace {

using wire::FinishReason;
using wire::RequestState;

}  // namespace

/// A numerics class is gone for long only with its only worker, or where models come and go.
bool Auditor::classes_may_go() const {
  const Swarm& s = world_.swarm;
  return s.two_classes || s.lie > 0 || s.load_fails > 0 || s.op_unload > 0 || s.small_memory ||
         (s.workers == 1 && (s.partition > 0 || s.worker_pause > 0 || s.worker_starve > 0));
}

/// Each end must have a cause that this run gave it.
void Auditor::check_end(const std::string& id, TrackedRequest& tracked,
                        const wire::RequestInfo& info) {
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked.request)];
  const wire::Submit& submit = request.submit;
  switch (info.state) {
    case RequestState::kSucceeded:
      for (const wire::ChoiceInfo& choice : info.choices) {
        int fitting = 0;
        for (int c = 0; c < kVariants; ++c) {
          if (!possible(tracked, c)) continue;
          const Answer& want = answer(tracked.request, choice.choice, c);
          if (choice.next_index == static_cast<std::int64_t>(want.ids.size()) &&
              choice.finish == want.finish) {
            fitting |= 1 << c;
          }
        }
        if (fitting == 0) {
          world_.fail("I2 " + id + "/" + std::to_string(choice.choice) + " succeeded with " +
                      std::to_string(choice.next_index) + " tokens, finish " +
                      std::string(wire::finish_name(choice.finish)) +
                      ", which the model does not say");
        } else {
          tracked.variants = fitting;
        }
      }
      break;
    case RequestState::kCancelled:
      if (!tracked.may_cancel && request.cancel_us < 0 &&
          submit.on_disconnect != wire::OnDisconnect::kCancel) {
        world_.fail("I6 " + id + " is cancelled, nobody asked for it");
      }
      break;
    case RequestState::kExpired: {
      std::int64_t limit_ms = submit.total_timeout_ms;
      if (submit.queue_timeout_ms > 0 && (limit_ms == 0 || submit.queue_timeout_ms < limit_ms)) {
        limit_ms = submit.queue_timeout_ms;
      }
      const std::int64_t lived_ms = (world_.now_us - request.at_us) / kMs;
      // A machine that boots again has nothing but its wall clock to count from.
      const bool unsure = world_.power_failed && (world_.swarm.reboots || world_.taken_over) &&
                          world_.swarm.clock_step > 0;
      if (limit_ms == 0 || (lived_ms + 1 < limit_ms && !unsure)) {
        world_.fail("I6 " + id + " expired after " + std::to_string(lived_ms) + " ms of " +
                    std::to_string(limit_ms));
      }
      break;
    }
    default: {
      std::string code;
      for (const wire::ChoiceInfo& c : info.choices) {
        if (c.finish == FinishReason::kError) code = c.error_code;
      }
      const bool broken = world_.swarm.bad_model > 0 && tracked.model_sha == kBadModel;
      const bool allowed = (code == "internal" && broken) ||
                           (code == "model_failed" && loads_may_fail_) ||
                           (code == "corrupt" && (tracked.may_fail || any_may_fail_)) ||
                           (code == "determinism_class_unavailable" && classes_may_go());
      if (!allowed) world_.fail("I6 " + id + " failed with " + code + " for no reason of this run");
    }
  }
}

void Auditor::check_row(const StoredRows::Request& row, bool power_failed) {
  TrackedRequest* tracked = find(row.id, "a row");
  if (tracked == nullptr) return;
  if (tracked->fin && row.state != wire::state_name(tracked->fin->state)) {
    world_.fail("I6 " + row.id + " was told as " +
                std::string(wire::state_name(tracked->fin->state)) + ", its row says " + row.state);
  }
  check_model(row.id, *tracked, row.model);
  if (row.state == "quarantined") check_quarantine(row.id, *tracked);
  if (row.state == "queued" || row.state == "running" || row.state == "quarantined") {
    tracked->alive_us = world_.now_us;
  }
  tracked->dispatched = tracked->dispatched || row.started;
  if (row.choices.size() != tracked->choices.size()) {
    world_.fail("I1 " + row.id + " has rows of " + std::to_string(row.choices.size()) + " choices");
    return;
  }
  for (std::size_t c = 0; c < row.choices.size(); ++c) {
    const StoredRows::Choice& choice = row.choices[c];
    ObservedChoice& observed = tracked->choices[c];
    const std::string name = row.id + "/" + std::to_string(c);
    const std::int64_t least = power_failed ? observed.durable : observed.emitted;
    if (choice.next_index < least) {
      world_.fail("I3 the row of " + name + " says " + std::to_string(choice.next_index) + ", " +
                  std::to_string(least) + " had left");
    }
    if (power_failed)
      observed.emitted = std::max(observed.durable, std::min(observed.emitted, choice.next_index));
    if (observed.frozen >= 0 && choice.next_index != observed.frozen) {
      world_.fail("I9 the row of " + name + " says " + std::to_string(choice.next_index) +
                  ", its cancel said " + std::to_string(observed.frozen));
    }
    if (tracked->fin && choice.next_index != tracked->fin->choices[c].next_index) {
      world_.fail("I13 the row of " + name + " says " + std::to_string(choice.next_index) +
                  " tokens, its FIN said " + std::to_string(tracked->fin->choices[c].next_index));
    }
    if (choice.open_attempts > 1) world_.fail("I4 " + name + " has two open attempts");
    std::int64_t next = 0;
    for (const auto& [start, ids] : choice.chunks) {
      if (start != next)
        world_.fail("I3 a chunk of " + name + " starts at " + std::to_string(start) + ", not " +
                    std::to_string(next));
      check_tokens(row.id, *tracked, static_cast<std::int32_t>(c), start, ids, "a chunk");
      next = start + static_cast<std::int64_t>(ids.size());
    }
    if (next != choice.next_index) {
      world_.fail("I3 " + name + " has " + std::to_string(next) + " tokens, its row says " +
                  std::to_string(choice.next_index));
    }
  }
}

void Auditor::rows(const StoredRows& observed, bool power_failed, bool took_over) {
  copied_.clear();
  if (world_.swarm.boot_queued < 512) {
    // Requests that are read later queue after those read first; order is promised to the rest.
    for (auto& [id, tracked] : tracked_) tracked.moved = true;
  }
  if (!observed.trouble.empty()) return world_.fail("I11 " + observed.trouble);
  std::set<std::string> there;
  for (const StoredRows::Request& row : observed.requests) {
    there.insert(row.id);
    copied_[row.id] = row.state;
    check_row(row, power_failed);
    if (!world_.failure().empty()) return;
  }
  for (auto& [id, tracked] : tracked_) {
    if (there.count(id) > 0 || tracked.request < 0 || gone_is_lawful(tracked)) continue;
    // A primary that had lost its standby may have begun what it could not acknowledge.
    if (took_over && !tracked.accepted) {
      begin_anew(tracked);
    } else if (tracked.accepted || tracked.lived) {
      world_.fail((took_over ? "I18 " : "I1 ") + id + " was accepted and is lost");
    }
  }
  if (pauses_open_ == 0 && observed.has_tables && observed.paused != paused_) {
    world_.fail("I1 the answer said that the queue is " +
                std::string(paused_ ? "paused" : "running") + ", its row does not");
  }
  for (const StoredRows::Canary& canary : observed.canaries) {
    if (canary.state == "rolled_back" && canary.windows == 0) {
      world_.fail("I15 canary " + std::to_string(canary.id) +
                  " was rolled back without a decision");
    }
  }
  pauses_open_ = 0;  // what was on its way died with the daemon
  paused_ = observed.paused;
}

void Auditor::finish(const StoredRows& observed) {
  rows(observed, false);
  for (const StoredRows::Canary& canary : observed.canaries) {
    if (canary.state == "rolled_back" || canary.state == "promoted") continue;
    world_.fail("I15 canary " + std::to_string(canary.id) + " is still " + canary.state);
  }
  for (const StoredRows::Request& row : observed.requests) {
    const auto it = tracked_.find(row.id);
    if (it == tracked_.end()) continue;
    if (row.state == "queued" || row.state == "running" || row.state == "quarantined") {
      world_.fail("I14 " + row.id + " is still " + row.state);
    } else if (row.state == "succeeded") {
      for (std::size_t c = 0; c < row.choices.size(); ++c) {
        bool fits = false;
        for (int v = 0; v < kVariants; ++v) {
          if (!possible(it->second, v)) continue;
          const Answer& want = answer(it->second.request, static_cast<std::int32_t>(c), v);
          fits = fits || row.choices[c].next_index == static_cast<std::int64_t>(want.ids.size());
        }
        if (!fits) {
          world_.fail("I2 " + row.id + " succeeded with " +
                      std::to_string(row.choices[c].next_index) + " tokens");
        }
      }
    }
  }
}

}  // namespace holdfast::simulation
