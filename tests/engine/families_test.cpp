// Goal: every architecture computes what its papers and published code say, and keeps the contract
// of numerics: a row's bits do not depend on families, threads, chunks and neighbours.
// Method: tiny random models (`holdfast synth --arch`) of drawn sizes, odd ones among them, with
// biases, caps, windows shorter than the text, experts, and every way of stretching positions;
// logits against an independent float64 model (reference_model.h).

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "ops/cli/synth_family.h"
#include "tests/engine/family_runs.h"
#include "tests/engine/reference_model.h"
#include "worker/backend/cpu/family.h"

namespace holdfast {
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

TEST_P(Families, AgreesWithTheReference) {
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

TEST_P(Families, SameBitsForKernelsThreadsChunksAndNeighbours) {
  const FamilyModel m = make_family(GetParam(), 7, 70, "q8_0");
  ASSERT_FALSE(m.tokens.empty());
  RunOptions first;
  first.kv = "f16";
  std::vector<std::string> families = backend::cpu_families();
  if (cpu::select_family("amx-emulated").has_value()) families.emplace_back("amx-emulated");
  std::map<std::string, std::vector<float>> wants;  // by numeric class
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

TEST_P(Families, ReadersAndWritersHaveTheirOwnBitsInOneBatch) {
  if (!cpu::select_family("avx512+amx-emulated").has_value()) {
    GTEST_SKIP() << "this processor has no AVX-512";
  }
  const FamilyModel m = make_family(GetParam(), 7, 70, "q8_0");
  ASSERT_FALSE(m.tokens.empty());
  RunOptions alone;
  alone.kv = "f16";
  for (const bool reads : {false, true}) {
    alone.kernels = reads ? "amx-emulated" : "avx512";
    const std::vector<float> want = run_family(m, alone);
    for (const int chunk : {1, 9, 64}) {
      RunOptions o = alone;
      o.kernels = "avx512+amx-emulated";
      o.threads = 1 + chunk % 2;
      o.chunk = chunk;
      o.reads = reads;
      o.neighbour = true;
      o.neighbour_reads = chunk == 1 ? reads : !reads;
      const std::vector<float> have = run_family(m, o);
      ASSERT_EQ(have.size(), want.size());
      EXPECT_EQ(std::memcmp(have.data(), want.data(), want.size() * sizeof(float)), 0)
          << "reads " << reads << " chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(cli::synth_architectures()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace holdfast
