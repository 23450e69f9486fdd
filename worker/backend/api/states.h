#pragma once
// The bookkeeping of the states that layers carry (Segment::states); their memory is the backend's.

#include <cstdint>
#include <vector>

#include "shared/base/check.h"
#include "worker/backend/api/batch.h"

namespace holdfast::backend {

/// The position of each state, and which half of its convolution rows is the newer one: a forward
/// reads that half of `origin()` and writes the other half of `at`, because heads that share
/// keys read rows that others of them write. A snapshot uses the first half. Not thread-safe.
class StateTable {
 public:
  void resize(std::size_t states) { states_.resize(states); }
  bool empty() const { return states_.empty(); }
  /// Begins a new batch.
  void begin() { ++batch_; }

  struct Halves {
    bool reads_second = false;
    bool writes_second = false;
  };
  /// Returns the halves for a segment of the new batch and moves its state on; CHECKs that the
  /// state is at the segment's start.
  Halves plan(const Segment& segment) {
    const StateUse& use = segment.states;
    State& state = at(use.at);
    const State from = at(use.origin());
    CHECK(segment.start == 0 || from.position == segment.start);
    CHECK_MSG(state.written != batch_ && from.written != batch_, "two segments have one state");
    state = {segment.start + segment.n, !state.second, batch_};
    if (use.snapshot) {
      State& snapshot = at(use.snapshot->state);
      CHECK(use.snapshot->after > 0 && use.snapshot->after <= segment.n);
      CHECK(use.snapshot->state != use.origin());
      CHECK_MSG(snapshot.written != batch_, "two segments have one state");
      snapshot = {segment.start + use.snapshot->after, false, batch_};
    }
    return {from.second, state.second};
  }

 private:
  struct State {
    std::int64_t position = 0;  // after its last token
    bool second = false;
    std::uint64_t written = 0;  // number of the batch that wrote it last
  };
  State& at(std::int32_t state) {
    CHECK(state >= 0 && static_cast<std::size_t>(state) < states_.size());
    return states_[static_cast<std::size_t>(state)];
  }
  std::vector<State> states_;
  std::uint64_t batch_ = 0;
};

}  // namespace holdfast::backend
