// Goal: products are right for every weight type, and their bits depend on the weight row and the
// activation row alone.
// Method: against a float64 sum of the reference weights, within the bound of a chain of K rounded
// steps; bit for bit between families, row counts, panel ranges and neighbours. Shapes with partial
// panels, padded groups of rows and (float types) K that is no multiple of anything.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu {
namespace {

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> out;
  for (const std::string& name : runnable_families()) out.push_back(select_family(name).value());
  return out;
}

struct Product {
  std::vector<float> y;  // [rows][stride]
  std::int64_t stride = 0;
};

Product multiply(const Kernels& kernels, const TestMatrix& m, const std::vector<float>& x,
                 std::int64_t x_stride, std::int64_t rows, std::int64_t p0, std::int64_t p1) {
  static Region scratch = Region::take(kUnpackFloats * sizeof(float), "test").value();
  Product out;
  out.stride = (p1 - p0) * kLanes;
  out.y.assign(static_cast<std::size_t>(rows * out.stride), -7.0f);
  MatmulArgs args;
  args.w = &m.packed;
  args.p0 = p0;
  args.p1 = p1;
  args.x = x.data();
  args.x_stride = x_stride;
  args.rows = rows;
  args.y = out.y.data();
  args.y_stride = out.stride;
  args.scratch = scratch.floats();
  kernels.matmul(args);
  return out;
}

std::int64_t block_of(gguf::TensorType type) {
  return gguf::type_traits(type).value().block_elements;
}

/// Column of the product where row r of the matrix lies.
std::int64_t column_of(const PackedMatrix& p, std::int64_t r) {
  return r / p.group_rows * p.group_panels * kLanes + r % p.group_rows;
}

void expect_close(const TestMatrix& m, const std::vector<float>& x, std::int64_t x_stride,
                  std::int64_t rows, const Product& got) {
  constexpr double kEps = 0x1p-24;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const float* w = m.floats.data() + r * m.cols;
    double largest = 0;
    for (std::int64_t k = 0; k < m.cols; ++k) largest = std::max(largest, std::fabs(double{w[k]}));
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0, size = 0, inputs = 0;
      for (std::int64_t k = 0; k < m.cols; ++k) {
        const double v = x[static_cast<std::size_t>(i * x_stride + k)];
        sum += v * w[k];
        size += std::fabs(v * w[k]);
        inputs += std::fabs(v);
      }
      // A chain of K steps, and weights that may differ by an ulp of the largest.
      const double allowed =
          static_cast<double>(m.cols + 4) * kEps * size + 4 * kEps * largest * inputs + 1e-37;
      const float y = got.y[static_cast<std::size_t>(i * got.stride + column_of(m.packed, r))];
      ASSERT_NEAR(y, sum, allowed) << "row " << r << " input " << i;
    }
  }
}

TEST(Matmul, EveryTypeAgreesWithFloat64) {
  for (const gguf::TensorType type : kernel_types()) {
    const std::int64_t cols = block_of(type) == 1 ? 301 : 2 * block_of(type);
    const TestMatrix m = random_matrix(type, 83, cols, 83, 7);
    const std::int64_t stride = round_up(cols, kSpan) + 16;
    const std::vector<float> x = random_rows(13, cols, stride, 8);
    for (const Kernels* kernels : all_kernels()) {
      for (const std::int64_t rows : {1, 13}) {
        SCOPED_TRACE(std::string(gguf::type_traits(type)->name) + " " + kernels->name);
        expect_close(m, x, stride, rows,
                     multiply(*kernels, m, x, stride, rows, 0, m.packed.panels));
      }
    }
  }
}

TEST(Matmul, GroupsOfRowsArePaddedEachWithZeroRows) {
  for (const gguf::TensorType type : {gguf::TensorType::kF32, gguf::TensorType::kQ4_K}) {
    const TestMatrix m = random_matrix(type, 3 * 40, 512, 40, 9);
    ASSERT_EQ(m.packed.panels, 9);
    const std::vector<float> x = random_rows(6, 512, 528, 10);
    for (const Kernels* kernels : all_kernels()) {
      const Product got = multiply(*kernels, m, x, 528, 6, 0, 9);
      expect_close(m, x, 528, 6, got);
      for (std::int64_t pad = 40; pad < 48; ++pad) {
        EXPECT_EQ(got.y[static_cast<std::size_t>(5 * got.stride + pad)], 0.0f);
      }
    }
  }
}

TEST(Matmul, BitsDependOnNeitherFamilyNorRowsNorPanels) {
  for (const gguf::TensorType type : kernel_types()) {
    // More k than one tile of the wide path, so that sums are parked between tiles.
    const std::int64_t cols = block_of(type) == 1 ? 555 : 768;
    const TestMatrix m = random_matrix(type, 187, cols, 187, 11);
    const std::int64_t stride = round_up(cols, kSpan) + 16;
    const std::vector<float> x = random_rows(64, cols, stride, 12);
    const Kernels& best = *all_kernels().front();
    const Product all = multiply(best, m, x, stride, 64, 0, m.packed.panels);
    for (const Kernels* kernels : all_kernels()) {
      const bool slow = kernels == &scalar_kernels();
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 8, 9, 16, 33, 64}) {
        if (slow && rows != 1 && rows != 9) continue;
        const std::int64_t panels = rows % 2 == 0 ? m.packed.panels : m.packed.panels - 3;
        const std::int64_t p0 = rows % 3;
        const Product some = multiply(*kernels, m, x, stride, rows, p0, panels);
        for (std::int64_t i = 0; i < rows; ++i) {
          ASSERT_EQ(std::memcmp(some.y.data() + i * some.stride,
                                all.y.data() + i * all.stride + p0 * kLanes,
                                static_cast<std::size_t>(some.stride) * sizeof(float)),
                    0)
              << gguf::type_traits(type)->name << " " << kernels->name << " rows " << rows
              << " row " << i;
        }
      }
    }
  }
}

TEST(Matmul, UnpackedRowsAreTheFilesWeights) {
  for (const gguf::TensorType type : kernel_types()) {
    const std::int64_t cols = block_of(type) == 1 ? 45 : 512;
    const TestMatrix m = random_matrix(type, 40, cols, 20, 13);
    std::vector<float> first, row(static_cast<std::size_t>(cols));
    for (const Kernels* kernels : all_kernels()) {
      for (std::int64_t r = 0; r < m.rows; ++r) {
        kernels->unpack_row(m.packed, r, row.data());
        const float* expected = m.floats.data() + r * cols;
        float largest = 0;
        for (std::int64_t k = 0; k < cols; ++k) largest = std::max(largest, std::fabs(expected[k]));
        for (std::int64_t k = 0; k < cols; ++k) {
          ASSERT_NEAR(row[static_cast<std::size_t>(k)], expected[k], largest * 0x1p-22)
              << gguf::type_traits(type)->name << " " << kernels->name << " " << r << "," << k;
        }
        if (r == 33 && first.empty()) first = row;
        if (r == 33) {
          EXPECT_EQ(first, row);
        }
      }
    }
  }
}

TEST(Pack, NamesTheFirstRowThatIsNotFinite) {
  for (const gguf::TensorType type : kernel_types()) {
    const std::int64_t cols = block_of(type) == 1 ? 40 : 512;
    TestMatrix m = random_matrix(type, 20, cols, 20, 14);
    const gguf::TypeTraits traits = gguf::type_traits(type).value();
    for (const int offset : half_offsets(type)) {
      std::vector<std::uint8_t> file = m.file;
      // The second last block of row 17: infinity in the type's own floating-point form.
      std::uint8_t* block = file.data() + 18 * m.row_bytes - 2 * traits.block_bytes;
      const bool wide = type == gguf::TensorType::kF32;
      const std::uint16_t inf =
          block_of(type) == 1 && type != gguf::TensorType::kF16 ? 0x7f80 : 0x7c00;
      block[offset + (wide ? 2 : 0)] = static_cast<std::uint8_t>(inf);
      block[offset + (wide ? 3 : 1)] = static_cast<std::uint8_t>(inf >> 8);
      EXPECT_EQ(pack_panels(m.packed, type, file.data(), m.row_bytes, 0, m.packed.panels), 17)
          << traits.name << " half at " << offset;
    }
  }
}

}  // namespace
}  // namespace holdfast::cpu
