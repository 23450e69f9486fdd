// Goal: on a device too, guesses change no token, also where layers carry a state.
// Method: tiny models and the demo model, opened on the device with guesses and without; texts of
// few tokens, so that many guesses are right and many are not.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "ops/cli/synth_family.h"
#include "shared/base/clock.h"
#include "tests/gpu/house.h"
#include "worker/engine/engine.h"

namespace holdfast::guesses_test {
namespace {

using engine::TokenId;

struct Ran {
  std::map<engine::SequenceKey, std::vector<TokenId>> texts;
  engine::Usage usage;
};

/// The second sequence comes when the first is half done.
Ran run(const std::string& path, std::int32_t drafts) {
  engine::EngineOptions options;
  options.device = gpu::device();
  options.cache_dir = gpu::cache_dir();
  options.context = 256;
  options.slots = 2;
  options.drafts = drafts;
  static const ManualClock stands_still;  // how many guesses there are shall not depend on times
  options.clock = &stands_still;
  auto opened = engine::open_engine(path, options);
  CHECK_MSG(opened.has_value(), opened.has_value() ? "" : opened.error().what.c_str());
  engine::Engine& engine = **opened;
  Ran ran;
  engine::SequenceKey next = 1;
  while (next <= 2 || !engine.idle()) {
    if (next == 1 || (next == 2 && ran.texts[1].size() > 60)) {
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
      ran.texts[p.key].insert(ran.texts[p.key].end(), p.ids.begin(), p.ids.end());
    }
  }
  ran.usage = engine.usage();
  return ran;
}

void expect_same_text(const std::string& path, const std::string& name) {
  const Ran plain = run(path, 0), guessed = run(path, -1);
  ASSERT_EQ(plain.texts.size(), 2u) << name;
  for (const auto& [key, text] : plain.texts) EXPECT_EQ(text.size(), 120u) << name;
  EXPECT_EQ(guessed.texts, plain.texts) << name;
  EXPECT_EQ(plain.usage.drafts, 0u) << name;
  EXPECT_GT(guessed.usage.drafts_right, 10u) << name;
  EXPECT_GT(guessed.usage.drafts - guessed.usage.drafts_right, 10u) << name;
}

TEST(GpuGuesses, ChangeNoToken) {
  HF_NEEDS_DEVICE();
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
}  // namespace holdfast::guesses_test
