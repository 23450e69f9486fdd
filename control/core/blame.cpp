#include "control/core/blame.h"

#include "shared/base/progress.h"

namespace holdfast::core {

bool death_counts(const WorkerExit& exit) {
  if (exit.oom) return true;
  if (exit.signal == 0 && exit.status == kExitStuck) return true;
  switch (exit.signal) {  // Linux numbers, as the supervisor reports them
    case 4:               // SIGILL
    case 6:               // SIGABRT
    case 7:               // SIGBUS
    case 8:               // SIGFPE
    case 11:              // SIGSEGV
      return true;
    default:
      return false;
  }
}

void charge_death(Choice& choice, std::int64_t index_then) {
  if (choice.row.next_index != index_then) return;
  if (choice.row.deaths_index != index_then) choice.row.deaths = 0;
  ++choice.row.deaths;
  choice.row.deaths_index = index_then;
}

Suspicion suspicion(const Choice& choice, const Config& config) {
  if (choice.row.deaths_index != choice.row.next_index) return Suspicion::kNone;
  if (choice.row.deaths >= config.blame_quarantine_after) return Suspicion::kQuarantine;
  if (choice.row.deaths >= config.blame_alone_after) return Suspicion::kAlone;
  return Suspicion::kNone;
}

bool is_fault_of_request(const std::string& code) {
  constexpr Errc kOfRequest[] = {Errc::kInvalidRequest, Errc::kUnsupported, Errc::kContextExceeded};
  return std::any_of(std::begin(kOfRequest), std::end(kOfRequest),
                     [&](Errc candidate) { return code == errc_name(candidate); });
}

}  // namespace holdfast::core
