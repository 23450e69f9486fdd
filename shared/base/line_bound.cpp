#include "shared/base/line_bound.h"

#include <utility>

namespace holdfast::log {

LineBound::Line LineBound::count(std::string_view subject, std::int64_t now_us) {
  auto entry = entries_.find(subject);
  if (entry == entries_.end()) {
    if (entries_.size() >= kSubjectsMax) {
      std::erase_if(entries_, [&](const auto& item) {
        return item.second.silent == 0 && now_us - item.second.written_us >= kPeriodUs;
      });
    }
    const bool has_capacity = entries_.size() < kSubjectsMax;
    const auto [at, fresh] = entries_.try_emplace(std::string(has_capacity ? subject : kOthers));
    entry = at;
    if (fresh) entry->second.written_us = now_us - kPeriodUs;
  }
  ++entry->second.silent;
  if (now_us - entry->second.written_us < kPeriodUs) return {};
  entry->second.written_us = now_us;
  return {entry->first, std::exchange(entry->second.silent, 0)};
}

std::vector<LineBound::Line> LineBound::due(std::int64_t now_us) {
  std::vector<Line> lines;
  for (auto& [subject, entry] : entries_) {
    if (entry.silent == 0 || now_us - entry.written_us < kPeriodUs) continue;
    entry.written_us = now_us;
    lines.push_back({subject, std::exchange(entry.silent, 0)});
  }
  return lines;
}

}  // namespace holdfast::log
