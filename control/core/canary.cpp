#include "control/core/canary.h"

#include <algorithm>
#include <vector>

#include "shared/base/check.h"

namespace holdfast::core {
namespace {

constexpr std::array<std::string_view, 4> kStates = {"loading", "running", "rolled_back",
                                                     "promoted"};

/// Failures per 10,000 of what ended.
std::int64_t error_share(const SideEvidence& side) {
  const std::int64_t all = side.ended + side.interrupted;
  return all == 0 ? 0 : (side.failed + side.interrupted) * 10'000 / all;
}

std::int64_t refusal_share(const SideEvidence& side) {
  const std::int64_t all = side.accepted + side.refused;
  return all == 0 ? 0 : side.refused * 10'000 / all;
}

std::string percent(std::int64_t of_ten_thousand) {
  const std::string rest = std::to_string(of_ten_thousand % 100);
  return std::to_string(of_ten_thousand / 100) + "." + (rest.size() < 2 ? "0" : "") + rest + " %";
}

std::string in_ms(std::int64_t us) {
  return std::to_string(us / 1000) + "." + std::to_string(us / 100 % 10) + " ms";
}

/// Breaches of one window, the worst first.
struct Findings {
  bool clear = false;
  std::vector<std::string> broken;
  void add(bool is_clear, std::string what) {
    clear = clear || is_clear;
    broken.push_back(std::move(what));
  }
};

/// Adds a breach if `share` is more than `bound` percent points above that of the stable side;
/// shares are parts of 10,000.
void check_share(Findings& found, const char* what, std::int64_t share, std::int64_t stable,
                 std::int64_t bound) {
  const std::int64_t excess = share - stable;
  if (excess <= bound * 100) return;
  found.add(excess > 2 * bound * 100 && excess > 1000,
            std::string(what) + " " + percent(share) + " against " + percent(stable) +
                " (at most " + std::to_string(bound) + " points more)");
}

void check_time(Findings& found, const char* what, std::int64_t p95_us, std::int64_t stable_us,
                std::int64_t bound_percent, std::int64_t slack_ms) {
  const std::int64_t most = std::max(stable_us / 100 * bound_percent, stable_us + slack_ms * 1000);
  if (p95_us <= most) return;
  found.add(p95_us > 2 * most, std::string(what) + " p95 " + in_ms(p95_us) + " against " +
                                   in_ms(stable_us) + " (at most " + in_ms(most) + ")");
}

bool enough_requests(const CanarySettings& s, const SideEvidence& side) {
  return std::max({side.ended + side.interrupted, side.ttft_count, side.accepted + side.refused}) >=
         s.min_requests;
}

}  // namespace

std::string_view canary_state_name(CanaryState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

CanaryState canary_state_from_name(std::string_view name) {
  const auto found = std::find(kStates.begin(), kStates.end(), name);
  return found == kStates.end() ? CanaryState::kRolledBack
                                : static_cast<CanaryState>(found - kStates.begin());
}

std::string_view decision_name(CanaryDecision decision) {
  constexpr std::array<std::string_view, 3> kNames = {"continue", "roll back", "promote"};
  return kNames.at(static_cast<std::size_t>(decision));
}

SideEvidence SideStats::evidence(const Histogram& ttft_with_waiting) const {
  SideEvidence now = counted;
  now.queue_percent = samples == 0 ? 0 : queue_sum / samples;
  now.ttft_count = static_cast<std::int64_t>(ttft_with_waiting.count());
  now.ttft_p95_us = ttft_with_waiting.quantile(0.95);
  now.itl_count = static_cast<std::int64_t>(itl.count());
  now.itl_p95_us = itl.quantile(0.95);
  return now;
}

std::string clearly_failing(const CanarySettings& s, const SideEvidence& canary,
                            const SideEvidence& stable) {
  const std::int64_t errors = canary.failed + canary.interrupted;
  const std::int64_t share = error_share(canary);
  if (errors < s.clear_errors || share < 5000 || share <= 2 * error_share(stable)) return {};
  return std::to_string(errors) + " of " + std::to_string(canary.ended + canary.interrupted) +
         " failed, " + percent(error_share(stable)) + " on the stable side";
}

namespace {

/// Compares both sides of a window by each of the canary's bounds.
Findings find_broken(const CanarySettings& s, const SideEvidence& canary,
                     const SideEvidence& stable) {
  Findings found;
  if (std::string failing = clearly_failing(s, canary, stable); !failing.empty()) {
    found.add(true, std::move(failing));
  }
  if (canary.ended + canary.interrupted >= s.min_requests) {
    check_share(found, "errors", error_share(canary), error_share(stable), s.max_error_percent);
  }
  if (canary.accepted + canary.refused >= s.min_requests) {
    check_share(found, "refusals", refusal_share(canary), refusal_share(stable),
                s.max_refusal_percent);
  }
  if (canary.queue_percent > s.max_queue_percent &&
      canary.queue_percent > 2 * stable.queue_percent) {
    found.add(false, "queue " + std::to_string(canary.queue_percent) + " % of its slots against " +
                         std::to_string(stable.queue_percent) + " % (at most " +
                         std::to_string(s.max_queue_percent) + " %)");
  }
  if (canary.ttft_count >= s.min_requests && stable.ttft_count >= s.min_requests) {
    check_time(found, "time to the first token", canary.ttft_p95_us, stable.ttft_p95_us,
               s.max_ttft_percent, s.ttft_slack_ms);
  }
  if (canary.itl_count >= s.min_requests && stable.itl_count >= s.min_requests) {
    check_time(found, "time between tokens", canary.itl_p95_us, stable.itl_p95_us,
               s.max_itl_percent, s.itl_slack_ms);
  }
  return found;
}

}  // namespace

CanaryVerdict judge_window(const CanarySettings& s, const SideEvidence& canary,
                           const SideEvidence& stable, bool suspect, std::int64_t passed) {
  const Findings found = find_broken(s, canary, stable);
  CanaryVerdict verdict;
  verdict.enough = enough_requests(s, canary) || !found.broken.empty();
  if (!found.broken.empty()) {
    verdict.suspect = true;
    for (const std::string& what : found.broken) {
      verdict.reason += (verdict.reason.empty() ? "" : "; ") + what;
    }
    if (found.clear || suspect) verdict.decision = CanaryDecision::kRollBack;
    if (found.clear) verdict.reason = "clear: " + verdict.reason;
    if (!found.clear && suspect) verdict.reason = "the second window in a row: " + verdict.reason;
    return verdict;
  }
  if (!verdict.enough) {
    verdict.suspect = suspect;
    verdict.reason = "too few requests on the canary, at least " + std::to_string(s.min_requests) +
                     " are needed; counting goes on";
    return verdict;
  }
  verdict.reason = "within its bounds";
  if (s.promote_after > 0 && passed + 1 >= s.promote_after) {
    verdict.decision = CanaryDecision::kPromote;
    verdict.reason += " for " + std::to_string(passed + 1) + " windows";
  }
  return verdict;
}

std::span<const CanaryField> canary_fields() {
  using S = CanarySettings;
  static constexpr CanaryField kFields[] = {
      {"percent", &S::percent, {}},
      {"window_ms", &S::window_ms, "canary.window_ms"},
      {"min_requests", &S::min_requests, "canary.min_requests"},
      {"clear_errors", &S::clear_errors, "canary.clear_errors"},
      {"max_error_percent", &S::max_error_percent, "canary.max_error_percent"},
      {"max_refusal_percent", &S::max_refusal_percent, "canary.max_refusal_percent"},
      {"max_queue_percent", &S::max_queue_percent, "canary.max_queue_percent"},
      {"max_ttft_percent", &S::max_ttft_percent, "canary.max_ttft_percent"},
      {"ttft_slack_ms", &S::ttft_slack_ms, "canary.ttft_slack_ms"},
      {"max_itl_percent", &S::max_itl_percent, "canary.max_itl_percent"},
      {"itl_slack_ms", &S::itl_slack_ms, "canary.itl_slack_ms"},
      {"promote_after", &S::promote_after, {}},
  };
  return kFields;
}

std::span<const EvidenceField> evidence_fields() {
  using E = SideEvidence;
  static constexpr EvidenceField kFields[] = {
      {"accepted", &E::accepted},
      {"refused", &E::refused},
      {"ended", &E::ended},
      {"failed", &E::failed},
      {"interrupted", &E::interrupted},
      {"queue_percent", &E::queue_percent},
      {"ttft_count", &E::ttft_count},
      {"ttft_p95_us", &E::ttft_p95_us},
      {"itl_count", &E::itl_count},
      {"itl_p95_us", &E::itl_p95_us},
  };
  return kFields;
}

CanarySettings nothing_said() {
  CanarySettings said;
  for (const CanaryField& field : canary_fields()) said.*field.field = -1;
  return said;
}

Result<CanarySettings> canary_settings(const CanarySettings& said, const Config& config) {
  CanarySettings settings;
  for (const CanaryField& field : canary_fields()) {
    std::int64_t low = 0;
    std::int64_t high = 1'000'000;  // windows
    std::int64_t value = said.*field.field;
    if (!field.knob.empty()) {
      const auto knob = find_knob(field.knob);
      CHECK_MSG(knob.has_value(), "every bound of a canary is a knob");
      low = knob->knob().min;
      high = knob->knob().max;
      if (value == -1) value = knob->get(config);
    } else if (field.field == &CanarySettings::percent) {
      low = 1;
      high = 99;
    } else if (value == -1) {
      value = 0;
    }
    if (value < low || value > high) {
      return Error{Errc::kUsage, std::string("canary ") + field.name + ": expected " +
                                     std::to_string(low) + " to " + std::to_string(high) +
                                     ", not " + std::to_string(value)};
    }
    settings.*field.field = value;
  }
  return settings;
}

}  // namespace holdfast::core
