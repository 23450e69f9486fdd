// Goal: a model over several devices has the bits of one device, pipeline parallel or tensor
// parallel, and whether rows go from device to device or through the host; it takes the memory of
// its parts, and releases all of it when one of them fails. Method: PoCL is told to give four
// devices; where there are fewer, one is named more than once. Models of every shape of program;
// the device's functions watched (watched_api.h).

#include "worker/backend/opencl/pipeline/pipeline_parallel.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/result_rows.h"
#include "tests/gpu/devices.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/load.h"
#include "worker/backend/opencl/single/rows_part.h"

namespace holdfast::parallel_test {
namespace {

using backend::Wants;
using gpu::several_devices;
using gpu::watch;

auto load_on(const std::string& device, const FamilyModel& m, const RunOptions& options) {
  return opencl::load_with(gpu::watched_api(), device, m.program, load_options(m, options));
}

/// Expects the bits of one device, for the whole prompt and for chunks with a neighbour. With
/// `peers`, rows are copied from buffer to buffer; without (copies do not arrive), never.
void expect_same_bits(const std::string& device, const FamilyModel& m, RunOptions options,
                      const std::vector<float>& expected, bool peers) {
  watch() = {};
  watch().lose_copies = !peers;
  {
    const auto executor = load_on(device, m, options);
    ASSERT_TRUE(executor.has_value()) << device << " " << executor.error().what;
    watch().copies = 0;
    for (const std::int32_t chunk : {0, 9, 1}) {
      options.chunk = chunk;
      options.neighbour = chunk == 9;
      EXPECT_EQ(run_on(**executor, m, options), expected) << device << " chunk " << chunk;
    }
    options.sparse_logits = true;
    options.neighbour = false;
    options.chunk = 9;
    EXPECT_TRUE(same_requested_rows(m, options, run_on(**executor, m, options), expected))
        << device;
    options.sparse_logits = false;
    options.chunk = 0;
    if (auto* layers = dynamic_cast<opencl::PipelineParallelExecutor*>(executor->get())) {
      for (const std::int32_t rows : {17, 6, 1}) {
        layers->set_micro_batch_rows(rows);
        options.neighbour = rows == 6;
        EXPECT_EQ(run_on(**executor, m, options), expected) << device << " pieces of " << rows;
      }
    }
    EXPECT_EQ(watch().copies > 0, peers) << device;
  }
  EXPECT_EQ(watch().live, 0) << device;
  watch() = {};
}

class GpuParallelFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuParallelFamilies, Logits_OverSeveralDevices_HaveTheBitsOfOne) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family(GetParam(), 3, 40, "q8_0");
  RunOptions options = gpu::on_device();
  options.kv = "f16";
  const std::vector<float> expected = run_family(m, options);
  ASSERT_FALSE(expected.empty());
  for (const std::size_t n : {2, 4}) {
    for (const char between : {'+', ','}) {
      const bool fits = between == ','
                            ? opencl::rows_part(m.program, 0, static_cast<int>(n)).has_value()
                            : m.program.shape.layers >= static_cast<std::int64_t>(n);
      for (const bool peers : {true, false}) {
        if (fits) expect_same_bits(several_devices(n, between), m, options, expected, peers);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuParallelFamilies,
                         ::testing::Values("llama", "gemma2", "mixtral", "qwen2moe", "olmo2",
                                           "phi3", "gpt2", "bert", "gpt-oss", "glm4moe",
                                           "command-r"),
                         [](const auto& info) { return test_name(info.param); });

// Int8 rows also go from device to device, or are packed from floats on the receiving one.
TEST(GpuParallel, ByteTierLogits_OverSeveralDevices_HaveTheBitsOfOne) {
  HOLDFAST_NEEDS_DEVICE();
  for (const char* architecture : {"llama", "qwen2moe", "gpt2", "glm4moe"}) {
    const FamilyModel m = make_family(architecture, 4, 40, "q8_0");  // sizes that fill no panel
    RunOptions options = gpu::on_device();
    options.kernels = "t2";
    const std::vector<float> expected = run_family(m, options);
    ASSERT_FALSE(expected.empty());
    for (const char between : {'+', ','}) {
      expect_same_bits(several_devices(2, between), m, options, expected, between == '+');
    }
  }
}

/// A batch's logits, and the best token of rows of which only that is requested.
std::vector<float> results(backend::Executor& executor, const backend::Batch& batch,
                           std::size_t vocab) {
  const auto result = executor.forward(batch);
  EXPECT_TRUE(result.has_value()) << result.error().what;
  std::vector<float> all;
  std::int32_t row = 0;
  for (const backend::Segment& s : batch.segments) {
    for (std::int32_t i = 0; i < s.wants.logit_rows() && result.has_value(); ++i, ++row) {
      if (s.wants.top_count() == Wants::kGreatest) {
        all.push_back(static_cast<float>(result->greatest(row)));
      } else {
        const float* at = result->logits(row).at;
        all.insert(all.end(), at, at + vocab);
      }
    }
  }
  return all;
}

TEST(GpuParallel, MicroBatches_WhenABatchIsDivided_GiveItsRows) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 40);  // the embedding is the output's matrix
  const RunOptions options = gpu::on_device();
  watch() = {};
  const auto executor = load_on(several_devices(2, '+'), m, options);
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  auto* parallel = dynamic_cast<opencl::PipelineParallelExecutor*>(executor->get());
  ASSERT_NE(parallel, nullptr);
  const std::int32_t pages[] = {0, 1};
  const backend::Segment full_rows{m.tokens.data(), 12, 0, pages, Wants::logits(5)};
  const backend::Segment best{m.tokens.data() + 3, 20, 0, pages + 1, Wants::greatest(2)};
  for (const backend::Batch& batch :
       {backend::Batch{{full_rows, best}}, backend::Batch{{best, full_rows}}}) {
    parallel->set_micro_batch_rows(1000);
    const std::vector<float> whole = results(*parallel, batch, m.columns());
    EXPECT_EQ(whole.size(), 2 + 5 * m.columns());
    const std::map<std::int32_t, std::int64_t> micro_batches_of = {
        {17, 1}, {16, 2}, {5, 6}, {1, 8}};
    for (const auto& [rows, micro_batches] : micro_batches_of) {
      parallel->set_micro_batch_rows(rows);
      watch().copies = 0;
      EXPECT_EQ(results(*parallel, batch, m.columns()), whole) << rows;
      EXPECT_EQ(watch().copies, 2 * micro_batches)
          << rows;  // to the first device, to the second one
    }
  }
}

using Cut = std::vector<std::vector<std::int64_t>>;  // by micro-batch: rows, first logit, and n,
                                                     // start and logits of each segment

Cut cut(opencl::MicroBatches& micro_batches, const std::vector<backend::Segment>& segments,
        std::int32_t rows) {
  Cut all;
  for (const opencl::MicroBatch& p : micro_batches.cut({segments}, rows)) {
    all.push_back({p.rows, p.first_logit});
    for (const backend::Segment& s : p.batch.segments) {
      EXPECT_EQ(s.tokens, segments[0].tokens + s.start);
      all.back().insert(all.back().end(), {s.n, s.start, s.wants.logit_rows()});
    }
  }
  return all;
}

TEST(GpuParallel, MicroBatches_WhenABatchIsCut_EndBetweenItsTokens) {
  const std::int32_t token = 7, page = 0;
  backend::Limits limits;
  limits.batch_segments = 3;
  opencl::MicroBatches micro_batches(limits, 4);
  const backend::Segment ten{&token, 10, 0, &page, Wants::logits(3)};
  EXPECT_EQ(cut(micro_batches, {ten}, 11), (Cut{{10, 0, 10, 0, 3}}));
  EXPECT_EQ(cut(micro_batches, {ten}, 5), (Cut{{5, 0, 5, 0, 0}, {5, 0, 5, 5, 3}}));
  EXPECT_EQ(cut(micro_batches, {ten}, 3), (Cut{{4, 0, 4, 0, 0}, {3, 0, 3, 4, 0}, {3, 0, 3, 7, 3}}));
  EXPECT_EQ(cut(micro_batches, {ten}, 1),
            (Cut{{3, 0, 3, 0, 0}, {3, 0, 3, 3, 0}, {2, 0, 2, 6, 1}, {2, 1, 2, 8, 2}}));
  const backend::Segment one{&token, 1, 0, &page, Wants::logits(1)},
      four{&token, 4, 0, &page, Wants::logits(4)};
  EXPECT_EQ(cut(micro_batches, {one, four, one}, 3),
            (Cut{{3, 0, 1, 0, 1, 2, 0, 2}, {3, 3, 2, 2, 2, 1, 0, 1}}));
  backend::Segment with_outputs = ten;
  with_outputs.wants = Wants::deferred_logits();
  EXPECT_EQ(cut(micro_batches, {one, with_outputs}, 2).size(), 1u);
  with_outputs.wants = Wants::hidden();
  EXPECT_EQ(cut(micro_batches, {one, with_outputs}, 2).size(), 1u);
  EXPECT_EQ(cut(micro_batches, {}, 2).size(), 0u);
}

TEST(GpuParallel, DeferredLogits_WhenComputed_AreThoseOfAForward) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 3, 40);
  const RunOptions options = gpu::on_device();
  const std::vector<float> expected = run_family(m, options);
  for (const char between : {'+', ','}) {
    const auto executor = load_on(several_devices(2, between), m, options);
    ASSERT_TRUE(executor.has_value()) << executor.error().what;
    const std::int32_t pages[] = {0};
    const backend::Batch batch{{{m.tokens.data(), 40, 0, pages, Wants::deferred_logits()}}};
    ASSERT_TRUE((*executor)->forward(batch).has_value());
    const auto deferred = (*executor)->compute_deferred_logits(7, 11);
    ASSERT_TRUE(deferred.has_value());
    const std::vector<float> rows = copy_rows(*deferred, m.columns());
    ASSERT_EQ(rows.size(), 11 * m.columns());
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), expected.data() + 7 * m.columns())) << between;
  }
}

TEST(GpuParallel, Memory_OverTwoDevices_IsDividedWithOneTiedEmbedding) {
  HOLDFAST_NEEDS_DEVICE();
  watch() = {};
  const FamilyModel m = make_family("llama", 0, 40, "q8_0");
  ASSERT_EQ(m.program.ops.front().w[0].tensor, m.program.ops.back().w[1].tensor);
  const RunOptions options = gpu::on_device();
  const auto whole = backend::load(gpu::device(), m.program, load_options(m, options));
  ASSERT_TRUE(whole.has_value());
  for (const char between : {'+', ','}) {
    const auto parallel = load_on(several_devices(2, between), m, options);
    ASSERT_TRUE(parallel.has_value()) << parallel.error().what;
    EXPECT_EQ((*parallel)->memory().kv, (*whole)->memory().kv) << between;
    // Tensor parallelism holds vectors twice, in whole lines.
    EXPECT_LE((*parallel)->memory().weights, (*whole)->memory().weights + 8192) << between;
    EXPECT_EQ((*parallel)->capabilities().class_prefix, (*whole)->capabilities().class_prefix)
        << between;
  }
}

TEST(GpuParallel, Load_WhenAnyCreationFails_FreesAllMemory) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 40, "q8_0");
  const RunOptions options = gpu::on_device();
  for (const char between : {'+', ','}) {
    const std::string device = several_devices(2, between);
    watch() = {};
    { ASSERT_TRUE(load_on(device, m, options).has_value()); }
    const std::int64_t creations = watch().creations;
    for (std::int64_t n = 1; n <= creations; n += 8) {
      watch() = {};
      watch().fail_at = n;
      { const auto executor = load_on(device, m, options); }
      EXPECT_EQ(watch().live, 0) << n;
    }
  }
  watch() = {};
}

TEST(GpuParallel, Forward_WhenADeviceFails_ReturnsModelFailed) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("llama", 0, 20);
  for (const char between : {'+', ','}) {
    watch() = {};
    const auto executor = load_on(several_devices(2, between), m, gpu::on_device());
    ASSERT_TRUE(executor.has_value());
    auto* layers = dynamic_cast<opencl::PipelineParallelExecutor*>(executor->get());
    watch().fail_launches = CL_OUT_OF_RESOURCES;
    for (const std::int32_t micro_batches : {1, 4}) {
      if (layers != nullptr) layers->set_micro_batch_rows(20 / micro_batches);
      const std::int32_t page = 0;
      const auto rows = (*executor)->forward({{{m.tokens.data(), 20, 0, &page, Wants::logits(1)}}});
      ASSERT_FALSE(rows.has_value());
      EXPECT_EQ(rows.error().code, Errc::kModelFailed);
      EXPECT_NE(rows.error().what.find("CL_OUT_OF_RESOURCES"), std::string::npos);
    }
  }
  watch() = {};
}

using Shares = std::vector<std::int64_t>;

/// Divides layers of 1 byte each over devices of these capacities.
std::optional<Shares> shares(std::int64_t layers, const std::vector<double>& weight,
                             const std::vector<std::int64_t>& capacity) {
  return opencl::share_layers(layers, weight,
                              [&](std::size_t i, std::int64_t first, std::int64_t end) {
                                return Result<bool>(end - first <= capacity[i]);
                              })
      .value();
}

TEST(GpuParallel, LayerShares_WhenMemoryIsLimited_FollowWeightAsFarAsTheyFit) {
  const std::int64_t plenty = 1000;
  EXPECT_EQ(shares(32, {80, 80}, {plenty, plenty}), (Shares{16, 16}));
  EXPECT_EQ(shares(32, {24, 8}, {plenty, plenty}), (Shares{24, 8}));
  EXPECT_EQ(shares(4, {1000, 1, 1}, {plenty, plenty, plenty}), (Shares{2, 1, 1}));
  EXPECT_EQ(shares(4, {1, 1, 1000}, {plenty, plenty, plenty}), (Shares{1, 1, 2}));
  EXPECT_EQ(shares(3, {0, 0, 0}, {plenty, plenty, plenty}), (Shares{1, 1, 1}));
  EXPECT_EQ(shares(32, {80, 80, 80, 80}, {plenty, plenty, plenty, plenty}), (Shares{8, 8, 8, 8}));
  EXPECT_EQ(shares(32, {3, 1}, {10, plenty}), (Shares{10, 22}));
  EXPECT_EQ(shares(32, {1, 3}, {plenty, 10}), (Shares{22, 10}));
  EXPECT_EQ(shares(12, {1, 1, 1, 1}, {2, 9, 1, 3}), (Shares{2, 6, 1, 3}));
  EXPECT_EQ(shares(32, {1, 1}, {16, 16}), (Shares{16, 16}));
  EXPECT_EQ(shares(32, {1, 1}, {16, 15}), std::nullopt);
  EXPECT_EQ(shares(32, {1, 1}, {plenty, 0}), std::nullopt);
  EXPECT_EQ(shares(32, {1, 1}, {0, plenty}), std::nullopt);
}

TEST(GpuParallel, TensorParallelHeads_WhenDivisible_AreShared) {
  plan::ModelShape shape;
  shape.heads = 32;
  shape.kv_heads = 8;
  const auto last = [&](int n) { return opencl::share_heads(shape, n - 1, n); };
  EXPECT_EQ(last(4).first, 24);
  EXPECT_EQ(last(4).heads, 8);
  EXPECT_EQ(last(4).first_kv, 6);
  EXPECT_EQ(last(4).kv_heads, 2);
  EXPECT_EQ(last(3).first_kv, 5);  // 2, 3 and 3
  EXPECT_EQ(last(3).kv_heads, 3);
  shape.kv_heads = 2;  // each on two devices, with half of its queries
  EXPECT_EQ(last(4).first, 24);
  EXPECT_EQ(last(4).heads, 8);
  EXPECT_EQ(last(4).first_kv, 1);
  EXPECT_EQ(last(4).kv_heads, 1);
  EXPECT_TRUE(last(3).whole);
  EXPECT_EQ(last(3).heads, 32);
  shape.kv_heads = 8;
  shape.qk_norm_row = true;
  EXPECT_TRUE(last(4).whole);
}

TEST(GpuParallel, TensorParallelColumns_WhenShared_AreWholePanelsWithoutGaps) {
  for (const std::int64_t all : {16, 50, 64, 151936}) {
    std::int64_t next = 0;
    for (int i = 0; i < 3; ++i) {
      const opencl::Columns c = opencl::share_columns(all, i, 3);
      EXPECT_EQ(c.first % 16, 0);
      EXPECT_EQ(c.n == 0 ? next : c.first, next);
      next += c.n;
    }
    EXPECT_EQ(next, all);
  }
}

TEST(GpuParallel, ParseDeviceName_WithEveryForm_ReadsOrRefusesIt) {
  using Numbers = std::vector<int>;
  EXPECT_EQ(opencl::parse_device_name("opencl")->numbers, Numbers{0});
  EXPECT_EQ(opencl::parse_device_name("opencl:2")->numbers, Numbers{2});
  EXPECT_EQ(opencl::parse_device_name("opencl:0+1+12")->numbers, (Numbers{0, 1, 12}));
  EXPECT_FALSE(opencl::parse_device_name("opencl:0+1+12")->by_rows);
  EXPECT_EQ(opencl::parse_device_name("opencl:3,1")->numbers, (Numbers{3, 1}));
  EXPECT_TRUE(opencl::parse_device_name("opencl:3,1")->by_rows);
  EXPECT_TRUE(opencl::parse_device_name("opencl:0+1+cpu")->and_cpu);
  for (const char* same : {"opencl:2", "opencl:0+1", "opencl:3,1", "opencl:0+cpu"}) {
    EXPECT_EQ(opencl::parse_device_name(same)->text(), same);
  }
  for (const char* wrong :
       {"opencl:", "opencl:a", "opencl:0+", "opencl:+1", "opencl:-1", "cpu", "opencl:0,",
        "opencl:0,1+2", "opencl:0,1+cpu", "opencl:+cpu", "opencl:cpu", "opencl:0+cpu+1"}) {
    EXPECT_FALSE(opencl::parse_device_name(wrong).has_value()) << wrong;
  }
}

TEST(GpuParallel, RecurrentModel_OverSeveralDevices_IsRefused) {
  HOLDFAST_NEEDS_DEVICE();
  const FamilyModel m = make_family("qwen35", 0, 8);
  for (const std::string& device :
       {gpu::several_devices(2, '+'), gpu::several_devices(2, ','), std::string("opencl:0+cpu")}) {
    const auto executor = backend::load(device, m.program, load_options(m, {}));
    ASSERT_FALSE(executor.has_value()) << device;
    EXPECT_EQ(executor.error().code, Errc::kUnsupported);
    EXPECT_NE(executor.error().what.find("recurrent"), std::string::npos) << executor.error().what;
  }
}

TEST(GpuParallel, CpuOnlyArchitecture_OnADevice_IsRefused) {
  HOLDFAST_NEEDS_DEVICE();
  for (const auto& [architecture, why] :
       {std::pair{"deepseek2", "latent attention"}, std::pair{"gemma4", "layers of several kinds"},
        std::pair{"gemma4-moe", "layers of several kinds"}}) {
    const FamilyModel m = make_family(architecture, 0, 8);
    const auto executor = backend::load("opencl:0", m.program, load_options(m, {}));
    ASSERT_FALSE(executor.has_value());
    EXPECT_EQ(executor.error().code, Errc::kUnsupported);
    EXPECT_NE(executor.error().what.find(why), std::string::npos) << executor.error().what;
  }
}

TEST(GpuParallel, Load_WhenDevicesExceedTheParts_IsRefused) {
  HOLDFAST_NEEDS_DEVICE();
  watch() = {};
  const FamilyModel m = make_family("llama", 0, 8);
  for (const char* device : {"opencl:0+0+0+0+0+0+0+0+0", "opencl:0,0,0,0,0,0,0,0,0,0,0,0"}) {
    const auto refused = load_on(device, m, gpu::on_device());
    ASSERT_FALSE(refused.has_value()) << device;
    EXPECT_EQ(refused.error().code, Errc::kUsage) << refused.error().what;
  }
}

}  // namespace
}  // namespace holdfast::parallel_test
