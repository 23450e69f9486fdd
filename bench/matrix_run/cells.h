#pragma once
// The cells of the standard matrix: their list, their order, and the time that each will take.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::bench {

/// A model of random weights: its shape's name in the matrix, and in `holdfast synth`.
struct Shape {
  std::string name, synth;
  double parameters = 0;
};

struct Cell {
  Shape shape;
  std::string type;      // "Q4_K_M"
  std::int64_t context;  // tokens of a stream at the end of its decoding
  std::int32_t streams;
  std::string model() const { return shape.name + "/" + type; }
  std::string name() const;  // "0.5B/Q4_K_M/2048/16"
  /// Prefill does not depend on how many streams decode, so it is timed for one stream alone: three
  /// samples, or one of a prompt that takes seconds at least.
  bool times_prefill() const { return streams == 1; }
  int prefill_samples() const { return context > 2048 ? 1 : 3; }
  /// Prompt tokens that are computed for it. Decoding needs none: contexts are assumed.
  double prompt_tokens() const;
  double file_bytes() const;  // approximate
};

struct Axes {
  std::vector<Shape> shapes;
  std::vector<std::string> types;
  std::vector<std::int64_t> contexts;
  std::vector<std::int32_t> streams;
};
Axes standard_axes();
Axes quick_axes();  // one model, with contexts that take seconds

/// The cells, model after model, in each the short contexts first. `only`: patterns as of file
/// names ("0.5B/*/512/*") separated by commas; empty: all.
std::vector<Cell> cells_of(const Axes& axes, const std::string& only);

/// Estimates the time of cells from those that were measured.
class CellTimeModel {
 public:
  void learn(const Cell& cell, double prefill_tok_s, double decode_tok_s);
  /// Seconds of a cell's prefill, and of its decoding; nullopt before anything like it was
  /// measured.
  std::optional<double> prefill_seconds(const Cell& cell) const;
  std::optional<double> decode_seconds(const Cell& cell) const;

 private:
  struct Measurement {
    Cell cell;
    double rate;  // tokens a second
  };
  static const Measurement* nearest(const std::vector<Measurement>& measured, const Cell& cell);
  std::vector<Measurement> prefill_, decode_;
};

inline constexpr int kDecodeSteps = 16;   // in a sample
inline constexpr int kDecodeSamples = 3;  // of a cell

}  // namespace holdfast::bench
