#pragma once
// Deadlines of the machine. An entry only says "look at this thing then"; its handler compares with
// the thing's own deadline, so entries are never cancelled.

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <vector>

namespace holdfast::core {

/// The thing that is looked at when the time of an entry has come.
enum class TimerKind : std::uint8_t {
  kRequest,    // id = seq: queue, total, orphan or class deadline
  kAdoption,   // end of the adoption window
  kJob,        // id = ingress job
  kLoad,       // key = load id: no report
  kPlacement,  // look at models again
  kDispatch,   // a held worker may take work again
  kStalled,    // id = peer, tag: socket was full
  kFinished,   // id = peer, tag: its FIN was sent and has not come back
  kDrain,
  kAlias,  // key = alias: a window ends, or the wait for a model has lasted long enough
};

/// A time and what is to be looked at then.
struct TimerEntry {
  std::int64_t at_us = 0;
  TimerKind kind = TimerKind::kRequest;
  std::int64_t id = 0;
  std::uint64_t tag = 0;
  std::string key;
  bool operator>(const TimerEntry& other) const { return at_us > other.at_us; }
};

/// A heap of entries by time. Entries are never cancelled: whoever looks compares with the deadline
/// of the thing itself. Not thread-safe.
class Timers {
 public:
  void add(std::int64_t at_us, TimerKind kind, std::int64_t id = 0, std::uint64_t tag = 0) {
    heap_.push({at_us, kind, id, tag, {}});
  }
  void add_keyed(std::int64_t at_us, TimerKind kind, std::string key) {
    heap_.push({at_us, kind, 0, 0, std::move(key)});
  }
  std::optional<std::int64_t> next_us() const {
    if (heap_.empty()) return std::nullopt;
    return heap_.top().at_us;
  }
  std::optional<TimerEntry> take_due(std::int64_t now_us) {
    if (heap_.empty() || heap_.top().at_us > now_us) return std::nullopt;
    TimerEntry entry = heap_.top();
    heap_.pop();
    return entry;
  }

 private:
  std::priority_queue<TimerEntry, std::vector<TimerEntry>, std::greater<>> heap_;
};

}  // namespace holdfast::core
