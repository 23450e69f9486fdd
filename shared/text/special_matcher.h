#pragma once
// Finds special tokens in text: at each position the longest one, positions from left to right.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace holdfast::text {

/// A byte trie of special texts. Immutable once made, so safe from any thread. A search costs at
/// most the text's length times the longest special text, which loading bounds (kLongestSpecial).
class SpecialMatcher {
 public:
  struct Entry {
    std::string_view text;  // not empty
    std::int32_t id;
  };
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;  // -1: none; begin = end = text size
  };
  static constexpr std::size_t kLongestSpecial = 1024;

  SpecialMatcher() = default;
  /// Builds the trie; of entries with the same text the first wins. Texts are copied into the trie.
  explicit SpecialMatcher(std::vector<Entry> entries);
  /// Returns the leftmost longest match at or after `from`.
  Match find(std::string_view text, std::size_t from) const;
  /// Returns the longest match that begins at `at`. `open`: the text ends inside of a special text
  /// that begins there.
  Match match_at(std::string_view text, std::size_t at, bool* open = nullptr) const;

 private:
  struct Node {
    std::uint32_t first_edge = 0;
    std::uint32_t edges = 0;
    std::int32_t id = -1;
  };
  struct Edge {
    unsigned char byte;
    std::uint32_t node;
  };
  /// Returns the node behind the edge of `byte`; 0 if there is none.
  std::uint32_t next_node(const Node& here, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<std::uint32_t, 256> roots_{};  // node after the first byte, 0: no token starts so
};

}  // namespace holdfast::text
