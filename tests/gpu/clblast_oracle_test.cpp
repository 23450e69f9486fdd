// Goal: our product kernels compute what an independent library computes of the same weights, for
// every weight format and for each number of rows that another kernel multiplies.
// Method: a program without layers, whose embedding holds random float32 rows and whose output is a
// matrix of random blocks: the logits of n tokens are the product of n rows. CLBlast multiplies the
// same rows with the weights that gguf::dequantize_row gives.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/gpu/dense_device.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast::clblast_oracle_test {
namespace {

using backend::Wants;
using gpu::DenseDevice;

constexpr std::int64_t kVocab = 77;  // the last panel has 13 rows
constexpr std::int64_t kColumns = 512;
constexpr std::int64_t kRowCounts[] = {1, 4, 16, 64};
constexpr std::int64_t kRowsMost = 64;

/// A program that multiplies rows of floats with a matrix of a type.
struct OneProduct {
  explicit OneProduct(gguf::TensorType type)
      : weights(cpu::random_matrix(type, kVocab, kColumns, kVocab, 3)),
        rows(cpu::random_rows(kVocab, kColumns, kColumns, 4)) {
    tensors[0].name = "token_embd.weight";
    tensors[0].type = gguf::TensorType::kF32;
    tensors[0].data = std::as_bytes(std::span(rows));
    tensors[1].name = "output.weight";
    tensors[1].type = type;
    tensors[1].data = std::as_bytes(std::span(weights.file));
    plan::ModelShape& shape = model.program.shape;
    shape.layers = shape.heads = shape.kv_heads = 1;
    shape.head_dim = 16;
    shape.width = kColumns;
    shape.vocab = kVocab;
    model::Op embed, logits;
    embed.w[0] = {&tensors[0], kVocab, kColumns, 0, 1};
    logits.kind = model::OpKind::kNormLogits;
    logits.w[1] = {&tensors[1], kVocab, kColumns, 0, 1};
    model.program.ops = {embed, logits};
    for (std::int32_t i = 0; i < kRowsMost; ++i) model.tokens.push_back(kVocab - 1 - i);
  }
  OneProduct(const OneProduct&) = delete;
  OneProduct& operator=(const OneProduct&) = delete;

  /// The rows of the first n tokens, one after the other.
  std::vector<float> first_rows(std::int64_t n) const {
    std::vector<float> out;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = rows.begin() + model.tokens[static_cast<std::size_t>(i)] * kColumns;
      out.insert(out.end(), at, at + kColumns);
    }
    return out;
  }

  cpu::TestMatrix weights;
  std::vector<float> rows;  // [kVocab][kColumns]
  gguf::TensorInfo tensors[2];
  FamilyModel model;
};

/// [n][kVocab] by our kernels.
std::vector<float> by_kernels(backend::Executor& executor, const OneProduct& one, std::int64_t n) {
  const std::int32_t pages[] = {0, 1};
  backend::Segment segment{one.model.tokens.data(), static_cast<std::int32_t>(n), 0, pages};
  segment.wants = Wants::logits(segment.n);
  const auto result = executor.forward({{segment}});
  EXPECT_TRUE(result.has_value()) << result.error().what;
  std::vector<float> out;
  for (std::int32_t i = 0; result.has_value() && i < segment.n; ++i) {
    const float* row = result->logits(i).at;
    out.insert(out.end(), row, row + kVocab);
  }
  return out;
}

/// [n][kVocab] by CLBlast, of the dequantised weights.
std::vector<float> by_clblast(DenseDevice& d, const OneProduct& one, std::int64_t n) {
  const opencl::Buffer a = d.buffer_of(one.first_rows(n)), b = d.buffer_of(one.weights.floats);
  const opencl::Buffer c = d.buffer_of(std::vector<float>(static_cast<std::size_t>(n * kVocab)));
  const auto done =
      d.products.multiply({&a, n, kColumns, kColumns}, {&b, kVocab, kColumns, kColumns, 0, true},
                          {&c, n, kVocab, kVocab});
  EXPECT_TRUE(done.has_value()) << done.error().what;
  return d.floats_of(c, static_cast<std::size_t>(n * kVocab));
}

/// The most by which a row's product with a row of weights may differ. Int8 rows also have codes of
/// 15 bits: half a code, of which the largest of a panel of 16 values has 2^14, each.
double allowed(const float* x, const float* w, bool int8_rows) {
  double size = 0, codes = 0;
  for (std::int64_t panel = 0; panel < kColumns; panel += 16) {
    double largest = 0, weight = 0;
    for (std::int64_t k = panel; k < panel + 16; ++k) {
      size += std::abs(static_cast<double>(x[k]) * static_cast<double>(w[k]));
      largest = std::max(largest, std::abs(static_cast<double>(x[k])));
      weight += std::abs(static_cast<double>(w[k]));
    }
    codes += largest * weight;
  }
  // The bound of one sum holds for the difference of two, whose errors do not know each other.
  return gpu::tolerance(kColumns, size) + (int8_rows ? 0x1p-14 * codes : 0);
}

/// Compares all numbers of rows; returns the largest error relative to what is allowed.
double compare(DenseDevice& d, gguf::TensorType type, const std::string& tier) {
  const OneProduct one(type);
  RunOptions options = gpu::on_device_uncached();
  options.kernels = tier;
  const auto executor =
      backend::load(options.device, one.model.program, load_options(one.model, options));
  EXPECT_TRUE(executor.has_value()) << executor.error().what;
  if (!executor.has_value()) return 1e9;
  double largest = 0;
  for (const std::int64_t n : kRowCounts) {
    const std::vector<float> have = by_kernels(**executor, one, n), rows = one.first_rows(n);
    const std::vector<float> expected = by_clblast(d, one, n);
    EXPECT_EQ(have.size(), expected.size());
    for (std::size_t i = 0; i < std::min(have.size(), expected.size()); ++i) {
      const std::size_t row = i / kVocab, column = i % kVocab;
      const double error =
          std::abs(static_cast<double>(have[i]) - static_cast<double>(expected[i])) /
          allowed(&rows[row * kColumns], &one.weights.floats[column * kColumns], tier == "t2");
      if (!(error <= 1)) {
        ADD_FAILURE() << gguf::type_traits(type)->name << " " << tier << ", " << n << " rows: row "
                      << row << ", column " << column << ": " << have[i] << ", by CLBlast "
                      << expected[i] << ", which is " << error << " of what is allowed";
        return error;
      }
      largest = std::max(largest, error);
    }
  }
  return largest;
}

TEST(GpuClblastOracle, Products_OfEveryFormatAndRowCount_AgreeWithClblast) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  for (const gguf::TensorType type : cpu::kernel_types()) {
    const double error = compare(d, type, "t0");
    std::printf("%-8s t0 %.3f of what is allowed\n",
                std::string(gguf::type_traits(type)->name).c_str(), error);
  }
}

// Bytes, by ordinary operations where the device has none for them. One format of each way to store
// codes; HOLDFAST_TEST_FULL=1 takes every format (PoCL compiles for minutes).
TEST(GpuClblastOracle, Products_OfInt8Rows_AgreeWithClblast) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  using T = gguf::TensorType;
  const bool all = std::getenv("HOLDFAST_TEST_FULL") != nullptr;
  const std::set<T> some = {T::kQ4_K, T::kQ8_0, T::kIQ1_S};
  std::set<cpu::Format> tested;
  for (const T type : cpu::kernel_types()) {
    if (!all && !some.contains(type)) continue;
    if (!tested.insert(*cpu::format_of(type)).second) continue;
    const double error = compare(d, type, "t2");
    std::printf("%-8s t2 %.3f of what is allowed\n",
                std::string(gguf::type_traits(type)->name).c_str(), error);
  }
}

}  // namespace
}  // namespace holdfast::clblast_oracle_test
