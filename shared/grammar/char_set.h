#pragma once
// Sets of Unicode scalar values as sorted ranges, and their UTF-8 form as byte ranges.

#include <cstdint>
#include <vector>

namespace holdfast::grammar {

/// Unicode scalar values from `lo` to `hi`.
struct CodeRange {
  char32_t lo;
  char32_t hi;  // inclusive
};
/// Sorted, disjoint ranges, without surrogates when one of these functions returns them.
using CharSet = std::vector<CodeRange>;

constexpr char32_t kCodeMax = 0x10FFFF;

/// Sorts, joins neighbours and removes surrogates.
CharSet normalised(CharSet set);
/// Returns all scalar values that the set lacks; it need not be normalised.
CharSet negated(const CharSet& set);
/// Returns the values that both sets have; both are normalised.
CharSet intersected(const CharSet& a, const CharSet& b);
/// True if one of the ranges has the value; they need not be normalised.
bool contains(const CharSet& set, char32_t point);

/// Bytes from `lo` to `hi`, both included.
struct ByteRange {
  std::uint8_t lo;
  std::uint8_t hi;
};
/// One to four byte ranges: every combination is the UTF-8 form of one value.
using Utf8Sequence = std::vector<ByteRange>;
/// Returns the sequences of a normalised set; together they have exactly its values.
std::vector<Utf8Sequence> utf8_sequences(const CharSet& set);

}  // namespace holdfast::grammar
