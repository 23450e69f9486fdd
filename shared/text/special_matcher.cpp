#include "shared/text/special_matcher.h"

#include <algorithm>

#include "shared/base/check.h"

namespace holdfast::text {

SpecialMatcher::SpecialMatcher(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  // Breadth first over ranges of the sorted texts, so the edges of a node are adjacent.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, entries.size(), 0}};
  nodes_.push_back({});
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    while (begin < end && entries[begin].text.size() == depth) {
      CHECK(depth > 0);
      if (nodes_[n].id < 0) nodes_[n].id = entries[begin].id;
      ++begin;
    }
    nodes_[n].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const auto byte = static_cast<unsigned char>(entries[begin].text[depth]);
      std::size_t last = begin;
      while (last < end && static_cast<unsigned char>(entries[last].text[depth]) == byte) ++last;
      edges_.push_back({byte, static_cast<std::uint32_t>(nodes_.size())});
      nodes_.push_back({});
      ranges.push_back({begin, last, depth + 1});
      begin = last;
    }
    nodes_[n].edges = static_cast<std::uint32_t>(edges_.size()) - nodes_[n].first_edge;
  }
  for (std::uint32_t e = 0; e < nodes_[0].edges; ++e) roots_[edges_[e].byte] = edges_[e].node;
}

std::uint32_t SpecialMatcher::next_node(const Node& here, unsigned char byte) const {
  const Edge* const first = edges_.data() + here.first_edge;
  const Edge* const last = first + here.edges;
  const Edge* const edge = std::lower_bound(
      first, last, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
  return edge == last || edge->byte != byte ? 0 : edge->node;
}

SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, std::size_t begin,
                                               bool* open) const {
  Match best{text.size(), text.size(), -1};
  if (open != nullptr) *open = false;
  if (begin >= text.size() || edges_.empty()) return best;
  std::uint32_t node = roots_[static_cast<unsigned char>(text[begin])];
  for (std::size_t at = begin + 1; node != 0; ++at) {
    const Node& here = nodes_[node];
    if (here.id >= 0) best = {begin, at, here.id};
    if (at == text.size()) {
      if (open != nullptr) *open = here.edges > 0;
      return best;
    }
    node = next_node(here, static_cast<unsigned char>(text[at]));
  }
  return best;
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, std::size_t from) const {
  if (edges_.empty()) return {text.size(), text.size(), -1};
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    const Match match = match_at(text, begin);
    if (match.id >= 0) return match;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace holdfast::text
