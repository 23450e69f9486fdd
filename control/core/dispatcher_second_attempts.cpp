// Second attempts: work of suspect workers begins again on idle ones.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "control/core/blame.h"
#include "control/core/breakers.h"
#include "control/core/dispatcher.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"

namespace holdfast::core {

/// Returns the ready loads of workers that run nothing at all.
std::vector<Load*> Dispatcher::idle_loads() {
  std::vector<Load*> idle;
  for (auto& [peer, worker] : fleet_.workers()) {
    if (!worker.takes_work()) continue;
    const bool runs = std::any_of(worker.loads.begin(), worker.loads.end(), [&](const auto& id) {
      return !loads_.all().at(id).running.empty();
    });
    if (runs) continue;
    for (const std::string& id : worker.loads) {
      Load& load = loads_.all().at(id);
      if (load.row.state == ModelState::kReady && load.held_until_us <= core_.now.mono_us) {
        idle.push_back(&load);
      }
    }
  }
  return idle;
}

bool Dispatcher::may_begin_again(const Request& request, const Choice& choice, const Load& load) {
  const std::string& numerics = request.row.numerics_class;
  if (load.row.model != request.row.model || load.alone || !breakers_.breakers_allow(load))
    return false;
  const bool bound = !numerics.empty() || !load.only_class.empty();
  if (bound && load.row.numerics_class != numerics) return false;
  if (suspicion(choice, core_.config) != Suspicion::kNone && !load.running.empty()) return false;
  QueueItem item;
  item.pages = choice.pages_at_most;
  return bounds_allow(load, item, {}) &&
         fits_now(load, request.prompt_tokens[static_cast<std::size_t>(choice.row.prompt)] +
                            choice.row.next_index);
}

/// Begins a second attempt, which takes the fence over: whatever the first one still sends is
/// refused.
void Dispatcher::begin_again(Request& request, Choice& choice, Load& load) {
  core_.out->send(choice.worker, wire::CancelWork{request.row.id, choice.row.choice, choice.fence});
  lifecycle_.end_attempt(request, choice, "second attempt: its worker is suspect");
  choice.resumed = true;
  choice.second_index = choice.row.next_index;
  ++core_.counters.second_attempts;
  load.alone = suspicion(choice, core_.config) != Suspicion::kNone;
  start_choice(request, choice, load);
}

void Dispatcher::second_attempts() {
  const bool doubt = std::any_of(fleet_.workers().begin(), fleet_.workers().end(),
                                 [](const auto& item) { return item.second.suspect; });
  if (core_.paused || core_.draining || !doubt) return;
  const std::vector<Load*> idle = idle_loads();
  if (idle.empty()) return;
  for (const auto& [peer, worker] : fleet_.workers()) {
    if (!worker.suspect) continue;
    for (const std::string& id : std::set<std::string>(worker.loads)) {
      for (const ChoiceRef& ref : std::set<ChoiceRef>(loads_.all().at(id).running)) {
        Request* request = lifecycle_.requests().by_seq(ref.seq);
        CHECK(request != nullptr);
        Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
        if (choice.phase != ChoicePhase::kRunning || choice.second_index == choice.row.next_index) {
          continue;
        }
        const auto to = std::find_if(idle.begin(), idle.end(), [&](const Load* load) {
          return may_begin_again(*request, choice, *load);
        });
        if (to != idle.end()) begin_again(*request, choice, **to);
      }
    }
  }
}

}  // namespace holdfast::core
