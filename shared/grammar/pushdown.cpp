#include "shared/grammar/pushdown.h"

#include <algorithm>

namespace holdfast::grammar {

Pushdown::Pushdown(const Grammar& grammar) : grammar_(&grammar) {
  frames_.push_back({0, grammar.root, kNone});
}

void Pushdown::rewind(const Mark& mark) {
  frames_.resize(mark.frames);
  links_.resize(mark.links);
}

std::size_t Pushdown::bytes_held() const {
  return frames_.capacity() * sizeof(Frame) + links_.capacity() * sizeof(Link);
}

void Pushdown::add(Configurations& configurations, StateId state, FrameId frame) {
  for (const Configuration& configuration : configurations) {
    if (configuration.state == state && configuration.frame == frame) return;
  }
  if (configurations.size() >= kConfigurationsMax) {
    overflowed_ = true;
    return;
  }
  configurations.push_back({state, frame});
}

void Pushdown::add_link(FrameId frame, StateId state, FrameId to) {
  for (std::uint32_t at = frames_[frame].first_link; at != kNone; at = links_[at].next) {
    if (links_[at].state == state && links_[at].frame == to) return;
  }
  links_.push_back({state, to, frames_[frame].first_link});
  frames_[frame].first_link = static_cast<std::uint32_t>(links_.size() - 1);
}

/// Returns the frame of a rule that this byte opened, or opens one.
inline FrameId Pushdown::frame_of(RuleId rule, std::uint32_t at, bool& is_new) {
  std::size_t frame = fresh_;
  while (frame < frames_.size() && frames_[frame].rule != rule) ++frame;
  is_new = frame == frames_.size();
  if (is_new) frames_.push_back({at, rule, kNone});
  return static_cast<FrameId>(frame);
}

void Pushdown::call(Configurations& configurations, const Configuration& from,
                    const Grammar::Call& call, std::uint32_t at) {
  if (grammar_->rules[call.rule].nullable) add(configurations, call.to, from.frame);
  bool is_new = false;
  const FrameId id = frame_of(call.rule, at, is_new);
  // A tail call returns to where its caller returns, so that right recursion does not pile up
  // frames. Frames of this byte may still grow, and the bottom has no links.
  const bool is_last = from.frame != kBottom && from.frame < fresh_ && grammar_->is_final(call.to);
  if (is_last) {
    for (std::uint32_t i = frames_[from.frame].first_link; i != kNone; i = links_[i].next) {
      add_link(id, links_[i].state, links_[i].frame);
    }
  } else {
    add_link(id, call.to, from.frame);
  }
  if (is_new) add(configurations, grammar_->rules[call.rule].start, id);
}

void Pushdown::close(Configurations& configurations, std::uint32_t at) {
  overflowed_ = false;
  expand(configurations, at);
}

void Pushdown::expand(Configurations& configurations, std::uint32_t at) {
  ended_ = false;
  fresh_ = frames_.size();
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    const Configuration configuration = configurations[i];
    const Grammar::State& state = grammar_->states[configuration.state];
    if (state.accepting) {
      if (configuration.frame == kBottom) {
        ended_ = true;
      } else if (frames_[configuration.frame].opened_at < at) {
        // The caller of a rule that derives nothing has skipped it already.
        for (std::uint32_t l = frames_[configuration.frame].first_link; l != kNone;
             l = links_[l].next) {
          add(configurations, links_[l].state, links_[l].frame);
        }
      }
    }
    for (std::uint32_t c = state.call_begin; c < state.call_end; ++c) {
      call(configurations, configuration, grammar_->calls[c], at);
    }
  }
  std::erase_if(configurations,
                [this](const Configuration& p) { return !grammar_->states[p.state].has_bytes; });
}

bool Pushdown::step(const Configurations& configurations, std::uint8_t byte, std::uint32_t at,
                    Configurations& out) {
  out.clear();
  overflowed_ = false;
  for (const Configuration& configuration : configurations) {
    const StateId to = grammar_->step(configuration.state, byte);
    if (to != kDead) add(out, to, configuration.frame);
  }
  if (out.empty()) {
    ended_ = false;
    return false;
  }
  expand(out, at + 1);
  return !overflowed_;
}

}  // namespace holdfast::grammar
