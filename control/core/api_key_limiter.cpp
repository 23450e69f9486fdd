#include "control/core/api_key_limiter.h"

#include <algorithm>

#include "control/core/admission.h"
#include "shared/base/check.h"

namespace holdfast::core {
namespace {

// A request counts until its whole slot is a minute old: never less than the minute.
constexpr std::int64_t kSlotUs = 100'000;
constexpr std::int64_t kWindowUs = ApiKeyLimiter::kWindowMs * 1000;

std::int64_t leaves_us(std::int64_t slot) {
  return (slot + 1) * kSlotUs + kWindowUs;
}

std::int64_t ms_until(std::int64_t then_us, std::int64_t now_us) {
  return (std::max<std::int64_t>(then_us - now_us, 0) + 999) / 1000;
}

}  // namespace

void ApiKeyLimiter::forget_old(Use& use, std::int64_t now_us) {
  while (!use.slots.empty() && leaves_us(use.slots.front().number) <= now_us) {
    use.recent -= use.slots.front().requests;
    use.slots.pop_front();
  }
}

void ApiKeyLimiter::add(Use& use, std::int64_t at_us) {
  std::int64_t number = at_us >= 0 ? at_us / kSlotUs : (at_us - kSlotUs + 1) / kSlotUs;
  if (!use.slots.empty()) number = std::max(number, use.slots.back().number);
  if (use.slots.empty() || use.slots.back().number != number) use.slots.push_back({number, 0});
  ++use.slots.back().requests;
  ++use.recent;
}

void ApiKeyLimiter::restore(const std::vector<KeyUse>& uses, Now now) {
  for (const KeyUse& stored : uses) {
    Use& use = uses_[stored.key];
    use.live = stored.live;
    std::vector<std::int64_t> created = stored.created_ms;
    std::sort(created.begin(), created.end());
    for (const std::int64_t at_ms : created) {
      // A time in the future, by a clock that was stepped, counts as now.
      add(use, now.mono_us - std::max<std::int64_t>(now.wall_ms - at_ms, 0) * 1000);
    }
  }
}

/// Returns nullptr if nothing is known of the key, so that nothing counts.
const ApiKeyLimiter::Use* ApiKeyLimiter::find(const std::string& key, std::int64_t now_us) {
  const auto it = uses_.find(key);
  if (it == uses_.end()) return nullptr;
  forget_old(it->second, now_us);
  const Use& use = it->second;
  if (use.live > 0 || use.preparing > 0 || use.recent > 0) return &it->second;
  uses_.erase(it);
  return nullptr;
}

std::optional<wire::Refusal> ApiKeyLimiter::refuse(const wire::Submit& submit,
                                                   std::int64_t now_us) {
  if (submit.api_key.empty()) return std::nullopt;
  const Use* use = find(submit.api_key, now_us);
  const std::int64_t live = use == nullptr ? 0 : use->live + use->preparing;
  if (submit.key_max_requests && live >= *submit.key_max_requests) {
    wire::Refusal refusal = refuse_over(
        Errc::kRateLimited,
        "rate limit reached: the key has " + std::to_string(live) + " requests that have not ended",
        "its max_requests", live + 1, *submit.key_max_requests);
    refusal.free = 0;
    refusal.key = standing(submit, now_us);
    return refusal;
  }
  const std::int64_t recent = use == nullptr ? 0 : use->recent;
  if (!submit.key_requests_per_minute || recent < *submit.key_requests_per_minute) {
    return std::nullopt;
  }
  wire::Refusal refusal = refuse_over(
      Errc::kRateLimited,
      "rate limit reached: the key sent " + std::to_string(recent) + " requests in the last minute",
      "its requests_per_minute", recent + 1, *submit.key_requests_per_minute);
  refusal.free = 0;
  refusal.key = standing(submit, now_us);
  std::int64_t too_many = recent + 1 - *submit.key_requests_per_minute;
  refusal.retry_after_ms = kWindowMs;
  if (use == nullptr) return refusal;
  for (const Slot& slot : use->slots) {
    refusal.retry_after_ms = ms_until(leaves_us(slot.number), now_us);
    too_many -= slot.requests;
    if (too_many <= 0) break;
  }
  return refusal;
}

std::optional<wire::KeyStanding> ApiKeyLimiter::standing(const wire::Submit& submit,
                                                         std::int64_t now_us) {
  if (submit.api_key.empty() || !submit.key_requests_per_minute) return std::nullopt;
  const Use* use = find(submit.api_key, now_us);
  wire::KeyStanding standing;
  standing.limit = standing.left = *submit.key_requests_per_minute;
  if (use == nullptr || use->slots.empty()) return standing;
  standing.left = std::max<std::int64_t>(standing.limit - use->recent, 0);
  standing.reset_ms = ms_until(leaves_us(use->slots.back().number), now_us);
  return standing;
}

void ApiKeyLimiter::preparing(const std::string& key, std::int64_t now_us, bool again) {
  if (key.empty()) return;
  Use& use = uses_[key];
  forget_old(use, now_us);
  ++use.preparing;
  if (!again) add(use, now_us);
}

void ApiKeyLimiter::prepared(const std::string& key) {
  if (key.empty()) return;
  Use& use = uses_[key];
  CHECK_MSG(use.preparing > 0, "nothing is prepared that did not begin");
  --use.preparing;
}

void ApiKeyLimiter::accepted(const std::string& key, std::int64_t now_us, bool charged) {
  if (key.empty()) return;
  Use& use = uses_[key];
  forget_old(use, now_us);
  ++use.live;
  if (!charged) add(use, now_us);
}

void ApiKeyLimiter::ended(const std::string& key) {
  if (key.empty()) return;
  Use& use = uses_[key];
  CHECK_MSG(use.live > 0, "nothing ends that was not accepted");
  --use.live;
}

}  // namespace holdfast::core
