// Goal: on a device too, draft tokens change no token of the answer, also where layers carry a
// state.
// Method: tiny models and the demo model, opened on the device with draft tokens and without; texts
// over few distinct tokens, so that many draft tokens are accepted and many are not.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "ops/model_tools/synth_family.h"
#include "shared/base/clock.h"
#include "tests/gpu/test_device.h"
#include "worker/engine/engine.h"

namespace holdfast::draft_tokens_test {
namespace {

using engine::TokenId;

struct RunResult {
  std::map<engine::SequenceKey, std::vector<TokenId>> texts;
  engine::Usage usage;
};

/// The second sequence begins when the first is half done.
RunResult run(const std::string& path, std::int32_t drafts) {
  engine::EngineOptions options;
  options.device = gpu::device();
  options.cache_dir = gpu::cache_dir();
  options.context = 256;
  options.slots = 2;
  options.drafts = drafts;
  static const ManualClock stands_still;  // the number of draft tokens must not depend on times
  options.clock = &stands_still;
  auto opened = engine::open_engine(path, options);
  CHECK_MSG(opened.has_value(), opened.has_value() ? "" : opened.error().what.c_str());
  engine::Engine& engine = **opened;
  RunResult result;
  engine::SequenceKey next = 1;
  while (next <= 2 || !engine.idle()) {
    if (next == 1 || (next == 2 && result.texts[1].size() > 60)) {
      engine::SequenceSpec spec;
      spec.key = next++;
      spec.max_tokens = 120;
      spec.sampling.ignore_eos = true;
      spec.sampling.temperature = 0.7;
      spec.sampling.seed = 3 + spec.key;
      spec.sampling.extra = R"({"logit_bias": {"40": 50, "41": 50, "42": 50}})";
      for (TokenId i = 0; i < 20; ++i) spec.prompt.push_back(30 + i % 3);
      EXPECT_TRUE(engine.add(spec).has_value());
    }
    for (const engine::Produced& p : engine.step()) {
      EXPECT_EQ(p.error.what, "");
      result.texts[p.key].insert(result.texts[p.key].end(), p.ids.begin(), p.ids.end());
    }
  }
  result.usage = engine.usage();
  return result;
}

void expect_same_text(const std::string& path, const std::string& name) {
  const RunResult plain = run(path, 0), speculative = run(path, -1);
  ASSERT_EQ(plain.texts.size(), 2u) << name;
  for (const auto& [key, text] : plain.texts) EXPECT_EQ(text.size(), 120u) << name;
  EXPECT_EQ(speculative.texts, plain.texts) << name;
  EXPECT_EQ(plain.usage.drafts, 0u) << name;
  EXPECT_GT(speculative.usage.drafts_accepted, 10u) << name;
  EXPECT_GT(speculative.usage.drafts - speculative.usage.drafts_accepted, 10u) << name;
}

TEST(GpuDraftTokens, DraftTokens_WhenVerifiedOnADevice_ChangeNoToken) {
  HOLDFAST_NEEDS_DEVICE();
  expect_same_text(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf", "demo");
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-gpu-guesses-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  for (const char* architecture : {"qwen35", "qwen3next"}) {
    ASSERT_TRUE(cli::synth_family(architecture, path, "q8_0", 2).has_value());
    expect_same_text(path, architecture);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace holdfast::draft_tokens_test
