// Goal: dense products by CLBlast are what was requested of them: any shape, transposes, rows that
// are not next to each other, sums that are added to; what does not fit is a typed error before the
// library is called.
// Method: random matrices between floats that nothing may touch, against sums in float64.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "tests/gpu/dense_device.h"

namespace holdfast::clblast_test {
namespace {

using gpu::DenseDevice;
using opencl::DenseMatrix;

constexpr std::int64_t kBefore = 5, kAfterRow = 3;  // floats that are no elements
constexpr float kUntouched = 7.25f;

/// A matrix of a test with its floats.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> floats;  // kBefore floats, then rows, each with kAfterRow floats after it
  bool transposed = false;

  std::int64_t stride() const { return columns + kAfterRow; }
  float& at(std::int64_t row, std::int64_t column) {
    return floats[static_cast<std::size_t>(kBefore + row * stride() + column)];
  }
  /// Element of what the operand stands for.
  double operand(std::int64_t row, std::int64_t column) {
    return static_cast<double>(transposed ? at(column, row) : at(row, column));
  }
  DenseMatrix on(const opencl::Buffer& buffer) const {
    return {&buffer, rows, columns, stride(), kBefore, transposed};
  }
};

Matrix matrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  Matrix m{rows, columns, {}};
  m.floats.assign(static_cast<std::size_t>(kBefore + rows * m.stride()), kUntouched);
  std::mt19937 random(seed);
  std::normal_distribution<float> value(0, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) m.at(r, c) = value(random);
  }
  return m;
}

Matrix operand(std::int64_t rows, std::int64_t columns, bool transposed, std::uint32_t seed) {
  Matrix m = transposed ? matrix(columns, rows, seed) : matrix(rows, columns, seed);
  m.transposed = transposed;
  return m;
}

struct Shape {
  std::int64_t m, n, k;
};
// Small ones, and sizes that no tile divides.
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 5, 7}, {1, 130, 96}, {64, 77, 512}, {200, 300, 257}};

/// The shape of this number of rows that CLBlast multiplies by its other kernel, for which it
/// copies matrices into whole tiles. The device decides from which size on.
Shape copied_shape(const DenseDevice& d, std::int64_t m) {
  for (std::int64_t size = 65; size < 1 << 14; size = 2 * size + 1) {
    const auto bytes = d.products.temporary_bytes(
        {nullptr, m, size, size}, {nullptr, size, size, size, 0, true}, {nullptr, m, size, size});
    EXPECT_TRUE(bytes.has_value()) << bytes.error().what;
    if (!bytes.has_value() || *bytes > 0) return {m, size, size};
  }
  ADD_FAILURE() << "no shape is copied";
  return {m, 1, 1};
}

/// The largest error of `have`, relative to the tolerance; `before`: what was added to.
double worst(Matrix& a, Matrix& b, Matrix& have, Matrix* before, std::int64_t terms) {
  double out = 0;
  for (std::int64_t r = 0; r < have.rows; ++r) {
    for (std::int64_t c = 0; c < have.columns; ++c) {
      double sum = before == nullptr ? 0 : static_cast<double>(before->at(r, c));
      double size = std::abs(sum);
      for (std::int64_t k = 0; k < terms; ++k) {
        const double term = a.operand(r, k) * b.operand(k, c);
        sum += term;
        size += std::abs(term);
      }
      const double error = std::abs(static_cast<double>(have.at(r, c)) - sum);
      out = std::max(out, error / gpu::tolerance(terms + 1, size));
    }
  }
  return out;
}

/// The number of floats around the elements that changed.
int touched(Matrix& m) {
  int n = 0;
  for (std::int64_t i = 0; i < kBefore; ++i)
    n += m.floats[static_cast<std::size_t>(i)] != kUntouched;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = m.columns; c < m.stride(); ++c) n += m.at(r, c) != kUntouched;
  }
  return n;
}

TEST(GpuClblast, Product_OfAnyShapeAndTransposes_AgreesWithFloat64) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  double largest = 0;
  for (const Shape& s : kShapes) {
    for (const int transposes : {0, 1, 2, 3}) {
      Matrix a = operand(s.m, s.k, (transposes & 1) != 0, 1);
      Matrix b = operand(s.k, s.n, (transposes & 2) != 0, 2);
      Matrix c = matrix(s.m, s.n, 3);
      for (std::int64_t r = 0; r < s.m; ++r) {  // what was there does not enter
        for (std::int64_t i = 0; i < s.n; ++i) c.at(r, i) = std::numeric_limits<float>::quiet_NaN();
      }
      const opencl::Buffer on_a = d.buffer_of(a.floats), on_b = d.buffer_of(b.floats);
      const opencl::Buffer on_c = d.buffer_of(c.floats);
      const auto done = d.products.multiply(a.on(on_a), b.on(on_b), c.on(on_c));
      ASSERT_TRUE(done.has_value()) << done.error().what;
      c.floats = d.floats_of(on_c, c.floats.size());
      const double error = worst(a, b, c, nullptr, s.k);
      EXPECT_LE(error, 1) << s.m << " " << s.n << " " << s.k << " " << transposes;
      EXPECT_EQ(touched(c), 0) << s.m << " " << s.n << " " << s.k << " " << transposes;
      largest = std::max(largest, error);
    }
  }
  std::printf("CLBlast %s: largest error %.3f of the tolerance\n", d.products.version().c_str(),
              largest);
}

TEST(GpuClblast, Product_WhenAdded_IsTheSumWithWhatWasThere) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  for (const Shape& s : kShapes) {
    Matrix a = operand(s.m, s.k, true, 4), b = operand(s.k, s.n, false, 5);
    Matrix c = matrix(s.m, s.n, 6), before = c;
    const opencl::Buffer on_a = d.buffer_of(a.floats), on_b = d.buffer_of(b.floats);
    const opencl::Buffer on_c = d.buffer_of(c.floats);
    const auto done = d.products.multiply_add(a.on(on_a), b.on(on_b), c.on(on_c));
    ASSERT_TRUE(done.has_value()) << done.error().what;
    c.floats = d.floats_of(on_c, c.floats.size());
    EXPECT_LE(worst(a, b, c, &before, s.k), 1) << s.m << " " << s.n << " " << s.k;
  }
}

// Memory for copies that the caller gives is used, and is enough by the library's own word.
TEST(GpuClblast, Product_WithTemporaryMemoryOfTheCaller_HasTheSameBits) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  const Shape s = copied_shape(d, 64);
  const Matrix a = operand(s.m, s.k, false, 7), b = operand(s.k, s.n, true, 8);
  const Matrix c = matrix(s.m, s.n, 9);
  const opencl::Buffer on_a = d.buffer_of(a.floats), on_b = d.buffer_of(b.floats);
  const opencl::Buffer on_c = d.buffer_of(c.floats);
  ASSERT_TRUE(d.products.multiply(a.on(on_a), b.on(on_b), c.on(on_c)).has_value());
  const std::vector<float> alone = d.floats_of(on_c, c.floats.size());
  const auto bytes = d.products.temporary_bytes(a.on(on_a), b.on(on_b), c.on(on_c));
  ASSERT_TRUE(bytes.has_value()) << bytes.error().what;
  ASSERT_GT(*bytes, 0u);
  std::printf("64 rows by %lld x %lld are copied, %llu bytes\n", static_cast<long long>(s.k),
              static_cast<long long>(s.n), static_cast<unsigned long long>(*bytes));
  const opencl::Buffer small = d.buffer_of({0});
  d.products.use_temporary(small);
  const auto refused = d.products.multiply(a.on(on_a), b.on(on_b), c.on(on_c));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kModelFailed);
  EXPECT_NE(refused.error().what.find("CLBlastInsufficientMemoryTemp (-2050)"), std::string::npos)
      << refused.error().what;
  const opencl::Buffer temporary =
      d.buffer_of(std::vector<float>((*bytes + sizeof(float) - 1) / sizeof(float)));
  d.products.use_temporary(temporary);
  const auto done = d.products.multiply(a.on(on_a), b.on(on_b), c.on(on_c));
  ASSERT_TRUE(done.has_value()) << done.error().what;
  EXPECT_EQ(std::memcmp(d.floats_of(on_c, alone.size()).data(), alone.data(),
                        alone.size() * sizeof(float)),
            0);
}

// Embeddings rely on this (single/dense.cpp): in products of one shape a row's sums have the same
// order wherever the row is and whatever the others are; in both of CLBlast's kernels.
TEST(GpuClblast, Row_InProductsOfOneShape_HasTheSameBitsWhateverTheOthers) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  for (const Shape& s : {Shape{64, 320, 288}, copied_shape(d, 64)}) {
    const Matrix a = matrix(s.m, s.k, 10), b = operand(s.k, s.n, true, 11);
    const opencl::Buffer on_b = d.buffer_of(b.floats);
    const auto product = [&](const Matrix& rows) {
      Matrix c = matrix(s.m, s.n, 12);
      const opencl::Buffer on_a = d.buffer_of(rows.floats), on_c = d.buffer_of(c.floats);
      const auto done = d.products.multiply(rows.on(on_a), b.on(on_b), c.on(on_c));
      EXPECT_TRUE(done.has_value()) << done.error().what;
      c.floats = d.floats_of(on_c, c.floats.size());
      return c;
    };
    const auto copy_row = [](Matrix& to, std::int64_t row, const Matrix& from, std::int64_t other) {
      const auto first = from.floats.begin() + kBefore + other * from.stride();
      std::copy(first, first + from.columns, to.floats.begin() + kBefore + row * to.stride());
    };
    Matrix together = product(a);
    const auto same = [&](Matrix& c, std::int64_t row, std::int64_t of) {
      return std::memcmp(&c.at(row, 0), &together.at(of, 0),
                         static_cast<std::size_t>(s.n) * sizeof(float)) == 0;
    };
    Matrix reversed = a;
    for (std::int64_t row = 0; row < s.m; ++row) copy_row(reversed, row, a, s.m - 1 - row);
    Matrix of_reversed = product(reversed);
    for (std::int64_t row = 0; row < s.m; ++row)
      EXPECT_TRUE(same(of_reversed, row, s.m - 1 - row)) << row;
    for (const std::int64_t row : {0, 1, 31, 63}) {  // alone among zeros
      Matrix alone = a;
      std::fill(alone.floats.begin(), alone.floats.end(), 0.0f);
      copy_row(alone, row, a, 17);
      Matrix of_alone = product(alone);
      EXPECT_TRUE(same(of_alone, row, 17)) << row;
    }
  }
}

TEST(GpuClblast, Product_WhenShapesOrBuffersDoNotFit_IsRefusedWithNumbers) {
  HOLDFAST_NEEDS_CLBLAST();
  DenseDevice d;
  const opencl::Buffer buffer = d.buffer_of(std::vector<float>(128));
  const opencl::Buffer none;
  const DenseMatrix a{&buffer, 4, 8, 8}, b{&buffer, 8, 3, 3}, c{&buffer, 4, 3, 3};
  const auto refused = [&](DenseMatrix x, DenseMatrix y, DenseMatrix z) {
    const auto done = d.products.multiply(x, y, z);
    if (done.has_value()) return std::string("done");
    EXPECT_EQ(done.error().code, Errc::kUsage);
    return done.error().what;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused(a, a, c), "4 x 8 by 4 x 8 into 4 x 3; expected 4 x 8 of 8 terms each");
  has(refused(a, b, b), "4 x 8 by 8 x 3 into 8 x 3; expected 4 x 3");
  DenseMatrix other = c;
  other.transposed = true;
  has(refused(a, b, other), "into 4 x 3 transposed");
  other = a;
  other.stride = 7;
  has(refused(other, b, c), "a is 4 x 8, 7 floats from row to row");
  other = a;
  other.stride = 41;  // 3 * 41 + 8 = 131
  has(refused(other, b, c), "expected what fits in its buffer of 128 floats");
  other.stride = std::numeric_limits<std::int64_t>::max();
  has(refused(other, b, c), "expected what fits in its buffer of 128 floats");
  other = b;
  other.at = 105;  // 105 + 24 = 129
  has(refused(a, other, c), "b is 8 x 3, 3 floats from row to row, from float 105 on");
  other.at = -1;
  has(refused(a, other, c), "expected one element at least");
  other = c;
  other.rows = 0;
  has(refused(a, b, other), "c is 0 x 3");
  other = c;
  other.buffer = &none;
  has(refused(a, b, other), "expected a buffer");
  other = b;
  other.at = 104;  // exactly enough
  const opencl::Buffer result = d.buffer_of(std::vector<float>(12));
  EXPECT_TRUE(d.products.multiply(a, other, {&result, 4, 3, 3}).has_value());
  EXPECT_EQ(d.queue.wait(), CL_SUCCESS);
}

}  // namespace
}  // namespace holdfast::clblast_test
