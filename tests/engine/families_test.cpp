// Goal: every architecture computes what its papers and published code say, and keeps the contract
// of numerics: a row's bits do not depend on kernel families, threads, chunks and neighbours.
// Method: tiny random models (`holdfast synth --arch`) of drawn sizes, odd ones among them, with
// biases, caps, windows shorter than the text, experts, and every way of stretching positions;
// logits against an independent float64 model (reference_model.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "ops/model_tools/synth_family.h"
#include "tests/engine/family_runs.h"
#include "tests/engine/reference_model.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::families_test {
namespace {

constexpr std::int32_t kTokens = 90;  // above the windows and the original context of 64

double error_of(const FamilyModel& m, const RunOptions& options) {
  const std::int64_t context =
      options.context > 0 ? options.context : static_cast<std::int64_t>(m.tokens.size()) + 1;
  reference::Model reference(*m.file, context);
  const reference::Rows want =
      m.program.shape.causal ? reference.logits(m.tokens) : reference.hidden(m.tokens);
  return reference::worst_error(run_family(m, options), want);
}

class Families : public ::testing::TestWithParam<std::string> {};

TEST_P(Families, Logits_WithEveryRopeScaling_AgreeWithFloat64Reference) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {  // each way of stretching positions once
    const FamilyModel m = make_family(GetParam(), seed, kTokens);
    ASSERT_FALSE(m.tokens.empty()) << seed;
    RunOptions options;
    options.chunk = seed % 2 == 0 ? 0 : 32;
    const double error = error_of(m, options);
    EXPECT_LT(error, 1e-4) << "seed " << seed;
    RecordProperty("error_of_seed_" + std::to_string(seed), std::to_string(error));
  }
}

TEST_P(Families, Logits_WhenKernelsThreadsChunksOrNeighboursDiffer_HaveTheSameBits) {
  const FamilyModel m = make_family(GetParam(), 7, 70, "q8_0");
  ASSERT_FALSE(m.tokens.empty());
  RunOptions first;
  first.kv = "f16";
  std::vector<std::string> families = backend::cpu_families();
  if (cpu::select_family("amx-emulated").has_value()) families.emplace_back("amx-emulated");
  std::map<std::string, std::vector<float>> wants;  // by numerics class
  for (const std::string& kernels : families) {
    std::vector<float>& want = wants[cpu::select_family(kernels).value()->numerics];
    first.kernels = kernels;
    if (want.empty()) want = run_family(m, first);
    for (int i = 0; i < 4; ++i) {
      RunOptions o = first;
      o.kernels = kernels;
      o.threads = 1 + i % 3;
      o.chunk = std::vector<int>{1, 3, 9, 64}[static_cast<std::size_t>(i)];
      o.neighbour = i % 2 == 1;
      if (kernels == "scalar" && i != 3) continue;  // slow
      const std::vector<float> have = run_family(m, o);
      ASSERT_EQ(have.size(), want.size());
      EXPECT_EQ(std::memcmp(have.data(), want.data(), want.size() * sizeof(float)), 0)
          << kernels << " threads " << o.threads << " chunk " << o.chunk;
    }
  }
}

// From 320 rows on threads divide them, and each group has all of the weights' panels.
TEST_P(Families, Logits_WhenThreadsDivideTheRows_HaveTheSameBits) {
  // Models with a table of positions have 256: bert has a long neighbour, gpt2 one like the
  // others'.
  const bool short_context = GetParam() == std::string("gpt2") || GetParam() == std::string("bert");
  const FamilyModel m = make_family(GetParam(), 7, short_context ? 250 : 345, "q8_0");
  ASSERT_FALSE(m.tokens.empty());
  for (const std::string kernels : {"", "amx-emulated"}) {
    if (!kernels.empty() && !cpu::select_family(kernels).has_value()) continue;
    RunOptions o;
    o.kv = "f16";
    o.kernels = kernels;
    o.chunk = 64;
    const std::vector<float> want = run_family(m, o);
    o.chunk = 0;
    o.neighbour = true;
    for (const int threads : {2, 3}) {
      o.threads = threads;
      const std::vector<float> have = run_family(m, o);
      ASSERT_EQ(have.size(), want.size());
      EXPECT_EQ(std::memcmp(have.data(), want.data(), want.size() * sizeof(float)), 0)
          << kernels << " threads " << threads;
    }
  }
}

// The last layers leave out rows of which nothing is requested.
TEST_P(Families, Logits_WhenRequestedForSomeRows_HaveTheSameBits) {
  std::uint64_t seed = 7;  // or the next whose last layer has attention
  FamilyModel m = make_family(GetParam(), seed, 70, "q8_0");
  const plan::ModelShape& shape = m.program.shape;
  while (shape.attention_step > 0 && shape.layers % shape.attention_step != 0) {
    m = make_family(GetParam(), ++seed, 70, "q8_0");
  }
  ASSERT_FALSE(m.tokens.empty());
  RunOptions all;
  all.kv = "f16";
  const std::vector<float> want = run_family(m, all);
  for (const int chunk : {1, 5, 9, 33, 70}) {
    RunOptions o = all;
    o.sparse_logits = true;
    o.chunk = chunk;
    o.threads = chunk == 1 ? 3 : 1 + chunk % 2;  // three share the vocabulary anywhere
    o.neighbour = chunk % 3 == 0;
    EXPECT_TRUE(same_requested_rows(m, o, run_family(m, o), want)) << "chunk " << chunk;
  }
}

bool has_type(const FamilyModel& m, gguf::TensorType type) {
  const auto& tensors = m.file->tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const gguf::TensorInfo& tensor) { return tensor.type == type; });
}

/// `m` with some of its weights as `other` has them, so that an operation has both weight types.
void mix_weights(FamilyModel& m, const FamilyModel& other) {
  for (std::size_t i = 0; i < m.program.ops.size(); ++i) {
    model::Op& op = m.program.ops[i];
    const auto [first, end] = model::product_weights(op.kind);
    const int w = end - 1 - static_cast<int>(i % 2);
    if (end - first > 1 && op.w[w].present()) op.w[w] = other.program.ops[i].w[w];
  }
}

/// The relative distance of the nearest row. Where rounding makes a token take another expert, its
/// row is another one, and so are those of the tokens that look at it; wrong products would be in
/// all rows.
double distance(const std::vector<float>& a, const std::vector<float>& b, std::size_t columns) {
  double nearest = 1e9;
  for (std::size_t at = 0; at < a.size(); at += columns) {
    double error = 0, length = 0;
    for (std::size_t i = at; i < at + columns; ++i) {
      error += std::pow(double{a[i]} - b[i], 2);
      length += std::pow(double{b[i]}, 2);
    }
    nearest = std::min(nearest, std::sqrt(error / length));
  }
  return nearest;
}

TEST_P(Families, Bf16Pairs_WhenMixedWithQuantisedWeights_HaveTheirBits) {
  const std::string emulated = "avx512bf16-emulated";
  if (!cpu::select_family(emulated).has_value()) {
    GTEST_SKIP() << "this processor has no AVX-512";
  }
  std::uint64_t seed = 7;  // or the next whose rows are whole blocks
  while (!has_type(make_family(GetParam(), seed, 70, "q8_0"), gguf::TensorType::kQ8_0)) ++seed;
  const FamilyModel quantised = make_family(GetParam(), seed, 70, "q8_0");
  for (const bool mixed : {false, true}) {
    FamilyModel m = make_family(GetParam(), seed, 70, "bf16");
    if (mixed) mix_weights(m, quantised);
    RunOptions o;
    o.kv = "f16";
    o.kernels = "avx512";
    const std::vector<float> floats = run_family(m, o);
    std::vector<float> want;
    for (const std::string& kernels : {emulated, std::string("avx512bf16")}) {
      if (!cpu::select_family(kernels).has_value()) continue;
      for (const int chunk : {64, 9, 1}) {
        o.kernels = kernels;
        o.threads = 1 + chunk % 2;
        o.chunk = chunk;
        o.neighbour = chunk != 64;
        const std::vector<float> have = run_family(m, o);
        if (want.empty()) want = have;
        ASSERT_EQ(have.size(), want.size());
        EXPECT_EQ(std::memcmp(have.data(), want.data(), want.size() * sizeof(float)), 0)
            << kernels << " chunk " << chunk << (mixed ? " mixed" : "");
      }
    }
    EXPECT_LT(distance(want, floats, m.columns()), 0.02) << mixed;
  }
}

/// Expects each kind of sequence to have the bits of its own kernels, whatever kind runs with it.
void expect_own_bits(const FamilyModel& m, const std::string& prefill_kernels) {
  RunOptions alone;
  alone.kv = "f16";
  for (const bool prefill_heavy : {false, true}) {
    alone.kernels = prefill_heavy ? prefill_kernels : "avx512";
    const std::vector<float> want = run_family(m, alone);
    for (const int chunk : {1, 9, 64}) {
      RunOptions o = alone;
      o.kernels = "avx512+" + prefill_kernels;
      o.threads = 1 + chunk % 2;
      o.chunk = chunk;
      o.prefill_heavy = prefill_heavy;
      o.neighbour = true;
      o.neighbour_prefill_heavy = chunk == 1 ? prefill_heavy : !prefill_heavy;
      for (const bool sparse_logits : {false, true}) {
        o.sparse_logits = sparse_logits;
        EXPECT_TRUE(same_requested_rows(m, o, run_family(m, o), want))
            << prefill_kernels << " reads " << prefill_heavy << " chunk " << chunk << " few "
            << sparse_logits;
      }
    }
  }
}

TEST_P(Families, KernelClasses_WhenInOneBatch_HaveTheirBitsAlone) {
  if (!cpu::select_family("avx512+amx-emulated").has_value()) {
    GTEST_SKIP() << "this processor has no AVX-512";
  }
  FamilyModel m = make_family(GetParam(), 7, 70, "q8_0");
  ASSERT_FALSE(m.tokens.empty());
  expect_own_bits(m, "amx-emulated");
  const FamilyModel bf16 = make_family(GetParam(), 7, 70, "bf16");
  mix_weights(m, bf16);
  expect_own_bits(m, "avx512bf16-emulated");
}

// The rule for prefill-heavy sequences decides their bits, so it is part of their numerics class.
TEST(NumericsClass, NumericsClass_WhenKernelClassesDiffer_NamesTheRatio) {
  const FamilyModel m = make_family("llama", 0, 8, "q8_0");
  for (const auto& [kernels, end] :
       {std::pair{"avx512+amx-emulated", ":12"}, std::pair{"avx512+avx512bf16-emulated", ":16"},
        std::pair{"scalar", "/r4"}}) {
    if (!cpu::select_family(kernels).has_value()) continue;
    RunOptions options;
    options.kernels = kernels;
    const auto executor = backend::load("cpu", m.program, load_options(m, options));
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    EXPECT_TRUE((*executor)->capabilities().class_prefix.ends_with(end))
        << (*executor)->capabilities().class_prefix;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(cli::synth_architectures()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace holdfast::families_test
