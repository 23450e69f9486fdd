#pragma once
// The tokens of a stream that have been delivered. Pure: no socket, no thread.

#include <cstdint>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::client {

/// The position in one stream; survives any number of attachments.
class Cursor {
 public:
  enum class Verdict : std::uint8_t {
    kDeliver,  // new tokens; those delivered before are cut off the event
    kRepeat,   // nothing new in it
    kGap,      // tokens are missing before it: attach again from next()
    kBroken,   // contradicts itself (negative index, `ends` that do not fit)
  };
  explicit Cursor(std::vector<std::int64_t> from) : next_(std::move(from)) {}

  /// Decides what to do with an event. For kDeliver its tokens now count as delivered; otherwise
  /// nothing changes.
  Verdict take(wire::Event& event);
  /// Returns true if all tokens that `info` counts have been delivered.
  bool is_complete(const wire::RequestInfo& info) const;
  /// Returns the next index of each choice; a choice without tokens so far is absent (0).
  const std::vector<std::int64_t>& next() const { return next_; }

 private:
  static constexpr std::int32_t kChoicesMax = 65'536;
  std::vector<std::int64_t> next_;
};

}  // namespace holdfast::client
