// Goal: products are right for every weight type, and their bits depend on the weight row and the
// activation row alone.
// Method: against a float64 sum of the reference weights, within the bound of a chain of K rounded
// steps and of what int15 or int8 activations leave out; bit for bit between families, row counts,
// panel ranges and neighbours. Shapes with partial panels, padded groups of rows and (float types)
// K that is no multiple of anything.

#include <cpuid.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/kernels/random_matrix.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cpu::matmul_test {
namespace {

bool has_amx_int8() {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 25 & 1) != 0;
}

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> out;
  for (const std::string& name : runnable_families()) {
    const Kernels* kernels = select_family(name).value();
    if (kernels->prefill_heavy == nullptr) out.push_back(kernels);  // else it is made of two others
    // One of the two is in no list. It is tested whether or not its trial at start passed.
    if (name == "avx512+amx" && has_amx_int8()) out.push_back(&avx512_amx_int8_kernels());
  }
  for (const char* name : {"amx-emulated", "avx512bf16-emulated"}) {
    const auto emulated = select_family(name);
    if (emulated.has_value()) out.push_back(*emulated);
  }
  return out;
}

std::vector<const Kernels*> int15_kernels() {
  std::vector<const Kernels*> out = all_kernels();
  std::erase_if(out, [](const Kernels* k) { return std::string_view(k->numerics) != "int15"; });
  return out;
}

TEST(Family, KernelFamily_WhenNoneIsForced_FollowsTheWeightTypes) {
  const Kernels* plain = select_family("").value();
  const Kernels* quantised = select_family("", {true, false}).value();
  const Kernels* bf16 = select_family("", {false, true}).value();
  EXPECT_EQ(select_family("", {true, true}).value(), quantised);
  EXPECT_EQ(quantised, plain);
  if (bf16 != plain) {  // only where pairs take the place of avx512
    EXPECT_EQ(plain, select_family("avx512").value());
    EXPECT_EQ(bf16, select_family("avx512bf16").value());
  }
  for (const std::string& name : runnable_families()) {
    const Kernels* kernels = select_family(name, {true, true}).value();
    EXPECT_EQ(kernels->name, name);  // forced, whatever the weights are
    EXPECT_EQ(kernels->prefill_heavy != nullptr, kernels->prefill_heavy_ratio > 0) << name;
  }
}

struct Product {
  std::vector<float> y;  // [rows][stride]
  std::int64_t stride = 0;
};

Product multiply(const Kernels& kernels, const TestMatrix& m, const std::vector<float>& x,
                 std::int64_t x_stride, std::int64_t rows, std::int64_t p0, std::int64_t p1,
                 bool int8 = false, bool one_run = reads_in_one_run()) {
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
  const std::int64_t padded = round_up(m.cols, kActivationBlock);
  std::vector<std::uint8_t> q;
  if (const ActivationFormat* activation_format = kernels.activation_format(m.packed.format, int8);
      activation_format != nullptr) {
    args.x = nullptr;  // all that it needs is in the blocks
    args.q_stride = padded / kActivationBlock * activation_format->block_bytes + 32;
    q.resize(static_cast<std::size_t>(rows * args.q_stride));
    for (std::int64_t i = 0; i < rows; ++i) {
      activation_format->make(x.data() + i * x_stride, padded, q.data() + i * args.q_stride);
    }
    args.q = q.data();
  }
  args.rows = rows;
  args.int8 = int8;
  args.one_run = one_run;
  args.next = &m.packed;  // prefetched, never used
  args.next_p1 = m.packed.panels;
  args.y = out.y.data();
  args.y_stride = out.stride;
  args.scratch = scratch.floats();
  kernels.matmul(args);
  return out;
}

std::int64_t block_of(gguf::TensorType type) {
  return gguf::type_traits(type).value().block_elements;
}

/// The column of the product for row r of the matrix.
std::int64_t column_of(const PackedMatrix& p, std::int64_t r) {
  return r / p.group_rows * p.group_panels * kLanes + r % p.group_rows;
}

void expect_close(const Kernels& kernels, const TestMatrix& m, const std::vector<float>& x,
                  std::int64_t x_stride, std::int64_t rows, const Product& got, bool int8 = false) {
  constexpr double kEps = 0x1p-24;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const float* w = m.floats.data() + r * m.cols;
    double largest = 0;
    for (std::int64_t k = 0; k < m.cols; ++k) largest = std::max(largest, std::fabs(double{w[k]}));
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0, size = 0, inputs = 0;
      double rounded = 0;  // at most half a step of each activation
      const bool whole = kernels.activation_format(m.packed.format, false) != nullptr;
      for (std::int64_t k0 = 0; whole && k0 < m.cols; k0 += kActivationBlock) {
        double most = 0, weights = 0;
        for (std::int64_t k = k0; k < std::min(k0 + kActivationBlock, m.cols); ++k) {
          most = std::max(most, std::fabs(double{x[static_cast<std::size_t>(i * x_stride + k)]}));
          weights += std::fabs(double{w[k]});
        }
        const double steps = int8 ? kInt8Max + 1 - kInt8Scales : double{kActivationMax};
        rounded += (0.5 / steps + 4 * kEps) * most * weights;
      }
      for (std::int64_t k = 0; k < m.cols; ++k) {
        const double v = x[static_cast<std::size_t>(i * x_stride + k)];
        sum += v * w[k];
        size += std::fabs(v * w[k]);
        inputs += std::fabs(v);
      }
      // Weight and activation as bfloat16.
      if (whole && std::string_view(kernels.numerics) != "int15") rounded = 0x1.02p-8 * size;
      // A chain of K steps, and weights that may differ by an ulp of the largest.
      const double allowed = static_cast<double>(m.cols + 4) * kEps * size +
                             4 * kEps * largest * inputs + rounded + 1e-29;
      const float y = got.y[static_cast<std::size_t>(i * got.stride + column_of(m.packed, r))];
      ASSERT_NEAR(y, sum, allowed) << "row " << r << " input " << i;
    }
  }
}

TEST(Matmul, Matmul_WithEveryWeightType_AgreesWithFloat64) {
  for (const gguf::TensorType type : kernel_types()) {
    const std::int64_t cols = block_of(type) == 1 ? 301 : 2 * block_of(type);
    const TestMatrix m = random_matrix(type, 83, cols, 83, 7);
    const std::int64_t stride = round_up(cols, kSpan) + 16;
    const std::vector<float> x = random_rows(13, cols, stride, 8);
    for (const Kernels* kernels : all_kernels()) {
      for (const std::int64_t rows : {1, 13}) {
        for (const bool int8 : {false, true}) {
          SCOPED_TRACE(std::string(gguf::type_traits(type)->name) + " " + kernels->name +
                       (int8 ? " coarse" : ""));
          expect_close(*kernels, m, x, stride, rows,
                       multiply(*kernels, m, x, stride, rows, 0, m.packed.panels, int8), int8);
        }
      }
    }
  }
}

TEST(Matmul, RowGroups_WhenPadded_EndWithZeroRows) {
  for (const gguf::TensorType type : {gguf::TensorType::kF32, gguf::TensorType::kQ4_K}) {
    const TestMatrix m = random_matrix(type, 3 * 40, 512, 40, 9);
    ASSERT_EQ(m.packed.panels, 9);
    const std::vector<float> x = random_rows(6, 512, 528, 10);
    for (const Kernels* kernels : all_kernels()) {
      const Product got = multiply(*kernels, m, x, 528, 6, 0, 9);
      expect_close(*kernels, m, x, 528, 6, got);
      for (std::int64_t pad = 40; pad < 48; ++pad) {
        EXPECT_EQ(got.y[static_cast<std::size_t>(5 * got.stride + pad)], 0.0f);
      }
    }
  }
}

TEST(Matmul, Matmul_WhenFamilyRowsOrPanelsDiffer_HasTheSameBits) {
  for (const gguf::TensorType type : kernel_types()) {
    // More k than one tile of the wide path, so that sums are parked between tiles.
    const std::int64_t cols = block_of(type) == 1 ? 1301 : 768;
    const TestMatrix m = random_matrix(type, 187, cols, 187, 11);
    const std::int64_t stride = round_up(cols, kSpan) + 16;
    const std::vector<float> x = random_rows(64, cols, stride, 12);
    std::map<std::pair<std::string_view, bool>, Product> first;  // by numerics class and format
    for (int i = 0; i < 2 * static_cast<int>(all_kernels().size()); ++i) {
      const Kernels* kernels = all_kernels()[static_cast<std::size_t>(i / 2)];
      const bool int8 = i % 2 == 1;
      const bool slow = kernels == &scalar_kernels();
      if (int8 && std::string_view(kernels->numerics) != "int15") continue;  // has one format
      Product& all = first[{kernels->numerics, int8}];
      if (all.y.empty()) {
        all = multiply(*kernels, m, x, stride, 64, 0, m.packed.panels, int8);
      }
      for (const std::int64_t rows :
           {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64}) {
        if (slow && rows != 1 && rows != 9) continue;
        const std::int64_t panels = rows % 2 == 0 ? m.packed.panels : m.packed.panels - 3;
        const std::int64_t p0 = rows % 3;
        for (const bool one_run : {false, true}) {
          if (one_run && rows > 12) continue;  // makes no difference
          const Product some = multiply(*kernels, m, x, stride, rows, p0, panels, int8, one_run);
          for (std::int64_t i = 0; i < rows; ++i) {
            ASSERT_EQ(std::memcmp(some.y.data() + i * some.stride,
                                  all.y.data() + i * all.stride + p0 * kLanes,
                                  static_cast<std::size_t>(some.stride) * sizeof(float)),
                      0)
                << gguf::type_traits(type)->name << " " << kernels->name << " rows " << rows
                << " row " << i << (one_run ? " in one run" : "") << (int8 ? " coarse" : "");
          }
        }
      }
    }
  }
}

// So many rows that they are divided into groups, and so much k that their sums wait several times;
// a last panel alone, and last tiles of few rows.
TEST(Matmul, ManyRows_WhenMultiplied_HaveTheBitsOfOneRow) {
  constexpr std::int64_t kCols = 2304, kMost = 530;
  for (const gguf::TensorType type : {gguf::TensorType::kQ8_0, gguf::TensorType::kQ6_K}) {
    const TestMatrix m = random_matrix(type, 40, kCols, 40, 17);
    const std::vector<float> x = random_rows(kMost, kCols, kCols, 18);
    for (const Kernels* kernels : all_kernels()) {
      if (kernels == &scalar_kernels()) continue;  // slow, and held to the others above
      for (const std::int64_t rows : {17, 33, 130, 512, 530}) {
        const Product all = multiply(*kernels, m, x, kCols, rows, 0, 3);
        for (std::int64_t i = 0; i<rows; i += rows - 1> 100 ? 37 : 8) {
          const std::vector<float> single_row(x.begin() + i * kCols, x.begin() + (i + 1) * kCols);
          const Product one = multiply(*kernels, m, single_row, kCols, 1, 0, 3);
          ASSERT_EQ(std::memcmp(one.y.data(), all.y.data() + i * all.stride,
                                static_cast<std::size_t>(all.stride) * sizeof(float)),
                    0)
              << gguf::type_traits(type)->name << " " << kernels->name << " rows " << rows
              << " row " << i;
        }
      }
    }
  }
}

std::uint32_t bfloat_bits(float f) {  // to the nearest even; no subnormals and NaNs here
  std::uint32_t u = 0;
  std::memcpy(&u, &f, 4);
  return (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
}
float as_bfloat(float f) {
  const std::uint32_t u = bfloat_bits(f);
  std::memcpy(&f, &u, 4);
  return f;
}

// The product of tiles that amx/tiles.h defines, computed again in plain floats; more k than one
// part, so that sums wait in y.
TEST(Matmul, AmxTiles_WhenComparedWithPlainFloats_AreTwoChainsPer32) {
  const auto found = select_family("amx-emulated");
  if (!found.has_value()) GTEST_SKIP() << found.error().what;
  for (const gguf::TensorType type :
       {gguf::TensorType::kQ4_K, gguf::TensorType::kQ8_0, gguf::TensorType::kBF16}) {
    constexpr std::int64_t kCols = 2304;
    const TestMatrix m = random_matrix(type, 40, kCols, 40, 51);
    std::vector<float> x = random_rows(35, kCols, kCols + 16, 52);
    for (float& v : x) v = std::fabs(v) < 0x1p-60f ? 0 : v;
    std::vector<const Kernels*> families = {*found};
    const auto real = select_family("amx");
    if (real.has_value()) families.push_back(*real);
    for (const Kernels* kernels : families) {
      const Product got = multiply(*kernels, m, x, kCols + 16, 35, 0, m.packed.panels);
      const Product one = multiply(*kernels, m, x, kCols + 16, 1, 0, m.packed.panels);
      std::vector<float> w(kCols);
      for (const std::int64_t r : {0, 17, 39}) {
        kernels->unpack_row(m.packed, r, w.data());
        for (const std::int64_t i : {0, 15, 16, 34}) {
          float acc = 0;
          for (std::int64_t k0 = 0; k0 < kCols; k0 += 32) {
            float chain[2] = {0, 0};
            for (std::int64_t k = k0; k < k0 + 32; ++k) {
              chain[k % 2] = std::fmaf(as_bfloat(x[static_cast<std::size_t>(i * (kCols + 16) + k)]),
                                       as_bfloat(w[static_cast<std::size_t>(k)]), chain[k % 2]);
            }
            acc += chain[0] + chain[1];
          }
          EXPECT_EQ(got.y[static_cast<std::size_t>(i * got.stride + r)], acc)
              << gguf::type_traits(type)->name << " " << kernels->name << " " << i << "," << r;
        }
        EXPECT_EQ(one.y[static_cast<std::size_t>(r)], got.y[static_cast<std::size_t>(r)]);
      }
    }
  }
}

// The product of a pair that avx512bf16/pairs.h defines, computed again in plain floats, with
// numbers of every size: subnormal products count as zero. More k than one part, so that sums wait
// in y.
TEST(Matmul, Bf16Pairs_WhenComparedWithPlainFloats_AreOneChain) {
  constexpr std::int64_t kCols = 2304;
  const auto flushed = [](float f) { return std::fabs(f) < 0x1p-126f ? f * 0 : f; };
  for (const gguf::TensorType type :
       {gguf::TensorType::kQ4_K, gguf::TensorType::kQ8_0, gguf::TensorType::kBF16}) {
    const TestMatrix m = random_matrix(type, 40, kCols, 40, 61);
    for (const float scale : {1.0f, 0x1p-125f}) {
      std::vector<float> x = random_rows(30, kCols, kCols + 16, 62);
      for (float& v : x) v *= scale;
      for (const char* name : {"avx512bf16", "avx512bf16-emulated"}) {
        const auto kernels = select_family(name);
        if (!kernels.has_value()) continue;
        const Product got = multiply(**kernels, m, x, kCols + 16, 30, 0, m.packed.panels);
        std::vector<float> weights(kCols);
        for (const std::int64_t r : {0, 17, 39}) {
          (*kernels)->unpack_row(m.packed, r, weights.data());
          for (const std::int64_t i : {0, 12, 29}) {
            float acc = 0;
            for (std::int64_t k = 0; k < kCols; ++k) {
              const auto at = static_cast<std::size_t>(k ^ 1);  // the second of a pair comes first
              const float v = x[static_cast<std::size_t>(i * (kCols + 16)) + at];
              acc = flushed(std::fmaf(as_bfloat(flushed(v)), as_bfloat(flushed(weights[at])), acc));
            }
            EXPECT_EQ(got.y[static_cast<std::size_t>(i * got.stride + r)], acc)
                << gguf::type_traits(type)->name << " " << name << " " << i << "," << r << " of "
                << scale;
          }
        }
      }
    }
  }
}

void put_whole_scales(TestMatrix& m) {
  const std::uint16_t one = gguf::float_to_half(1);
  for (std::size_t at = 0; at < m.file.size(); at += gguf::type_traits(m.type)->block_bytes) {
    for (const int offset : half_offsets(m.type)) std::memcpy(m.file.data() + at + offset, &one, 2);
  }
}

// Activations and scales that are integers: nothing rounds, so the product is the exact sum.
void expect_exact_products(bool int8) {
  const float most = int8 ? kInt8Max : kActivationMax;
  for (const gguf::TensorType type : {gguf::TensorType::kQ4_0, gguf::TensorType::kQ8_0,
                                      gguf::TensorType::kQ6_K, gguf::TensorType::kIQ4_NL}) {
    TestMatrix m = random_matrix(type, 32, 256, 32, 21);
    put_whole_scales(m);
    for (std::int64_t r = 0; r < m.rows; ++r) {
      ASSERT_TRUE(gguf::dequantize_row(type,
                                       m.file.data() + static_cast<std::size_t>(r) * m.row_bytes,
                                       m.floats.data() + r * m.cols, 256)
                      .has_value());
    }
    ASSERT_EQ(pack_panels(m.packed, type, m.file.data(), m.row_bytes, 0, m.packed.panels), -1);
    std::mt19937 random(22);
    std::vector<float> x(12 * 272);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // The largest of each 32 is the format's largest, so the scale is 1; few others are large.
      x[i] = i % 32 == 5 ? most : static_cast<float>(static_cast<int>(random() % 61) - 30);
    }
    for (const Kernels* kernels : int15_kernels()) {
      const Product got = multiply(*kernels, m, x, 272, 12, 0, m.packed.panels, int8);
      for (std::int64_t i = 0; i < 12; ++i) {
        for (std::int64_t r = 0; r < 32; ++r) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < 256; ++k) {
            const double term = double{x[static_cast<std::size_t>(i * 272 + k)]} *
                                m.floats[static_cast<std::size_t>(r * 256 + k)];
            sum += term, size += std::fabs(term);
          }
          if (size >= 0x1p24) continue;  // a float cannot hold every partial sum
          ASSERT_EQ(got.y[static_cast<std::size_t>(i * 32 + r)], sum)
              << gguf::type_traits(type)->name << " " << kernels->name << " " << i << "," << r;
        }
      }
    }
  }
}
TEST(Matmul, Matmul_WithIntegerValues_IsExact) {
  expect_exact_products(false);
  expect_exact_products(true);
}

// Sums alternate between two buffers: from one span to many, in one part of 512 k or several, an
// odd number or an even one of each; and tiles of 8 to 16 rows.
TEST(Matmul, AmxInt8Tiles_WhenMultiplied_HaveTheBitsOfAvx512) {
  if (!select_family("avx512+amx").has_value() || !has_amx_int8()) {
    GTEST_SKIP() << "this processor has no tiles of bytes";
  }
  EXPECT_EQ(select_family("avx512+amx").value()->matmul, avx512_amx_int8_kernels().matmul);
  const Kernels& plain = *select_family("avx512").value();
  for (const gguf::TensorType type :
       {gguf::TensorType::kQ8_0, gguf::TensorType::kQ4_0, gguf::TensorType::kQ5_1,
        gguf::TensorType::kQ4_K, gguf::TensorType::kQ6_K, gguf::TensorType::kIQ4_NL,
        gguf::TensorType::kMXFP4}) {
    for (std::int64_t cols : {32, 64, 96, 480, 544, 1088}) {
      cols = round_up(cols, block_of(type));
      const TestMatrix m = random_matrix(type, 72, cols, 72, 41);
      const std::vector<float> x = random_rows(70, cols, cols, 42);
      for (const std::int64_t rows : {24, 25, 31, 33, 39, 48, 70}) {
        for (const bool int8 : {false, true}) {
          const Product want = multiply(plain, m, x, cols, rows, 1, 4, int8);
          const Product got = multiply(avx512_amx_int8_kernels(), m, x, cols, rows, 1, 4, int8);
          ASSERT_EQ(std::memcmp(want.y.data(), got.y.data(), want.y.size() * sizeof(float)), 0)
              << gguf::type_traits(type)->name << " " << cols << " by " << rows << " " << int8;
        }
      }
    }
  }
}

// Sums of products of bytes must not outgrow the 16 bits that some families add them up in.
TEST(Matmul, Matmul_WithExtremeCodesAndActivations_IsExact) {
  using T = gguf::TensorType;
  const Kernels& scalar = *select_family("scalar").value();
  std::vector<float> x(12 * 256);
  for (const T type : {T::kQ4_0, T::kQ4_1, T::kQ5_0, T::kQ5_1, T::kQ8_0, T::kQ2_K, T::kQ3_K,
                       T::kQ4_K, T::kQ5_K, T::kQ6_K, T::kIQ4_NL}) {
    TestMatrix m = random_matrix(type, 32, 256, 32, 23);
    for (const int codes : {0xff, 0x00, 0x80}) {
      std::fill(m.file.begin(), m.file.end(), static_cast<std::uint8_t>(codes));
      put_whole_scales(m);
      ASSERT_EQ(pack_panels(m.packed, type, m.file.data(), m.row_bytes, 0, m.packed.panels), -1);
      for (const bool int8 : {false, true}) {
        const float most = int8 ? kInt8Max : kActivationMax;
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = i / 256 % 2 == 0 ? most : -most;
        for (const std::int64_t rows : {1, 2, 4, 12}) {
          const Product expected = multiply(scalar, m, x, 256, rows, 0, m.packed.panels, int8);
          for (const Kernels* kernels : int15_kernels()) {
            const Product got = multiply(*kernels, m, x, 256, rows, 0, m.packed.panels, int8);
            ASSERT_EQ(got.y, expected.y) << gguf::type_traits(type)->name << " " << kernels->name
                                         << " " << rows << " rows, codes " << codes;
          }
        }
      }
    }
  }
}

TEST(Matmul, ProductsAlone_WithMoreRounds_ComputeProportionallyMore) {
  const auto sums = [](const Kernels& k, Format format, std::int64_t rounds, double* work) {
    alignas(64) std::uint8_t lines[kAloneBytes];
    for (std::size_t i = 0; i < sizeof lines; ++i) lines[i] = i % 4 == 3 ? 0x3c : 0;  // 2^-7
    *work = k.products_alone(format, false, rounds, lines);
    return std::vector<std::uint8_t>(lines, lines + 64);
  };
  for (const std::string& name : runnable_families()) {
    const Kernels& k = *select_family(name).value();
    for (const Format format : {Format::kF16, Format::kBF16, Format::kQ4_K}) {
      double once = 0, thrice = 0;
      const auto first = sums(k, format, 1, &once);
      EXPECT_NE(sums(k, format, 3, &thrice), first) << name << static_cast<int>(format);
      EXPECT_GT(once, 0) << name;
      EXPECT_EQ(thrice, 3 * once) << name;
      // int8 rows take half the steps of integer products, also where two families share.
      alignas(64) std::uint8_t lines[kAloneBytes] = {};
      const double gain = k.products_alone(format, true, 1, lines) / once;
      const bool whole = std::string_view(k.numerics) == "int15" || name.starts_with("avx512+");
      const bool planes = layout_of(format).has_d && whole;
      EXPECT_EQ(gain, planes ? 2 : 1) << name << static_cast<int>(format);
    }
  }
}

TEST(Quantize, Int15Blocks_WhenQuantized_HaveFifteenBitsAndTheirSums) {
  std::vector<float> x = random_rows(1, 512, 512, 31);
  x[40] = 1e30f;
  for (int i = 64; i < 96; ++i) x[static_cast<std::size_t>(i)] = 0;
  for (int i = 96; i < 128; ++i) x[static_cast<std::size_t>(i)] = 0x1p-120f;
  std::vector<ActivationBlock> first;
  for (const Kernels* kernels : int15_kernels()) {
    std::vector<ActivationBlock> q(16);
    const ActivationFormat& activation_format = *kernels->activation_format(Format::kQ4_K, false);
    activation_format.make(x.data(), 512, reinterpret_cast<std::uint8_t*>(q.data()));
    for (std::size_t b = 0; b < 16; ++b) {
      std::int32_t sums[2] = {};
      for (std::size_t k = 0; k < 32; ++k) {
        const int whole = 128 * q[b].high[k] + q[b].low[k];
        const double value = x[32 * b + k];
        sums[k / 16] += whole;
        EXPECT_LE(std::abs(whole), static_cast<int>(kActivationMax));
        if (b == 3) continue;  // too small for its inverse: nothing is left
        EXPECT_LE(std::fabs(value - double{q[b].scale} * whole), 0.5001 * double{q[b].scale})
            << kernels->name << " " << b << "," << k;
      }
      EXPECT_EQ(q[b].whole_half_sum[0], sums[0]);
      EXPECT_EQ(q[b].whole_half_sum[1], sums[1]);
      EXPECT_EQ(q[b].whole_sum, sums[0] + sums[1]);
      EXPECT_EQ(q[b].sum, q[b].scale * static_cast<float>(sums[0] + sums[1]));
      EXPECT_EQ(q[b].half_sum[1], q[b].scale * static_cast<float>(sums[1]));
    }
    EXPECT_EQ(q[2].scale, 0.0f);
    EXPECT_EQ(q[3].scale, 0.0f);
    if (first.empty()) first = q;
    EXPECT_EQ(std::memcmp(first.data(), q.data(), 16 * sizeof q[0]), 0) << kernels->name;
  }
}

double squared_errors(const float* x, const Int8Block& block) {
  double sum = 0;
  for (int k = 0; k < kActivationBlock; ++k) {
    const double off = double{x[k]} - double{block.scale} * block.high[k];
    sum += off * off;
  }
  return sum;
}

TEST(Quantize, Int8Rows_WhenQuantised_HaveTheBestOfTheirScales) {
  std::vector<float> x = random_rows(1, 512, 512, 71);
  x[40] = 1e30f;
  for (int i = 64; i < 96; ++i) x[static_cast<std::size_t>(i)] = 0;
  for (int i = 96; i < 128; ++i) x[static_cast<std::size_t>(i)] = 0x1p-120f;
  std::vector<Int8Block> first;
  double all = 0, with_largest = 0;
  for (const Kernels* kernels : int15_kernels()) {
    std::vector<Int8Block> q(16);
    const ActivationFormat& activation_format = *kernels->activation_format(Format::kQ4_K, true);
    ASSERT_EQ(activation_format.block_bytes, static_cast<std::int64_t>(sizeof q[0]));
    activation_format.make(x.data(), 512, reinterpret_cast<std::uint8_t*>(q.data()));
    for (std::size_t b = 0; b < 16; ++b) {
      const float* values = x.data() + 32 * b;
      std::int32_t sums[2] = {};
      float largest = 0;
      for (std::size_t k = 0; k < 32; ++k) {
        sums[k / 16] += q[b].high[k];
        largest = std::max(largest, std::fabs(values[k]));
      }
      EXPECT_EQ(q[b].whole_half_sum[0], sums[0]);
      EXPECT_EQ(q[b].whole_half_sum[1], sums[1]);
      EXPECT_EQ(q[b].whole_sum, sums[0] + sums[1]);
      EXPECT_EQ(q[b].start, -128 * (sums[0] + sums[1]));
      EXPECT_EQ(q[b].sum, q[b].scale * static_cast<float>(sums[0] + sums[1]));
      EXPECT_EQ(q[b].half_sum[1], q[b].scale * static_cast<float>(sums[1]));
      if (b < 4) continue;  // one large number, none, nothing left
      for (int i = 0; i < kInt8Scales; ++i) {
        Int8Block other = q[b];
        other.scale = largest / static_cast<float>(kInt8Max - i);
        for (std::size_t k = 0; k < 32; ++k) {
          other.high[k] = static_cast<std::int8_t>(std::lrint(values[k] / other.scale));
        }
        EXPECT_LE(squared_errors(values, q[b]), 1.0001 * squared_errors(values, other)) << b;
        if (i == 0) with_largest += squared_errors(values, other);
      }
      all += squared_errors(values, q[b]);
    }
    EXPECT_EQ(q[2].scale, 0.0f);
    EXPECT_EQ(q[3].scale, 0.0f);
    if (first.empty()) first = q;
    EXPECT_EQ(std::memcmp(first.data(), q.data(), 16 * sizeof q[0]), 0) << kernels->name;
  }
  EXPECT_LT(all, 0.9 * with_largest);  // the purpose of the search
}

TEST(Quantize, Products_WhenAnActivationIsNotFinite_AreNaN) {
  const TestMatrix m = random_matrix(gguf::TensorType::kQ4_K, 32, 256, 32, 41);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> x = random_rows(12, 256, 272, 42);
    x[3 * 272 + 77] = bad;
    for (const Kernels* kernels : all_kernels()) {
      for (const bool int8 : {false, true}) {
        const Product got = multiply(*kernels, m, x, 272, 12, 0, m.packed.panels, int8);
        for (std::int64_t i = 0; i < 12; ++i) {
          EXPECT_EQ(kernels->all_finite(got.y.data() + i * got.stride, 32), i != 3);
        }
      }
    }
  }
}

TEST(Matmul, UnpackRow_WithEveryWeightType_ReturnsTheFilesWeights) {
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

TEST(Pack, PackPanels_WhenARowIsNotFinite_NamesTheFirst) {
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
}  // namespace holdfast::cpu::matmul_test
