// Goal: `quantize` gives files whose weights are at least as near the exact ones as those of the
// most used quantizer, with the tensor types that its users expect, whole and the same for any
// number of threads; wrong input is refused and leaves no file. Method: random rows in every type
// against the error of plain rounding; a model with odd widths through the verb's function; and,
// where it is there, the demo model against files of llama.cpp.

#include "ops/model_tools/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "ops/model_tools/synth.h"
#include "shared/gguf/quantize.h"
#include "shared/gguf/quants.h"
#include "shared/gguf/writer.h"
#include "shared/plan/plan.h"

namespace holdfast::cli::quantize_test {
namespace {

using gguf::File;
using gguf::TensorInfo;
using gguf::TensorType;

class TempFolder {
 public:
  TempFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("holdfast-quantize-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> values_of(const TensorInfo& tensor) {
  std::vector<float> out(tensor.elements());
  EXPECT_TRUE(gguf::dequantize_row(tensor.type, tensor.data.data(), out.data(), out.size()));
  return out;
}

/// 2-norm of the difference from the exact weights over that of the exact ones, over all matrices.
double weight_error(const File& exact, const File& other) {
  double difference = 0, norm = 0;
  for (const TensorInfo& tensor : exact.tensors()) {
    if (tensor.n_dims < 2) continue;
    const TensorInfo* found = other.tensor(tensor.name);
    EXPECT_TRUE(found != nullptr && found->elements() == tensor.elements()) << tensor.name;
    if (found == nullptr) return 1;
    const std::vector<float> a = values_of(tensor);
    const std::vector<float> b = values_of(*found);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
      difference += d * d;
      norm += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    }
  }
  return std::sqrt(difference / norm);
}

double row_error(TensorType type, const std::vector<float>& x) {
  std::vector<std::byte> blocks(*gguf::row_bytes(type, x.size()));
  EXPECT_TRUE(gguf::quantize_row(type, x.data(), x.size(), blocks.data()));
  std::vector<float> y(x.size());
  EXPECT_TRUE(gguf::dequantize_row(type, blocks.data(), y.data(), y.size()));
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * static_cast<double>(x[i] - y[i]);
    norm += x[i] * static_cast<double>(x[i]);
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

std::vector<float> normal_row(std::size_t n, unsigned seed, float sigma = 0.05f, float mean = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, sigma);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

constexpr TensorType kBlockTypes[] = {TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,
                                      TensorType::kQ5_1, TensorType::kQ8_0,   TensorType::kQ2_K,
                                      TensorType::kQ3_K, TensorType::kQ4_K,   TensorType::kQ5_K,
                                      TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS,
                                      TensorType::kMXFP4};

// Bounds: the errors of this search on normal weights, and a few hundredths more.
TEST(QuantizeRow, QuantizeRow_WithNormalWeights_HasErrorsWithinBounds) {
  const std::pair<TensorType, double> kBounds[] = {
      {TensorType::kQ8_0, 0.0051}, {TensorType::kQ6_K, 0.0173},   {TensorType::kQ5_K, 0.0350},
      {TensorType::kQ5_1, 0.0355}, {TensorType::kQ5_0, 0.0420},   {TensorType::kQ4_K, 0.0709},
      {TensorType::kQ4_1, 0.0730}, {TensorType::kQ4_0, 0.0850},   {TensorType::kIQ4_NL, 0.0771},
      {TensorType::kQ3_K, 0.1473}, {TensorType::kIQ4_XS, 0.0771}, {TensorType::kQ2_K, 0.2740},
      {TensorType::kMXFP4, 0.1160}};
  const std::vector<float> x = normal_row(64 * 256, 1);
  for (const auto& [type, bound] : kBounds) {
    EXPECT_LT(row_error(type, x), bound) << gguf::type_traits(type)->name;
    EXPECT_GT(row_error(type, x), bound * 0.9) << gguf::type_traits(type)->name;
  }
}

// Rows that break a careless search: only zeros, one value, one sign, one outlier, numbers near the
// ends of a half. The error is finite everywhere, and 0 where the format can be exact.
TEST(QuantizeRow, QuantizeRow_WithDegenerateRows_StaysFiniteAndWithinBounds) {
  std::vector<float> outlier = normal_row(256, 2, 1e-4f);
  outlier[77] = 40;
  for (const TensorType type : kBlockTypes) {
    const auto name = gguf::type_traits(type)->name;
    EXPECT_EQ(row_error(type, std::vector<float>(256, 0.0f)), 0) << name;
    EXPECT_LT(row_error(type, std::vector<float>(256, 0.25f)), 0.01) << name;
    EXPECT_LT(row_error(type, std::vector<float>(256, -3.0f)), 0.01) << name;
    // MXFP4's scales are powers of two, and it has nothing between 4 and 6 of them.
    const bool is_mxfp4 = type == TensorType::kMXFP4;
    EXPECT_LT(row_error(type, outlier), is_mxfp4 ? 0.21 : 0.05) << name;
    EXPECT_LT(row_error(type, normal_row(256, 3, 9000.0f)), 0.3) << name;
    EXPECT_LT(row_error(type, normal_row(256, 4, 0.05f, 5.0f)), is_mxfp4 ? 0.21 : 0.08) << name;
    EXPECT_LE(row_error(type, normal_row(256, 5, 1e-7f)), 1) << name;   // below a half's reach
    EXPECT_LE(row_error(type, normal_row(256, 6, 1e-42f)), 1) << name;  // subnormal
    // Their squares are 0: every scale looks as good as none.
    EXPECT_LE(row_error(type, normal_row(256, 7, 1e-30f)), 1) << name;
  }
}

// Rows of one offset and hardly any width: the stored minimum is off by more than the width, and
// the next best lines would have a scale or a minimum below 0. Only the halves' rounding may be
// lost.
TEST(QuantizeRow, QuantizeRow_WithNarrowRowsFarFromZero_LosesOnlyHalfRounding) {
  std::mt19937 random(10);
  std::uniform_real_distribution<float> share(0, 1);
  for (int i = 0; i < 200; ++i) {
    const float offset = -std::pow(10.0f, 3 * share(random) - 1);
    const float width = -offset * std::pow(10.0f, -3 - 2 * share(random));
    std::vector<float> x(256);
    for (const int period : {2, 16, 256}) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] = offset + width * (k < static_cast<std::size_t>(period) ? share(random) : 0);
        if (k >= static_cast<std::size_t>(period)) x[k] = x[k - static_cast<std::size_t>(period)];
      }
      for (const TensorType type : {TensorType::kQ2_K, TensorType::kQ4_K, TensorType::kQ5_K}) {
        EXPECT_LT(row_error(type, x), 6e-4) << offset << " " << width << " " << period;
      }
    }
  }
}

// Groups whose sizes differ by powers of ten, none of them below 0: the lines of the small ones are
// rounded to the steps that the largest leaves, and the best minimum for that can be below 0. The
// error must not exceed that of normal weights.
TEST(QuantizeRow, QuantizeRow_WithGroupsOfDifferentScales_HasErrorsWithinBounds) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> share(0, 1);
  std::normal_distribution<float> normal;
  const std::pair<TensorType, double> kBounds[] = {
      {TensorType::kQ2_K, 0.2740}, {TensorType::kQ4_K, 0.0709}, {TensorType::kQ5_K, 0.0350}};
  for (int i = 0; i < 200; ++i) {
    std::vector<float> x(256);
    for (std::size_t g = 0; g < 16; ++g) {
      const float mean = normal(random) * std::pow(10.0f, -4 * share(random));
      const float width = share(random) < 0.3f ? std::pow(10.0f, -5 * share(random)) : 0;
      for (std::size_t k = 0; k < 16; ++k) {
        x[16 * g + k] = std::fabs(mean + width * normal(random));
      }
    }
    for (const auto& [type, bound] : kBounds) {
      EXPECT_LT(row_error(type, x), bound) << gguf::type_traits(type)->name;
    }
  }
}

TEST(QuantizeRow, QuantizeRow_WithNonFiniteOrTooLargeValues_IsRefused) {
  std::vector<std::byte> out(4096);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x(256, 1.0f);
    x[200] = bad;
    for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ4_K}) {
      const auto done = gguf::quantize_row(type, x.data(), x.size(), out.data());
      ASSERT_FALSE(done && type != TensorType::kF32);
      if (!done) {
        EXPECT_EQ(done.error().code, Errc::kFileInvalid);
        EXPECT_NE(done.error().what.find("element 200"), std::string::npos) << done.error().what;
      }
    }
  }
  std::vector<float> large(256, 1e5f);
  EXPECT_FALSE(gguf::quantize_row(TensorType::kF16, large.data(), 256, out.data()));
  EXPECT_TRUE(gguf::quantize_row(TensorType::kBF16, large.data(), 256, out.data()));
  EXPECT_EQ(gguf::quantize_row(TensorType::kIQ1_S, large.data(), 256, out.data()).error().code,
            Errc::kUnsupported);
  EXPECT_FALSE(gguf::can_quantize(TensorType::kIQ1_S));
  const auto unknown =
      gguf::quantize_row(static_cast<TensorType>(99), large.data(), 256, out.data());
  EXPECT_EQ(unknown.error().code, Errc::kUnsupported);
  EXPECT_EQ(unknown.error().what, "quantize: tensor type 99 cannot be written");
}

TEST(QuantizeRow, QuantizeRow_WithTypeF32_CopiesTheBits) {
  std::vector<float> x = normal_row(100, 8);
  x[3] = -0.0f;
  x[4] = 1e-42f;
  x[5] = std::numeric_limits<float>::max();
  std::vector<float> y(x.size());
  ASSERT_TRUE(gguf::quantize_row(TensorType::kF32, x.data(), x.size(), y.data()));
  EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0);
  EXPECT_TRUE(gguf::quantize_row(TensorType::kF32, nullptr, 0, nullptr));
}

Result<Quantized> quantize(const std::string& in, const std::string& out, const std::string& type,
                           int threads = 2) {
  return quantize_file({in, out, type, threads}, {});
}

TEST(QuantizeFile, QuantizeFile_WithAnyThreadCount_GivesSameBytesAndMetadata) {
  const TempFolder folder;
  ASSERT_TRUE(synth("test-llama", folder.at("f32"), "f32", 7, {}));
  ASSERT_TRUE(quantize(folder.at("f32"), folder.at("one"), "q4_k_m", 1));
  ASSERT_TRUE(quantize(folder.at("f32"), folder.at("three"), "Q4_K_M", 3));
  EXPECT_EQ(contents(folder.at("one")), contents(folder.at("three")));
  const auto before = File::open(folder.at("f32")).value();
  const auto after = File::open(folder.at("one")).value();
  for (const std::string& key : before->keys()) {
    if (key == "general.file_type") continue;
    const ByteSpan a = before->raw_value(key);
    const ByteSpan b = after->raw_value(key);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << key;
  }
  EXPECT_EQ(after->get_u64("general.file_type"), 15u);
  EXPECT_EQ(after->get_u64("general.quantization_version"), 2u);
  ASSERT_TRUE(plan::read_shape(*after).has_value());
  const auto norm = [](const File& f) { return values_of(*f.tensor("blk.0.attn_norm.weight")); };
  EXPECT_EQ(norm(*before), norm(*after));
  EXPECT_EQ(folder.files(), 3u);  // no temporary file is left
}

// smollm2's width of 576 is no multiple of 256: most tensors fall back, with a warning.
TEST(QuantizeFile, QuantizeFile_WhenRowsDoNotDivide_FallsBackWithAWarning) {
  const TempFolder folder;
  gguf::Writer writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", 1);
  const std::vector<float> x = normal_row(96 * 3, 9);
  for (const char* name : {"output.weight", "blk.0.attn_q.weight", "blk.0.attn_v.weight"}) {
    writer.add_tensor(name, TensorType::kF32, {96, 3}, [&](const gguf::Writer::Sink& sink) {
      return sink(std::as_bytes(std::span(x)));
    });
  }
  writer.add_tensor(
      "blk.0.odd.weight", TensorType::kF32, {36, 8},
      [&](const gguf::Writer::Sink& sink) { return sink(std::as_bytes(std::span(x))); });
  ASSERT_TRUE(writer.write(folder.at("in")));
  const auto made = quantize(folder.at("in"), folder.at("out"), "q4_k_m");
  ASSERT_TRUE(made) << made.error().what;
  const auto file = File::open(folder.at("out")).value();
  EXPECT_EQ(file->tensor("output.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ(file->tensor("blk.0.attn_q.weight")->type, TensorType::kQ5_0);
  EXPECT_EQ(file->tensor("blk.0.odd.weight")->type, TensorType::kF16);
  ASSERT_GE(made.value().warnings.size(), 2u);
  EXPECT_NE(made.value().warnings[1].find("Q5_0 instead of Q4_K"), std::string::npos)
      << made.value().warnings[1];
  // A quantised file may be quantised again, with a warning.
  const auto again = quantize(folder.at("out"), folder.at("again"), "q8_0");
  ASSERT_TRUE(again);
  EXPECT_NE(again.value().warnings.back().find("quantised already"), std::string::npos);
}

TEST(QuantizeFile, QuantizeFile_WhenItFails_LeavesTheOldFile) {
  const TempFolder folder;
  ASSERT_TRUE(synth("tiny", folder.at("in"), "f32", 7, {}));
  std::ofstream(folder.at("out")) << "precious";
  EXPECT_EQ(quantize(folder.at("in"), folder.at("out"), "q9_9").error().code, Errc::kUsage);
  EXPECT_EQ(quantize(folder.at("none"), folder.at("out"), "q8_0").error().code, Errc::kIo);
  EXPECT_EQ(quantize(folder.at("out"), folder.at("x"), "q8_0").error().code, Errc::kFileInvalid);
  int calls = 0;
  const auto stopped =
      quantize_file({folder.at("in"), folder.at("out"), "q8_0", 1}, {}, [&]() -> Result<void> {
        if (++calls < 3) return {};
        return Error{Errc::kCancelled, "stopped"};
      });
  EXPECT_EQ(stopped.error().code, Errc::kCancelled);
  EXPECT_EQ(contents(folder.at("out")), "precious");
  EXPECT_EQ(folder.files(), 2u);
  // A NaN is found and its tensor named.
  std::string bytes = contents(folder.at("in"));
  const auto file = File::open(folder.at("in")).value();
  const auto* at = file->tensor("blk.1.ffn_up.weight")->data.data();
  const auto* start = file->tensors().front().data.data();
  const std::size_t data = bytes.size();
  std::size_t end = 0;
  for (const TensorInfo& t : file->tensors())
    end = std::max<std::size_t>(end, t.offset + t.data.size());
  const std::size_t first = data - (end + 31) / 32 * 32;
  const float nan = NAN;
  std::memcpy(bytes.data() + first + (at - start), &nan, sizeof nan);
  std::ofstream(folder.at("nan"), std::ios::binary) << bytes;
  const auto refused = quantize(folder.at("nan"), folder.at("out"), "q4_0");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("blk.1.ffn_up.weight"), std::string::npos)
      << refused.error().what;
}

// The errors are not above those of llama.cpp's files of the same model, with the same tensor
// types.
TEST(QuantizeFile, QuantizeFile_WithTheDemoModel_IsAsExactAsLlamaCpp) {
  const char* env = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::string conformance = env ? env : HOLDFAST_SOURCE_DIR "/../shared/conformance";
  const std::string exact = conformance + "/../models/holdfast-demo.gguf";
  if (!std::filesystem::exists(exact)) GTEST_SKIP() << exact << " is absent";
  const TempFolder folder;
  const auto demo = File::open(exact).value();
  for (const char* type : {"Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0"}) {
    ASSERT_TRUE(quantize(exact, folder.at("ours"), type));
    const auto ours = File::open(folder.at("ours")).value();
    const auto theirs =
        File::open(conformance + "/quantised/holdfast-demo-" + type + ".gguf").value();
    for (const TensorInfo& tensor : theirs->tensors()) {
      ASSERT_NE(ours->tensor(tensor.name), nullptr) << tensor.name;
      EXPECT_EQ(ours->tensor(tensor.name)->type, tensor.type) << type << " " << tensor.name;
    }
    EXPECT_EQ(ours->get_u64("general.file_type"), theirs->get_u64("general.file_type"));
    const double error = weight_error(*demo, *ours);
    EXPECT_LE(error, weight_error(*demo, *theirs)) << type;
    RecordProperty(type, std::to_string(error));
  }
}

}  // namespace
}  // namespace holdfast::cli::quantize_test
