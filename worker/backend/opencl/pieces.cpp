#include "worker/backend/opencl/pieces.h"

#include <algorithm>

namespace holdfast::opencl {

Pieces::Pieces(const backend::Limits& limits, std::size_t most) : most_(most) {
  CHECK(most > 0);
  pieces_.reserve(most);
  spare_.resize(most);
  for (BatchPiece& piece : spare_) {
    piece.segments.reserve(static_cast<std::size_t>(limits.batch_segments));
  }
}

/// Tokens [first, first + n) of a segment behind what the last piece has.
void Pieces::add(const backend::Segment& segment, std::int32_t first, std::int32_t n) {
  backend::Segment part = segment;
  part.tokens += first;
  part.n = n;
  part.start += first;
  part.n_logits = std::max(0, first + n - std::max(first, segment.n - segment.n_logits));
  pieces_.back().segments.push_back(part);
  pieces_.back().rows += n;
}

const std::vector<BatchPiece>& Pieces::cut(const std::vector<backend::Segment>& segments,
                                           std::int32_t rows) {
  while (!pieces_.empty()) {
    spare_.push_back(std::move(pieces_.back()));
    pieces_.pop_back();
  }
  std::int32_t left = 0;
  bool whole = false;
  for (const backend::Segment& s : segments) {
    left += s.n;
    whole |= s.hidden || s.more;
  }
  std::int32_t pieces = whole ? 1 : std::clamp(left / rows, 1, static_cast<std::int32_t>(most_));
  std::int32_t room = 0, logits = 0;
  for (const backend::Segment& s : segments) {
    for (std::int32_t first = 0; first < s.n;) {
      if (room == 0) {
        pieces_.push_back(std::move(spare_.back()));
        spare_.pop_back();
        pieces_.back().segments.clear();
        pieces_.back().rows = 0;
        pieces_.back().first_logit = logits;
        room = (left + pieces - 1) / pieces;
        --pieces;
      }
      const std::int32_t n = std::min(room, s.n - first);
      add(s, first, n);
      logits += pieces_.back().segments.back().n_logits;
      first += n;
      room -= n;
      left -= n;
    }
  }
  return pieces_;
}

}  // namespace holdfast::opencl
