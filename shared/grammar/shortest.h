#pragma once
// The fewest bytes that still complete a text.

#include <cstdint>
#include <vector>

#include "shared/grammar/automata.h"
#include "shared/grammar/pushdown.h"

namespace holdfast::grammar {

/// The distances of a grammar, computed once in time about linear in its transitions. Then safe
/// from any thread.
class Shortest {
 public:
  explicit Shortest(const Grammar& grammar);
  /// Returns the bytes from closed configurations, where the text may not end yet. Cost: the open
  /// frames.
  std::uint32_t of(const Pushdown& machine, const Configurations& configurations) const;

 private:
  std::vector<std::uint32_t> to_end_;  // by state: bytes to the end of its rule
};

}  // namespace holdfast::grammar
