// Goal: the device computes what other implementations compute, for every architecture and KV type,
// and a row's bits do not depend on chunks, neighbours or on prefill against decode.
// Method: the small models of the conformance data; activations are float32, so errors are two
// orders of magnitude below what the project allows. Every architecture against an independent
// float64 model (tests/engine/reference_model.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/engine/reference_model.h"
#include "tests/engine/result_rows.h"
#include "tests/gpu/architectures.h"
#include "tests/gpu/test_device.h"

namespace holdfast::logits_test {
namespace {

using backend::Wants;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

reference::Rows rows_of(const std::vector<float>& all, const FamilyModel& m) {
  reference::Rows rows;
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(m.columns())) {
    rows.emplace_back(at, at + static_cast<std::ptrdiff_t>(m.columns()));
  }
  return rows;
}

TEST(GpuLogits, Logits_WithEveryWeightType_AgreeWithOtherImplementations) {
  HOLDFAST_NEEDS_DEVICE();
  const auto names = gpu::conformance_names();
  if (names.empty()) GTEST_SKIP() << "no conformance data";
  for (const std::string& name : names) {
    const gpu::ConformanceCase c = gpu::conformance_case(name);
    const std::vector<float> rows = run_family(c.model, gpu::on_device_uncached());
    const double error = gpu::relative_error(rows, c);
    EXPECT_LT(error, name.rfind("qwen3", 0) == 0 ? 2e-3 : 2e-5) << name;
    RunOptions other = gpu::on_device_uncached();
    other.chunk = 7;  // the last chunk has 5 rows: one wide group and one row of the next
    other.neighbour = true;
    EXPECT_TRUE(same_bits(run_family(c.model, other), rows)) << name;
    std::printf("%-16s %.2e\n", name.c_str(), error);
  }
}

// The CPU stores the same codes; where its sums round differently, a code may differ by one.
TEST(GpuLogits, Logits_WithEveryKvType_HaveTheSameBitsForChunksAndDecode) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 150);
  for (const char* kv : {"f32", "f16", "bf16", "int8", "fp8"}) {
    RunOptions options = gpu::on_device();
    options.kv = kv;
    const std::vector<float> all = run_family(m, options);
    RunOptions cpu;
    cpu.kv = kv;
    EXPECT_LT(reference::worst_error(all, rows_of(run_family(m, cpu), m)), 2e-3) << kv;
    for (const std::int32_t chunk : {1, 61}) {
      options.chunk = chunk;
      options.neighbour = chunk != 1;
      EXPECT_TRUE(same_bits(run_family(m, options), all)) << kv << " chunk " << chunk;
    }
  }
}

// Splits of 512 positions, merged: a context longer than one split. gpt-oss adds sinks.
TEST(GpuLogits, Logits_AcrossAttentionSplits_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  for (const char* name : {"llama", "gpt-oss"}) {
    const FamilyModel m = make_family(name, 0, 600, "q8_0");
    RunOptions options = gpu::on_device();
    options.kv = "f16";
    const std::vector<float> all = run_family(m, options);
    reference::Model reference(*m.file, 601);
    EXPECT_LT(reference::worst_error(all, reference.logits(m.tokens)), 2e-3) << name;
    for (const std::int32_t chunk : {97, 599}) {  // after 599 one row alone: splits in parallel
      options.chunk = chunk;
      EXPECT_TRUE(same_bits(run_family(m, options), all)) << name << " " << chunk;
    }
  }
}

// One to nine rows run in products of one, four or eight of them; heads are finished by attention
// or before it.
TEST(GpuLogits, Logits_WhenSeveralRowsShareAWeightRead_HaveTheSameBits) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("qwen3", 0, 45, "q8_0");
  RunOptions options = gpu::on_device();
  const std::vector<float> all = run_family(m, options);
  for (const std::int32_t chunk : {1, 2, 4, 5, 8, 9}) {
    options.chunk = chunk;
    options.neighbour = chunk % 2 == 0;
    EXPECT_TRUE(same_bits(run_family(m, options), all)) << chunk;
  }
}

// Queries and keys of one type and values of another, in one launch.
TEST(GpuLogits, Logits_WhenQkvWeightTypesDiffer_AgreeWithReference) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 40, "q4_k_m");
  ASSERT_TRUE(std::any_of(m.program.ops.begin(), m.program.ops.end(), [](const model::Op& op) {
    return op.kind == model::OpKind::kNormQkv && op.w[2].tensor->type != op.w[3].tensor->type;
  }));
  RunOptions options = gpu::on_device();
  const std::vector<float> all = run_family(m, options);
  reference::Model reference(*m.file, 41);
  EXPECT_LT(reference::worst_error(all, reference.logits(m.tokens)), 1e-4);
  options.chunk = 1;
  EXPECT_TRUE(same_bits(run_family(m, options), all));
}

TEST(GpuLogits, Argmax_WhenRequested_IsTheLowestIdOfTheGreatestLogit) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 40);
  const RunOptions options = gpu::on_device();
  auto executor = backend::load(options.device, m.program, load_options(m, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  ASSERT_TRUE((*executor)->capabilities().greatest);
  const std::vector<float> expected = run_on(**executor, m, options);
  const auto vocab = static_cast<std::int64_t>(m.columns());
  const std::int32_t mine[] = {1}, other[] = {0};
  for (const bool neighbour_full_rows : {false, true}) {  // a neighbour's rows are read in full
    const Wants of_other = neighbour_full_rows ? Wants::logits(2) : Wants::greatest(2);
    const auto result =
        (*executor)->forward({{{m.tokens.data(), 5, 0, other, of_other},
                               {m.tokens.data(), 40, 0, mine, Wants::greatest(40)}}});
    ASSERT_TRUE(result.has_value());
    for (std::int64_t i = 0; i < 40; ++i) {
      const float* row = expected.data() + i * vocab;
      EXPECT_EQ(result->greatest(static_cast<std::int32_t>(2 + i)),
                std::max_element(row, row + vocab) - row);
    }
    if (!neighbour_full_rows) continue;
    EXPECT_EQ(std::memcmp(copy_rows(*result, 0, 2, m.columns()).data(), expected.data() + 3 * vocab,
                          2 * m.columns() * sizeof(float)),
              0);
  }
}

// The other segment's rows request other numbers, the best logit, or all.
TEST(GpuLogits, TopLogits_WhenRequested_FollowTheTotalOrder) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 40);
  const RunOptions options = gpu::on_device();
  auto executor = backend::load(options.device, m.program, load_options(m, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::vector<float> expected = run_on(**executor, m, options);
  const auto vocab = static_cast<std::int32_t>(m.columns());
  const std::int32_t most = std::min((*executor)->capabilities().top_max, vocab);
  ASSERT_GE(most, 100);
  const std::int32_t pages[2][1] = {{0}, {1}};
  // Requested numbers of two segments of a batch; 0: all, -1: the best.
  for (const auto& top_counts : {std::pair(1, most), {most, 0}, {-1, 5}}) {
    backend::Batch batch;
    for (const std::int32_t n : {top_counts.first, top_counts.second}) {
      const Wants wants = n < 0    ? Wants::greatest(10)
                          : n == 0 ? Wants::logits(10)
                                   : Wants::top(n, 10);
      batch.segments.push_back({m.tokens.data(), 10, 0, pages[batch.segments.size()], wants});
    }
    const auto result = (*executor)->forward(batch);
    ASSERT_TRUE(result.has_value()) << result.error().what;
    for (std::int32_t i = 0; i < 20; ++i) {
      const float* row = expected.data() + static_cast<std::ptrdiff_t>(i % 10) * vocab;
      std::vector<std::int32_t> order(static_cast<std::size_t>(vocab));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
      const std::int32_t n = i < 10 ? top_counts.first : top_counts.second;
      if (n < 0) {
        EXPECT_EQ(result->greatest(i), order[0]);
      } else if (n == 0) {
        const float* whole = result->logits(i).at;
        EXPECT_TRUE(std::equal(whole, whole + vocab, row)) << i;
      }
      for (std::int32_t r = 0; r < n; ++r) {
        const backend::Ranked& one = result->top(i)[static_cast<std::size_t>(r)];
        EXPECT_EQ(one.id, order[static_cast<std::size_t>(r)]) << n << ": " << i << " " << r;
        EXPECT_EQ(one.logit, row[one.id]) << n << ": " << i << " " << r;
      }
    }
  }
}

TEST(GpuLogits, DeferredLogits_WhenComputed_AreThoseOfAForward) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 40);
  const RunOptions options = gpu::on_device();
  auto executor = backend::load(options.device, m.program, load_options(m, options));
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  const std::vector<float> expected = run_on(**executor, m, options);
  const std::int32_t mine[] = {1}, other[] = {0};
  const backend::Batch both{{{m.tokens.data(), 5, 0, other, Wants::logits(1)},
                             {m.tokens.data(), 40, 0, mine, Wants::deferred_logits()}}};
  ASSERT_TRUE((*executor)->forward(both).has_value());
  const std::uint64_t before = (*executor)->counters().allocations;
  for (std::int32_t at = 0, rows = 1; at < 40; at += rows, rows += 7) {
    rows = std::min(rows, 40 - at);
    const auto deferred = (*executor)->compute_deferred_logits(5 + at, rows);
    ASSERT_TRUE(deferred.has_value());
    const auto* first = expected.data() + static_cast<std::size_t>(at) * m.columns();
    EXPECT_EQ(std::memcmp(copy_rows(*deferred, m.columns()).data(), first,
                          static_cast<std::size_t>(rows) * m.columns() * sizeof(float)),
              0)
        << at;
  }
  EXPECT_EQ((*executor)->counters().allocations, before);
}

// Layers with a recurrent state: another sequence continues from a state snapshot of the first.
TEST(GpuStates, Sequence_FromAStateSnapshot_HasTheSameLogits) {
  HOLDFAST_NEEDS_DEVICE();
  for (const char* architecture : {"qwen35", "qwen3next"}) {
    const FamilyModel m = make_family(architecture, 4, 70);
    const RunOptions options = gpu::on_device();
    const std::vector<float> expected = run_family(m, options);
    backend::LoadOptions load = load_options(m, options);
    load.limits.states = 3;
    const auto executor = backend::load(options.device, m.program, load);
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    const std::int32_t pages[] = {1, 4};
    for (const std::int32_t prefix_length : {1, 2, 33, 64}) {
      backend::Segment first{m.tokens.data(), 64, 0, pages, Wants::logits(64)};
      first.states.snapshot = backend::StateSnapshot{prefix_length, 2};
      ASSERT_TRUE((*executor)->forward({{first}}).has_value());
      const std::int32_t left = 70 - prefix_length;
      backend::Segment rest{m.tokens.data() + prefix_length, left, prefix_length, pages,
                            Wants::logits(left)};
      rest.states = {1, 2};
      const auto result = (*executor)->forward({{rest}});
      ASSERT_TRUE(result.has_value()) << result.error().what;
      const float* want = expected.data() + static_cast<std::size_t>(prefix_length) * m.columns();
      const std::size_t bytes = static_cast<std::size_t>(left) * m.columns() * sizeof(float);
      EXPECT_EQ(std::memcmp(copy_rows(*result, m.columns()).data(), want, bytes), 0)
          << architecture << " " << prefix_length;
    }
  }
}

class GpuFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuFamilies, Logits_WithChunksAndNeighbours_AgreeWithReferenceAndRepeatBits) {
  HOLDFAST_NEEDS_DEVICE();
  for (const std::uint64_t seed : {1, 4}) {  // 4: sizes that fill neither blocks nor panels
    const FamilyModel m = make_family(GetParam(), seed, 90);
    ASSERT_FALSE(m.tokens.empty()) << seed;
    reference::Model reference(*m.file, 91);
    const bool causal = m.program.shape.causal;
    const reference::Rows want = causal ? reference.logits(m.tokens) : reference.hidden(m.tokens);
    const std::vector<float> all = run_family(m, gpu::on_device());
    EXPECT_LT(reference::worst_error(all, want), 1e-4) << "seed " << seed;
    RunOptions options = gpu::on_device();
    options.chunk = 32;
    options.neighbour = true;
    EXPECT_TRUE(same_bits(run_family(m, options), all)) << "seed " << seed;
    options.sparse_logits =
        true;  // the first and the fourth chunk have none: their last layer ends early
    options.neighbour = false;
    for (const std::int32_t chunk : {3, 25}) {
      options.chunk = chunk;
      EXPECT_TRUE(same_requested_rows(m, options, run_family(m, options), all)) << seed << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuFamilies, ::testing::ValuesIn(gpu::architectures()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace holdfast::logits_test
