// Goal: a step costs the host little. It sets the arguments that changed, brings all that its
// kernels read of the host by one write, waits once, and is marked for the watchdog only as often
// as a stuck device must be told from a slow one; and a call that fails leaves no wrong argument.
// Method: the device's functions with a watch in between (watched_api.h) that counts and fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/engine/result_rows.h"
#include "tests/gpu/test_device.h"
#include "tests/gpu/watched_api.h"
#include "worker/backend/opencl/load.h"

namespace holdfast::step_test {
namespace {

using backend::Wants;
using gpu::watch;

constexpr std::int32_t kPages[] = {0, 1, 2};  // one for each sequence

/// Checks after each test that all device objects have been released.
class GpuStep : public ::testing::Test {
 protected:
  void SetUp() override {
    HOLDFAST_NEEDS_DEVICE();
    watch() = {};
  }
  void TearDown() override {
    if (gpu::device().empty()) return;
    EXPECT_EQ(watch().live, 0);
    watch() = {};
  }
  /// Up to three sequences of at most 40 tokens together.
  static std::unique_ptr<backend::Executor> load(const FamilyModel& m) {
    backend::LoadOptions options = load_options(m, gpu::on_device());
    options.limits.pages = options.limits.batch_segments = options.limits.states = 3;
    auto executor = opencl::load_with(gpu::watched_api(), gpu::device(), m.program, options);
    EXPECT_TRUE(executor.has_value()) << executor.error().what;
    return std::move(executor).value();
  }
  /// A step of `n` tokens at `start` of each of `sequences`, with whole logits.
  static backend::Batch step(const FamilyModel& m, int sequences, std::int32_t n,
                             std::int64_t start) {
    backend::Batch batch;
    for (int i = 0; i < sequences; ++i) {
      backend::Segment s{m.tokens.data() + start, n, start, kPages + i, Wants::logits(1)};
      s.states.at = i;
      batch.segments.push_back(s);
    }
    return batch;
  }
  static std::vector<float> run(backend::Executor& executor, const FamilyModel& m,
                                const backend::Batch& batch) {
    const auto result = executor.forward(batch);
    EXPECT_TRUE(result.has_value()) << result.error().what;
    return result.has_value() ? copy_rows(*result, m.columns()) : std::vector<float>();
  }
};

TEST_F(GpuStep, Step_WhenItIsLikeTheOneBefore_SetsNoArgument) {
  for (const char* architecture : {"llama", "gemma2", "mixtral", "qwen3next"}) {
    SCOPED_TRACE(architecture);
    const FamilyModel m = make_family(architecture, 0, 20, "q8_0");
    const auto executor = load(m);
    for (const int sequences : {1, 3}) {
      run(*executor, m, step(m, sequences, 4, 0));
      run(*executor, m, step(m, sequences, 1, 4));
      const auto live = watch().live;
      watch().arguments = watch().writes = watch().blocking = watch().finishes = 0;
      run(*executor, m, step(m, sequences, 1, 5));
      EXPECT_EQ(watch().arguments, 0);
      EXPECT_EQ(watch().writes, 1);
      EXPECT_EQ(watch().blocking, 0);
      EXPECT_EQ(watch().finishes, 1);
      EXPECT_EQ(watch().live, live);
    }
  }
}

// Each number of rows has launches of its own; the numbers of rows that share one differ in that
// argument alone.
TEST_F(GpuStep, Steps_OfOtherShapes_SetWhatChangedAndHaveTheSameBits) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const auto executor = load(m);
  run(*executor, m, step(m, 3, 12, 0));
  const std::vector<float> one = run(*executor, m, step(m, 1, 1, 12));
  const std::vector<float> three = run(*executor, m, step(m, 3, 1, 12));
  for (int i = 0; i < 3; ++i) {
    watch().arguments = watch().launches = 0;
    EXPECT_EQ(run(*executor, m, step(m, 1, 1, 12)), one);
    EXPECT_EQ(run(*executor, m, step(m, 3, 1, 12)), three);
    EXPECT_EQ(run(*executor, m, step(m, 2, 1, 12)),
              std::vector<float>(three.begin(), three.begin() + 2 * m.program.shape.vocab));
    EXPECT_LE(watch().arguments, watch().launches);
    run(*executor, m, step(m, 1, 12, 0));
  }
}

TEST_F(GpuStep, Step_AfterAFailedCall_SetsAllArgumentsAgain) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const auto executor = load(m);
  const std::vector<float> expected = run(*executor, m, step(m, 1, 9, 0));
  const backend::Batch token = step(m, 1, 1, 9);
  const std::vector<float> next = run(*executor, m, token);
  // A prompt's launches share objects, so that a failed call could leave another layer's argument.
  watch().arguments = 0;
  run(*executor, m, step(m, 1, 9, 0));
  const std::int64_t arguments = watch().arguments;
  ASSERT_GT(arguments, 0);
  for (std::int64_t at = 1; at <= arguments; at += 7) {
    watch().arguments = 0, watch().fail_argument_at = at;
    const auto failed = executor->forward(step(m, 1, 9, 0));
    ASSERT_FALSE(failed.has_value()) << at;
    EXPECT_EQ(failed.error().code, Errc::kModelFailed);
    watch().fail_argument_at = 0;
    EXPECT_EQ(run(*executor, m, step(m, 1, 9, 0)), expected) << at;
    EXPECT_EQ(run(*executor, m, token), next) << at;
  }
  watch().fail_launches = CL_OUT_OF_RESOURCES;
  EXPECT_FALSE(executor->forward(token).has_value());
  watch().fail_launches = CL_SUCCESS;
  watch().arguments = watch().launches = 0;
  EXPECT_EQ(run(*executor, m, token), next);
  EXPECT_GT(watch().arguments, 5 * watch().launches);
}

// A driver that refuses more kernel objects costs arguments, and changes no bit.
TEST_F(GpuStep, Launches_WithoutOwnKernelObjects_ShareThem) {
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  std::vector<float> expected;
  std::int64_t own = 0;
  {
    const auto executor = load(m);
    own = watch().live;
    expected = run(*executor, m, step(m, 1, 4, 0));
  }
  watch() = {};
  watch().refuse_copies_of_kernels = true;
  const auto executor = load(m);
  EXPECT_LT(watch().live, own);
  EXPECT_EQ(run(*executor, m, step(m, 1, 4, 0)), expected);
}

TEST_F(GpuStep, Marks_OfAPrompt_AreOfEveryLayerAndOfAQuickStepFewer) {
  const FamilyModel m = make_family("llama", 0, 40, "q8_0");
  const auto executor = load(m);
  watch().waits = 0;
  run(*executor, m, step(m, 1, 30, 0));
  EXPECT_GE(watch().waits, m.program.shape.layers);
  run(*executor, m, step(m, 1, 1, 30));
  watch().waits = 0;
  run(*executor, m, step(m, 1, 1, 31));
  EXPECT_LE(watch().waits, 1 + m.program.shape.layers / 8);
  EXPECT_GE(watch().waits, 1);
}

}  // namespace
}  // namespace holdfast::step_test
