#pragma once
// Finds scales and codes of a few weights with the least squared error: the inner part of
// quantize_row. Internal to shared/gguf. Four fixed lanes of sums, so the result depends on no
// instruction set.

#include <cstdint>

namespace holdfast::gguf {

inline constexpr int kMostInGroup = 32;

/// w[n] = the weight of each squared error: one share that is equal for all and one by magnitude,
/// since large weights change a model's answers more. On the demo model this lowers the perplexity
/// where equal shares raise it, and the plain error hardly changes.
void importance(const float* x, int n, float* w);

/// The values that codes stand for: integers lo..hi, or those of a table (ascending, hi + 1 of
/// them).
struct CodeRange {
  int lo;
  int hi;
  const std::int8_t* table = nullptr;
};

/// q[n] = the codes nearest to x[i] / scale (0 for a scale of 0). With a table q are indices. Here
/// and below n is a multiple of 4, at most kMostInGroup, and a given scale is 0 or at least the
/// least half, so that its inverse is finite.
void assign_codes(const CodeRange& range, const float* x, int n, float scale, std::int8_t* q);
/// Returns the squared error of these codes.
float code_error(const CodeRange& range, const float* x, const float* w, int n, float scale);

/// Returns the scale of either sign with the least squared error of x ~ scale * code that the
/// search finds.
float fit_scale(const CodeRange& range, const float* x, const float* w, int n);

/// x ~ scale * q - minimum with codes 0..hi.
struct Line {
  float scale = 0;
  float minimum = 0;
};
/// q[n] = the codes nearest to (x + minimum) / scale.
void assign_line_codes(int hi, const float* x, int n, Line line, std::int8_t* q);
/// Returns the squared error of these codes.
float line_error(int hi, const float* x, const float* w, int n, Line line);

/// Returns the best line that the search finds, hi > 1; `positive`: its minimum must not be below
/// 0.
Line fit_line(int hi, const float* x, const float* w, int n, bool positive);

}  // namespace holdfast::gguf
