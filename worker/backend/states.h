#pragma once
// What a backend knows of the states that layers carry (Segment::state), beside their memory.

#include <cstdint>
#include <vector>

#include "worker/backend/backend.h"

namespace holdfast::backend {

/// Where the states are, and which half of a state's rows of the convolution is the newer one: a
/// forward reads that of `begins_at()` and writes the other one of `state`, as heads that share
/// keys read what others of them write. What is kept is in the first half. Not thread-safe.
class StateBook {
 public:
  void resize(std::size_t states) { states_.resize(states); }
  bool empty() const { return states_.empty(); }
  /// A batch comes.
  void begin() { ++batch_; }

  struct Halves {
    bool reads_second = false;
    bool writes_second = false;
  };
  /// Of a segment of the batch that comes; CHECKs that its state is where the segment begins.
  Halves plan(const Segment& segment) {
    State& state = at(segment.state);
    const State from = at(segment.begins_at());
    CHECK(segment.start == 0 || from.position == segment.start);
    CHECK_MSG(state.written != batch_ && from.written != batch_, "two segments have one state");
    state = {segment.start + segment.n, !state.second, batch_};
    if (segment.keep > 0) {
      State& kept = at(segment.keep_as);
      CHECK(segment.keep <= segment.n && segment.keep_as != segment.begins_at());
      CHECK_MSG(kept.written != batch_, "two segments have one state");
      kept = {segment.start + segment.keep, false, batch_};
    }
    return {from.second, state.second};
  }

 private:
  struct State {
    std::int64_t position = 0;  // behind its last token
    bool second = false;
    std::uint64_t written = 0;  // by which batch, last
  };
  State& at(std::int32_t state) {
    CHECK(state >= 0 && static_cast<std::size_t>(state) < states_.size());
    return states_[static_cast<std::size_t>(state)];
  }
  std::vector<State> states_;
  std::uint64_t batch_ = 0;
};

}  // namespace holdfast::backend
