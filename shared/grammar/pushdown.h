#pragma once
// Runs a grammar over bytes: a set of configurations, each a state and the frame that its rule
// returns to. Frames that are opened at the same byte for the same rule are shared, so ambiguity
// costs polynomial time. The frames that a byte opens can be rewound (for walks over a trie).
// polynomial time. Everything that a byte opens can be taken back (walks over a trie).

#include <cstdint>
#include <vector>

#include "shared/grammar/automata.h"

namespace holdfast::grammar {

using FrameId = std::uint32_t;

/// A state and the frame that its rule returns to.
struct Configuration {
  StateId state;
  FrameId frame;
};
using Configurations = std::vector<Configuration>;

/// The frames of a run. Not thread-safe.
class Pushdown {
 public:
  /// With more configurations than this at one byte the text is refused (`overflowed`), never
  /// accepted.
  static constexpr std::size_t kConfigurationsMax = 1'024;
  /// The end of the bottom frame's rule is the end of the text, or the exit of a walk.
  static constexpr FrameId kBottom = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  struct Link {  // where a frame returns to
    StateId state;
    FrameId frame;
    std::uint32_t next;  // kNone ends
  };
  struct Mark {
    std::size_t frames;
    std::size_t links;
  };

  explicit Pushdown(const Grammar& grammar);

  /// Adds to `configurations` all that are reached without a byte at position `at` (bytes read so
  /// far), then removes those that cannot read one. Sets ended().
  void close(Configurations& configurations, std::uint32_t at);
  /// `out` = the closed configurations after reading `byte` at position `at` in closed ones. False
  /// if nothing fits, or there are too many.
  bool step(const Configurations& configurations, std::uint8_t byte, std::uint32_t at,
            Configurations& out);
  /// Returns true if the last close() or step() reached the end of the bottom frame.
  bool ended() const { return ended_; }
  /// Returns true if it reached more than kConfigurationsMax configurations.
  bool overflowed() const { return overflowed_; }

  Mark mark() const { return {frames_.size(), links_.size()}; }
  /// Forgets frames opened since. No configuration may refer to them.
  void rewind(const Mark& mark);
  std::uint32_t first_link(FrameId frame) const { return frames_[frame].first_link; }
  const Link& link(std::uint32_t at) const { return links_[at]; }
  std::size_t bytes_held() const;

 private:
  struct Frame {
    std::uint32_t opened_at;
    RuleId rule;
    std::uint32_t first_link;
  };
  void expand(Configurations& configurations, std::uint32_t at);
  void add(Configurations& configurations, StateId state, FrameId frame);
  void add_link(FrameId frame, StateId state, FrameId to);
  FrameId frame_of(RuleId rule, std::uint32_t at, bool& is_new);
  void call(Configurations& configurations, const Configuration& from, const Grammar::Call& call,
            std::uint32_t at);

  const Grammar* grammar_;
  std::vector<Frame> frames_;
  std::vector<Link> links_;
  std::size_t fresh_ = 0;  // frames_ from here on are opened in this close()
  bool ended_ = false;
  bool overflowed_ = false;
};

}  // namespace holdfast::grammar
