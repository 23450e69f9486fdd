#include "shared/grammar/char_set.h"

#include <algorithm>

namespace holdfast::grammar {
namespace {

constexpr char32_t kBelowSurrogates = 0xD7FF;
constexpr char32_t kAboveSurrogates = 0xE000;

void append_range(CharSet& out, char32_t lo, char32_t hi) {
  if (lo > hi) return;
  if (!out.empty() && lo <= out.back().hi + 1) {
    out.back().hi = std::max(out.back().hi, hi);
  } else {
    out.push_back({lo, hi});
  }
}

int encode(char32_t point, std::uint8_t* out) {
  if (point < 0x80) {
    out[0] = static_cast<std::uint8_t>(point);
    return 1;
  }
  const int n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; --i) {
    out[i] = static_cast<std::uint8_t>(0x80 | (point & 0x3F));
    point >>= 6;
  }
  const std::uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = static_cast<std::uint8_t>(marks[n] | point);
  return n;
}

/// Cuts [lo, hi] of one encoded length where a continuation byte would not run through its whole
/// range, until every part is a product of byte ranges.
void split(char32_t lo, char32_t hi, std::vector<Utf8Sequence>& out) {
  for (int bits = 6; bits <= 18 && lo >= 0x80; bits += 6) {
    const char32_t low_bits = (char32_t{1} << bits) - 1;
    if ((lo & ~low_bits) == (hi & ~low_bits)) break;
    if ((lo & low_bits) != 0) {
      split(lo, lo | low_bits, out);
      split((lo | low_bits) + 1, hi, out);
      return;
    }
    if ((hi & low_bits) != low_bits) {
      split(lo, (hi & ~low_bits) - 1, out);
      split(hi & ~low_bits, hi, out);
      return;
    }
  }
  std::uint8_t first[4];
  std::uint8_t last[4];
  const int n = encode(lo, first);
  encode(hi, last);
  Utf8Sequence sequence;
  for (int i = 0; i < n; ++i) sequence.push_back({first[i], last[i]});
  out.push_back(std::move(sequence));
}

}  // namespace

CharSet normalised(CharSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.lo < b.lo; });
  CharSet out;
  for (const CodeRange& range : set) {
    const char32_t hi = std::min(range.hi, kCodeMax);
    append_range(out, range.lo, std::min(hi, kBelowSurrogates));
    append_range(out, std::max(range.lo, kAboveSurrogates), hi);
  }
  return out;
}

CharSet negated(const CharSet& set) {
  CharSet out;
  char32_t at = 0;
  for (const CodeRange& range : normalised(set)) {
    if (range.lo > at) out.push_back({at, range.lo - 1});
    at = range.hi + 1;
  }
  if (at <= kCodeMax) out.push_back({at, kCodeMax});
  return normalised(std::move(out));
}

CharSet intersected(const CharSet& a, const CharSet& b) {
  CharSet out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    append_range(out, std::max(a[i].lo, b[j].lo), std::min(a[i].hi, b[j].hi));
    if (a[i].hi < b[j].hi) {
      ++i;
    } else {
      ++j;
    }
  }
  return out;
}

bool contains(const CharSet& set, char32_t point) {
  return std::any_of(set.begin(), set.end(), [point](const CodeRange& range) {
    return range.lo <= point && point <= range.hi;
  });
}

std::vector<Utf8Sequence> utf8_sequences(const CharSet& set) {
  constexpr char32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, kCodeMax};
  std::vector<Utf8Sequence> out;
  for (const CodeRange& range : set) {
    char32_t lo = range.lo;
    for (const char32_t last : kLast) {
      if (lo > last || lo > range.hi) continue;
      split(lo, std::min(range.hi, last), out);
      lo = last + 1;
    }
  }
  return out;
}

}  // namespace holdfast::grammar
