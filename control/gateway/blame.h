#pragma once
// Items of durable work that end the gateways that work on them. A gateway takes up by itself what
// a dead one left; without blame one bad item would end one gateway after the other. Deaths are
// counted in the daemon's database, by whoever finds what a dead gateway had in its hands, before
// that is taken up again.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "control/gateway/keeper.h"
#include "control/gateway/touch_journal.h"

namespace holdfast::gateway {

inline constexpr const char* kBlameKind = "blame";

/// Thread-safe.
class Blame {
 public:
  /// A crash on the thread that works on an item is that item's fault; an end without a word (a
  /// kill, the machine's memory) may be anybody's.
  static constexpr std::int64_t kCrashesMax = 2;
  static constexpr std::int64_t kDeathsMax = 5;

  /// `dir` is of this state directory's gateways. Without it (not writable) nothing is blamed.
  Blame(Keeper& keeper, std::string dir);

  /// Writes down what dead gateways left. Blocks, at most once a second; never on the SDK's thread.
  /// False: that is not possible now, so nothing may be taken up.
  bool settle();
  /// The item is not worked on again.
  bool is_poison(const std::string& item);
  TouchJournal::Touch touch(const std::string& item);

 private:
  struct Deaths {
    std::int64_t crashes = 0;  // on its thread
    std::int64_t all = 0;
  };
  bool write_down(const Touched& touched);
  bool read_all();

  Keeper& keeper_;
  const std::string dir_;
  std::unique_ptr<TouchJournal> journal_;
  std::mutex settling_;
  std::int64_t settled_ms_ = 0;  // guarded by settling_
  std::mutex mutex_;             // guards known_
  std::map<std::string, Deaths> known_;
};

/// Nothing where nothing is blamed.
TouchJournal::Touch touch(Blame* blame, const std::string& item);
bool is_poison(Blame* blame, const std::string& item);
/// The answer for such an item.
wire::Refusal poison_refusal(const std::string& what);

}  // namespace holdfast::gateway
