#pragma once
// Judgement of canaries: what both sides of an alias did in one window, and what follows from it.
// Pure functions of counted numbers, so that a decision can be made again from its row.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "control/core/alias_rows.h"
#include "control/core/config.h"
#include "shared/base/histogram.h"

namespace holdfast::core {

/// Numbers of one side, counted while a window lasts.
struct SideStats {
  SideEvidence counted;  // all but the means and percentiles
  Histogram ttft;        // microseconds
  Histogram itl;
  std::int64_t queue_sum = 0;  // over the samples of queue_percent
  std::int64_t samples = 0;
  /// Returns the numbers as of now. `ttft_with_waiting` is `ttft` with the requests that still
  /// wait.
  SideEvidence evidence(const Histogram& ttft_with_waiting) const;
};

/// The verdict on a canary at the end of a window.
enum class CanaryDecision : std::uint8_t { kContinue, kRollBack, kPromote };
std::string_view decision_name(CanaryDecision decision);  // "continue", "roll back", "promote"

/// The decision at the end of a window, and why.
struct CanaryVerdict {
  CanaryDecision decision = CanaryDecision::kContinue;
  bool enough = false;   // requests for a verdict; if not, the next window goes on counting
  bool suspect = false;  // a bound is broken: once more and it is rolled back
  std::string reason;
};

/// Judges a window at its end. `suspect`: the window before had a breach; `passed`: windows without
/// one in a row before this. A clear breach (twice the bound, or failures as in clearly_failing)
/// rolls back at once, another one when the next window has one too.
CanaryVerdict judge_window(const CanarySettings& settings, const SideEvidence& canary,
                           const SideEvidence& stable, bool suspect, std::int64_t passed);

/// Says why the canary clearly fails, at any moment: at least `clear_errors` failures, at least
/// half of what ended on the canary failed, and less than half as large a share did on the stable
/// side. Empty if it does not.
std::string clearly_failing(const CanarySettings& settings, const SideEvidence& canary,
                            const SideEvidence& stable);

/// One of the settings by name, for rows, documents and commands; `knob` is empty where there is
/// none.
struct CanaryField {
  const char* name;
  std::int64_t CanarySettings::*field;
  std::string_view knob;
};

/// Returns every setting, in the order in which documents show them.
std::span<const CanaryField> canary_fields();

/// One of the numbers of a side by name.
struct EvidenceField {
  const char* name;
  std::int64_t SideEvidence::*field;
};

/// Returns every number of a side, in the order in which documents show them.
std::span<const EvidenceField> evidence_fields();

/// Settings of which none is given: every field is -1.
CanarySettings nothing_said();
/// Resolves settings: what the operator gave, else the knobs of now. kUsage: no percent, or out of
/// range.
Result<CanarySettings> canary_settings(const CanarySettings& said, const Config& config);

}  // namespace holdfast::core
