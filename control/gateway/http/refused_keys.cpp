#include "control/gateway/http/refused_keys.h"

#include <mutex>

#include "shared/base/clock.h"
#include "shared/base/line_bound.h"
#include "shared/base/log.h"

namespace holdfast::gateway {
namespace {

void write_line(const log::LineBound::Line& line) {
  log::warn("keys were refused", {{"address", line.subject}, {"count", line.count}});
}

}  // namespace

void note_refused_key(const std::string& address) {
  static std::mutex mutex;
  static log::LineBound bound;
  const std::lock_guard lock(mutex);
  const std::int64_t now_us = system_clock().monotonic_us();
  const log::LineBound::Line line = bound.count(address, now_us);
  if (line.count > 0) write_line(line);
  for (const log::LineBound::Line& late : bound.due(now_us)) write_line(late);
}

}  // namespace holdfast::gateway
