#include "control/core/breaker.h"

#include <algorithm>

namespace holdfast::core {

bool Breaker::failed(const Config& config, std::int64_t now_us) {
  ++failures_;
  if (failures_ < config.breaker_failures) return false;
  const std::int64_t doubled = std::min<std::int64_t>(failures_ - config.breaker_failures, 20);
  const std::int64_t pause_ms =
      std::min(config.breaker_pause_ms << doubled, config.breaker_pause_max_ms);
  tripped_ = true;
  open_until_us_ = now_us + pause_ms * 1000;
  return true;
}

}  // namespace holdfast::core
