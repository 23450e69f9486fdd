#pragma once
// A program without layers whose embedding is its output: the logits after a token are that row of
// a matrix times all rows.

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/gpu/test_device.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast::gpu {

inline constexpr std::int64_t kRows = 37, kCols = 512;  // the last panel has 5 rows

/// The model, its matrix, and the expected products.
struct OneMatrix {
  cpu::TestMatrix matrix;
  gguf::TensorInfo tensor;
  FamilyModel model;

  /// Row a times row b in float64, and the sum of its terms' magnitudes.
  std::pair<double, double> product(std::int64_t a, std::int64_t b) const {
    double sum = 0, size = 0;
    const std::int64_t cols = matrix.cols;
    for (std::int64_t k = 0; k < cols; ++k) {
      const double term = static_cast<double>(matrix.floats[a * cols + k]) *
                          static_cast<double>(matrix.floats[b * cols + k]);
      sum += term;
      size += std::abs(term);
    }
    return {sum, size};
  }
};

/// A matrix of random blocks.
inline std::unique_ptr<OneMatrix> one_matrix(gguf::TensorType type, std::int64_t cols = kCols) {
  auto one = std::make_unique<OneMatrix>();
  one->matrix = cpu::random_matrix(type, kRows, cols, kRows, 3);
  one->tensor.name = "token_embd.weight";
  one->tensor.type = type;
  one->tensor.data = std::as_bytes(std::span(one->matrix.file));
  plan::ModelShape& shape = one->model.program.shape;
  shape.layers = shape.heads = shape.kv_heads = 1;
  shape.head_dim = 16;
  shape.width = cols;
  shape.vocab = kRows;
  model::Op embed, logits;
  embed.w[0] = {&one->tensor, kRows, cols, 0, 1};
  logits.kind = model::OpKind::kNormLogits;
  logits.w[1] = embed.w[0];
  one->model.program.ops = {embed, logits};
  for (std::int32_t i = 0; i < kRows; ++i) one->model.tokens.push_back(i);
  return one;
}

/// A float32 matrix with one weight of row 5 replaced.
inline std::unique_ptr<OneMatrix> with_weight(float weight) {
  auto one = one_matrix(gguf::TensorType::kF32);
  std::memcpy(one->matrix.file.data() + 5 * one->matrix.row_bytes, &weight, sizeof weight);
  return one;
}

}  // namespace holdfast::gpu
