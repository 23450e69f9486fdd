// Deaths of workers: what they ran and loaded is charged with them.
#include "control/core/postmortem.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/core/blame.h"
#include "control/core/breakers.h"
#include "control/core/canaries.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/memory_pools.h"
#include "control/core/nodes.h"
#include "control/core/registry.h"
#include "shared/base/step_journal.h"

namespace holdfast::core {
namespace {

constexpr std::size_t kRememberedDeaths = 64;

/// True if the process that ended was this worker: numbers of processes are those of one machine.
bool is_of(const WorkerExit& exit, std::int64_t pid, const std::string& worker_key) {
  if (exit.pid != pid) return false;
  return exit.worker_key.empty() ? node_of(worker_key).empty() : exit.worker_key == worker_key;
}

bool was_in_step(const WorkerExit& exit, const std::string& id, std::int32_t choice) {
  if (!exit.step.has_value()) return true;
  const std::uint64_t mark = step_mark(id, choice);
  return std::find(exit.step->begin(), exit.step->end(), mark) != exit.step->end();
}

}  // namespace

void Postmortem::on(const WorkerExit& event) {
  for (const auto& [peer, worker] : fleet_.workers()) {
    if (!is_of(event, worker.hello.pid, worker.hello.worker_key)) continue;
    exits_.push_back(event);
    const std::string why =
        event.oom ? "out of memory"
                  : (event.signal != 0 ? "signal " + std::to_string(event.signal)
                                       : "exit status " + std::to_string(event.status));
    fleet_.worker_gone(peer, why);
    return;
  }
  const auto lost = std::find_if(lost_.rbegin(), lost_.rend(), [&](const WorkerLoss& l) {
    return is_of(event, l.pid, l.worker_key);
  });
  if (lost == lost_.rend()) return;
  blame(event, *lost);
  memory_.process_ended(lost->worker_key, lost->incarnation);
  lost_.erase(std::next(lost).base());
}

void Postmortem::blame(const WorkerExit& exit, const WorkerLoss& lost) {
  if (!death_counts(exit)) return;
  const std::string how =
      exit.oom ? std::string("out of memory") : "signal " + std::to_string(exit.signal);
  // A suspect that ran alone is enough of an explanation.
  if (!lost.suspect) {
    breakers_.count_failure(lost.worker_key, {}, "its process died: " + how);
    for (const std::string& model : lost.models)
      breakers_.count_failure({}, model, "a worker died: " + how);
  }
  // The load has used up its try already; how its worker died is what an operator wants to read.
  for (const std::string& name : lost.loading) {
    const auto model = registry_.models().find(name);
    if (model == registry_.models().end()) continue;
    core_.out->note("a worker died while it loaded a model", {{"model", name}, {"how", how}}, true);
    canaries_.canary_load_failed(model->second, "its worker died while loading it: " + how);
    if (model->second.row.state != ModelState::kFailed) continue;
    model->second.row.reason += "; its worker died while loading it: " + how;
    registry_.put_model(model->second);
  }
  for (const auto& [ref, index] : lost.running) {
    Request* request = lifecycle_.requests().by_seq(ref.seq);
    if (request == nullptr || request->terminal() ||
        request->row.state == RequestState::kQuarantined) {
      continue;
    }
    Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
    if (choice.phase == ChoicePhase::kEnded) continue;
    if (!was_in_step(exit, request->row.id, ref.choice)) continue;
    canaries_.count_interrupted(*request);
    charge_death(choice, index);
    lifecycle_.write_choice(*request, choice, Durability::kNormal);
    if (suspicion(choice, core_.config) == Suspicion::kQuarantine) lifecycle_.quarantine(*request);
  }
}

void Postmortem::lost(WorkerLoss loss) {
  const auto exit = std::find_if(exits_.begin(), exits_.end(), [&](const WorkerExit& e) {
    return is_of(e, loss.pid, loss.worker_key);
  });
  if (exit != exits_.end()) {
    blame(*exit, loss);
    exits_.erase(exit);
    memory_.process_ended(loss.worker_key, loss.incarnation);
  } else {
    lost_.push_back(std::move(loss));
    if (lost_.size() > kRememberedDeaths) lost_.pop_front();
  }
}

}  // namespace holdfast::core
