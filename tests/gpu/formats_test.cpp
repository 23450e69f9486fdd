// Goal: products and look-ups are right for every weight type, whatever its blocks hold.
// Method: a program without layers whose embedding is its output, over blocks of random bytes: the
// logits behind a token are that row times all rows, here in float64 over the reference's weights.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/house.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast {
namespace {

constexpr std::int64_t kRows = 37, kCols = 512;  // the last panel has 5 rows

struct OneMatrix {
  cpu::TestMatrix matrix;
  gguf::TensorInfo tensor;
  FamilyModel model;
};

std::unique_ptr<OneMatrix> one_matrix(gguf::TensorType type) {
  auto one = std::make_unique<OneMatrix>();
  one->matrix = cpu::random_matrix(type, kRows, kCols, kRows, 3);
  one->tensor.name = "token_embd.weight";
  one->tensor.type = type;
  one->tensor.data = std::as_bytes(std::span(one->matrix.file));
  plan::ModelShape& shape = one->model.program.shape;
  shape.layers = shape.heads = shape.kv_heads = 1;
  shape.head_dim = 16;
  shape.width = kCols;
  shape.vocab = kRows;
  model::Op embed, logits;
  embed.w[0] = {&one->tensor, kRows, kCols, 0, 1};
  logits.kind = model::OpKind::kNormLogits;
  logits.w[1] = embed.w[0];
  one->model.program.ops = {embed, logits};
  for (std::int32_t i = 0; i < kRows; ++i) one->model.tokens.push_back(i);
  return one;
}

TEST(GpuFormats, ProductsOfRandomBlocksAreRight) {
  HF_NEEDS_DEVICE();
  for (const gguf::TensorType type : cpu::kernel_types()) {
    const auto one = one_matrix(type);
    const std::vector<float> have = run_family(one->model, gpu::on_device());
    ASSERT_EQ(have.size(), static_cast<std::size_t>(kRows * kRows));
    for (std::int64_t a = 0; a < kRows; ++a) {
      for (std::int64_t b = 0; b < kRows; ++b) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < kCols; ++k) {
          const double term = static_cast<double>(one->matrix.floats[a * kCols + k]) *
                              static_cast<double>(one->matrix.floats[b * kCols + k]);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(have[static_cast<std::size_t>(a * kRows + b)], sum, 2e-6 * size + 1e-30)
            << gguf::type_traits(type)->name << " " << a << " " << b;
      }
    }
    RunOptions single = gpu::on_device();
    single.chunk = 1;
    EXPECT_EQ(run_family(one->model, single), have) << gguf::type_traits(type)->name;
  }
}

}  // namespace
}  // namespace holdfast
