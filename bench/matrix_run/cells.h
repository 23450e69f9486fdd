#pragma once
// The cells of the standard matrix: which there are, in what order, and what each will take.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::bench {

/// A model of random weights: how the matrix calls its shape, and `holdfast synth`.
struct Shape {
  std::string name, synth;
  double parameters = 0;
};

struct Cell {
  Shape shape;
  std::string type;      // "Q4_K_M"
  std::int64_t context;  // tokens that a stream has when its decoding ends
  std::int32_t streams;
  std::string model() const { return shape.name + "/" + type; }
  std::string name() const;  // "0.5B/Q4_K_M/2048/16"
  /// Prefill does not depend on how many decode, so it is timed for one stream alone: three
  /// samples, or one of a prompt that takes seconds at least.
  bool times_prefill() const { return streams == 1; }
  int prefill_samples() const { return context > 2048 ? 1 : 3; }
  /// Prompt tokens that are computed for it. Decoding needs none: contexts are assumed.
  double prompt_tokens() const;
  double file_bytes() const;  // about
};

struct Axes {
  std::vector<Shape> shapes;
  std::vector<std::string> types;
  std::vector<std::int64_t> contexts;
  std::vector<std::int32_t> streams;
};
Axes standard_axes();
Axes quick_axes();  // a model and contexts of seconds

/// Model after model, in each the short contexts first. `only`: patterns as of file names
/// ("0.5B/*/512/*") separated by commas; empty: all.
std::vector<Cell> cells_of(const Axes& axes, const std::string& only);

/// What cells will take, judged from those that were measured.
class Pace {
 public:
  void learn(const Cell& cell, double prefill_tok_s, double decode_tok_s);
  /// Seconds of a cell's prefill, of its decoding; nullopt while nothing like it is known.
  std::optional<double> prefill_seconds(const Cell& cell) const;
  std::optional<double> decode_seconds(const Cell& cell) const;

 private:
  struct Known {
    Cell cell;
    double rate;  // tokens a second
  };
  static const Known* nearest(const std::vector<Known>& known, const Cell& cell);
  std::vector<Known> prefill_, decode_;
};

inline constexpr int kDecodeSteps = 16;   // of a sample
inline constexpr int kDecodeSamples = 3;  // of a cell

}  // namespace holdfast::bench
