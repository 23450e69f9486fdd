#pragma once
// Blame for items of durable work that kill the gateways working on them. A gateway resumes by
// itself what a dead one left; without blame one bad item would kill one gateway after the other.
// Deaths are counted in the daemon's database before the items of a dead gateway are resumed, by
// the gateway that finds them.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "control/gateway/common/object_store.h"
#include "control/gateway/common/touch_journal.h"

namespace holdfast::gateway {

inline constexpr const char* kBlameKind = "blame";

/// Thread-safe.
class Blame {
 public:
  /// Deaths at which an item is quarantined. A crash on the thread that works on an item is that
  /// item's fault; an end without a trace (a kill, the machine's memory) may have any cause.
  static constexpr std::int64_t kCrashesMax = 2;
  static constexpr std::int64_t kDeathsMax = 5;

  /// `dir` belongs to the gateways of this state directory. If it is not writable, nothing is
  /// blamed.
  Blame(ObjectStore& object_store, std::string dir);

  /// Stores the deaths that dead gateways left. Blocks, does its work at most once a second, and
  /// must not run on the SDK's thread. Returns false if that is not possible now: then nothing may
  /// be resumed.
  bool settle();
  /// True if the item is quarantined: it is not worked on again.
  bool is_poison(const std::string& item);
  /// Marks the item as being worked on by the calling thread, while the result lives.
  TouchJournal::Touch touch(const std::string& item);

 private:
  struct Deaths {
    std::int64_t crashes = 0;  // on the thread that worked on it
    std::int64_t all = 0;
  };
  bool write_down(const Touched& touched);
  bool read_all();

  ObjectStore& object_store_;
  const std::string dir_;
  std::unique_ptr<TouchJournal> journal_;
  std::mutex settling_;
  std::int64_t settled_ms_ = 0;  // guarded by settling_
  std::mutex mutex_;             // guards deaths_by_item_
  std::map<std::string, Deaths> deaths_by_item_;
};

/// The same through a pointer; with nullptr nothing is blamed.
TouchJournal::Touch touch(Blame* blame, const std::string& item);
bool is_poison(Blame* blame, const std::string& item);
/// Returns the answer for a quarantined item.
wire::Refusal poison_refusal(const std::string& what);

}  // namespace holdfast::gateway
