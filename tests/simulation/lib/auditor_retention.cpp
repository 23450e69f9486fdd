// Audits when a request may have left the database for good.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

/// The last token of a choice reached the daemon; whether it counted is not looked at.
void Auditor::look_for_end(const wire::TokenEvent& event) {
  const auto it = tracked_.find(event.request_id);
  if (it == tracked_.end() || it->second.request < 0) return;
  const SimRequest& request = requests_[static_cast<std::size_t>(it->second.request)];
  const auto end = event.start + static_cast<std::int64_t>(event.ids.size());
  if (event.finish != wire::FinishReason::kNone || end >= *request.submit.max_tokens) {
    it->second.choices.at(static_cast<std::size_t>(event.choice)).end_came = true;
  }
}

/// True if something happened that can have ended it, told or not.
bool Auditor::can_have_ended(const TrackedRequest& tracked) const {
  if (tracked.fin || tracked.may_cancel || tracked.may_fail || any_may_fail_ || loads_may_fail_) {
    return true;
  }
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked.request)];
  const wire::Submit& m = request.submit;
  const bool nothing_to_do = *m.max_tokens == 0 && m.sampling.prompt_logprobs < 0;
  if (request.cancel_us >= 0 || m.on_disconnect == wire::OnDisconnect::kCancel ||
      m.total_timeout_ms > 0 || m.queue_timeout_ms > 0 || nothing_to_do || classes_may_go()) {
    return true;
  }
  return std::all_of(tracked.choices.begin(), tracked.choices.end(),
                     [](const ObservedChoice& choice) { return choice.end_came; });
}

/// An end cannot be older than the last sign of life, and is retained for the hours of this seed.
bool Auditor::gone_is_lawful(const TrackedRequest& tracked) const {
  constexpr std::int64_t kHourMs = 3'600'000;
  constexpr std::int64_t kNeverFull = 1LL << 32;  // no seed has as much
  const Swarm& s = world_.swarm;
  std::int64_t min_age_hours = s.retention_key_hours;
  if (s.retention_max_bytes > kNeverFull)
    min_age_hours = std::max(min_age_hours, s.retention_hours);
  return can_have_ended(tracked) &&
         world_.most_wall_gain_ms(tracked.alive_us) >= min_age_hours * kHourMs;
}

bool Auditor::may_be_gone(const std::string& id) const {
  const auto it = tracked_.find(id);
  return it != tracked_.end() && it->second.request >= 0 && gone_is_lawful(it->second);
}

}  // namespace holdfast::simulation
