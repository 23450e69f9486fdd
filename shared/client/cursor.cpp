#include "shared/client/cursor.h"

namespace holdfast::client {
namespace {

bool is_consistent(const wire::Event& e) {
  if (e.start < 0 || e.ends.size() != e.ids.size()) return false;
  if (!e.extra.empty() && e.extra.size() != e.ids.size()) return false;
  std::uint32_t last = 0;
  for (const std::uint32_t end : e.ends) {
    if (end < last || end > e.bytes.size()) return false;
    last = end;
  }
  return true;
}

void cut_front(wire::Event& e, std::size_t n) {
  const std::uint32_t bytes = e.ends[n - 1];
  const auto count = static_cast<std::ptrdiff_t>(n);
  e.start += count;
  e.bytes.erase(0, bytes);
  e.ids.erase(e.ids.begin(), e.ids.begin() + count);
  e.ends.erase(e.ends.begin(), e.ends.begin() + count);
  for (std::uint32_t& end : e.ends) end -= bytes;
  if (!e.extra.empty()) e.extra.erase(e.extra.begin(), e.extra.begin() + count);
}

}  // namespace

Cursor::Verdict Cursor::take(wire::Event& event) {
  if (event.choice < 0 || event.choice >= kChoicesMax || !is_consistent(event)) {
    return Verdict::kBroken;
  }
  const auto choice = static_cast<std::size_t>(event.choice);
  if (next_.size() <= choice) next_.resize(choice + 1, 0);
  std::int64_t& next = next_[choice];
  if (event.start > next) return Verdict::kGap;
  const auto delivered = static_cast<std::uint64_t>(next - event.start);
  if (delivered >= event.ids.size()) return Verdict::kRepeat;
  if (delivered > 0) cut_front(event, delivered);
  next += static_cast<std::int64_t>(event.ids.size());
  return Verdict::kDeliver;
}

bool Cursor::is_complete(const wire::RequestInfo& info) const {
  for (const wire::ChoiceInfo& choice : info.choices) {
    const auto i = static_cast<std::size_t>(choice.choice);
    const std::int64_t next = choice.choice >= 0 && i < next_.size() ? next_[i] : 0;
    if (next < choice.next_index) return false;
  }
  return true;
}

}  // namespace holdfast::client
