#pragma once
// Statistics for people and metrics: how long things took, how much happened in the last minute,
// what was refused. Fed by step() with its own time; no decision depends on them.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "shared/base/histogram.h"
#include "shared/base/result.h"

namespace holdfast::core {

/// Events of the last minute, in buckets of a second.
class MinuteRate {
 public:
  static constexpr std::int64_t kSeconds = 60;
  void add(std::int64_t now_us, std::uint64_t count) {
    if (now_us / 1'000'000 != second_) turn(now_us / 1'000'000);
    counts_[static_cast<std::size_t>(second_ % kSeconds)] += count;
  }
  /// Number of events in the last 60 seconds, the current one included.
  std::uint64_t count(std::int64_t now_us) const;
  /// Events per second in that time; in the first minute since `started_us`, over the time since
  /// then.
  double per_second(std::int64_t now_us, std::int64_t started_us) const;

 private:
  void turn(std::int64_t second);
  std::array<std::uint64_t, kSeconds> counts_{};
  std::int64_t second_ = 0;  // of the newest bucket
};

/// Statistics of the requests of one model. Times in microseconds, as the daemon sees them: a token
/// counts from its arrival here on. What began in an earlier process is in none but end_to_end.
struct ModelStats {
  Histogram queue_wait;   // acceptance to the first dispatch of a request
  Histogram first_token;  // arrival of a submission to the first token of each choice
  Histogram token_gap;    // between two tokens of a choice; a lost worker's pause is in it
  Histogram prefill;      // dispatch to the first token of each choice
  Histogram decode;       // first to last token of each choice that succeeded
  Histogram end_to_end;   // arrival of a submission to its end
  std::uint64_t prompt_tokens = 0, generated_tokens = 0;
  std::array<std::uint64_t, 4> ended{};     // requests, by End
  std::array<std::uint64_t, 6> finished{};  // their choices, by wire::FinishReason
  enum End : std::uint8_t { kSucceeded, kFailed, kCancelled, kExpired };

  void merge(const ModelStats& other);
};

/// Tokens that dispatches of a sharing group (Config::prefix_group) brought, and those of them that
/// workers had in their prefix caches.
struct PrefixStats {
  std::uint64_t tokens = 0, cached = 0;
};

/// Counters of the state machine since the start, for the metrics.
struct Stats {
  /// Bound on models with a row of their own; later ones share kOther. Rows stay when their models
  /// go, so that counts never go down.
  static constexpr std::size_t kModelsMax = 32;
  static constexpr std::string_view kOther = "other";
  std::map<std::string, ModelStats, std::less<>> models;
  ModelStats& model(const std::string& name);
  ModelStats all() const;
  /// Bound on sharing groups with a row of their own, as for models.
  static constexpr std::size_t kGroupsMax = 64;
  std::map<std::string, PrefixStats, std::less<>> prefix_groups;
  PrefixStats& prefix_group(const std::string& name);

  Histogram model_switch;  // until a model that was requested or lost its last worker is ready
  MinuteRate accepted, ended, tokens;
  std::array<std::uint64_t, static_cast<std::size_t>(Errc::kInternal) + 1> refused{};  // by Errc
};

}  // namespace holdfast::core
