// When a request may have left the database for good.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {

/// The last token of a choice reached the daemon; whether it counted is not looked at.
void Auditor::look_for_end(const wire::TokenEvent& event) {
  const auto it = known_.find(event.request_id);
  if (it == known_.end() || it->second.wish < 0) return;
  const Wish& wish = wishes_[static_cast<std::size_t>(it->second.wish)];
  const auto end = event.start + static_cast<std::int64_t>(event.ids.size());
  if (event.finish != wire::FinishReason::kNone || end >= *wish.submit.max_tokens) {
    it->second.choices.at(static_cast<std::size_t>(event.choice)).end_came = true;
  }
}

/// Something was there that can have ended it, told or not.
bool Auditor::can_have_ended(const Known& known) const {
  if (known.fin || known.may_cancel || known.may_fail || any_may_fail_ || loads_may_fail_) {
    return true;
  }
  const Wish& wish = wishes_[static_cast<std::size_t>(known.wish)];
  const wire::Submit& m = wish.submit;
  const bool nothing_to_do = *m.max_tokens == 0 && m.sampling.prompt_logprobs < 0;
  if (wish.cancel_us >= 0 || m.on_disconnect == wire::OnDisconnect::kCancel ||
      m.total_timeout_ms > 0 || m.queue_timeout_ms > 0 || nothing_to_do || classes_may_go()) {
    return true;
  }
  return std::all_of(known.choices.begin(), known.choices.end(),
                     [](const Seen& choice) { return choice.end_came; });
}

/// An end cannot be older than the last sign of life, and is kept for the hours of this seed.
bool Auditor::gone_is_lawful(const Known& known) const {
  constexpr std::int64_t kHourMs = 3'600'000;
  constexpr std::int64_t kNeverFull = 1LL << 32;  // no seed has as much
  const Swarm& s = world_.swarm;
  std::int64_t keep_hours = s.retention_key_hours;
  if (s.retention_max_bytes > kNeverFull) keep_hours = std::max(keep_hours, s.retention_hours);
  return can_have_ended(known) && world_.most_wall_gain_ms(known.alive_us) >= keep_hours * kHourMs;
}

bool Auditor::may_be_gone(const std::string& id) const {
  const auto it = known_.find(id);
  return it != known_.end() && it->second.wish >= 0 && gone_is_lawful(it->second);
}

}  // namespace holdfast::simulation
