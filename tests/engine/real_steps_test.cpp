// Goal: on the real kernels too, cached prefixes and draft tokens change no token: the bits of a
// row are those of a batch of one. Method: the demo model, for each KV type and kernel family that
// runs here, and a small one whose layers carry states; conversations that repeat themselves,
// greedy and sampled, together and one by one.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <map>

#include "ops/model_tools/synth_family.h"
#include "worker/backend/cpu/family.h"
#include "worker/engine/engine.h"

namespace holdfast::engine::real_steps_test {
namespace {

constexpr std::int32_t kSequences = 6;

constexpr char kDemo[] = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
constexpr TokenId kDemoWords = 300;  // from here on

std::unique_ptr<Engine> open(const std::string& kernels, const std::string& kv, bool shared,
                             const std::string& path = kDemo) {
  EngineOptions options;
  options.kernels = kernels;
  options.kv_type = kv;
  options.context = 384;
  options.slots = kSequences;
  options.threads = 2;
  options.prefill_chunk = 96;
  options.prefix_cache = shared;
  if (!shared) options.drafts = 0;
  static const ManualClock stands_still;  // no draft's length depends on times
  options.clock = &stands_still;
  auto engine = open_engine(path, options);
  CHECK_MSG(engine.has_value(), engine.has_value() ? "" : engine.error().what.c_str());
  return std::move(engine).value();
}

/// Two of three are decode-heavy; the others are prefill-heavy where that makes a difference.
std::int64_t tokens_of(SequenceKey key) {
  return key % 3 == 0 ? 9 : 110;
}

/// `repetitive`: of three tokens, so that a text often repeats itself, and often does not.
SequenceSpec spec_of(SequenceKey key, TokenId words, bool repetitive) {
  SequenceSpec spec;
  spec.key = key;
  spec.max_tokens = tokens_of(key);
  spec.sampling.ignore_eos = true;
  spec.sampling.temperature = key % 2 == 0 ? 0.0 : 0.7;
  spec.sampling.seed = 40 + key;
  if (repetitive) spec.sampling.extra = R"({"logit_bias": {"40": 50, "41": 50, "42": 50}})";
  for (TokenId i = 0; i < 140; ++i) spec.prompt.push_back(words + i % 23);  // two pages
  for (TokenId i = 0; i < 9; ++i)
    spec.prompt.push_back(words + 10 + static_cast<TokenId>(key) % 3 + i % 4);
  return spec;
}

std::map<SequenceKey, std::vector<TokenId>> generate(Engine& engine, bool together,
                                                     TokenId words = kDemoWords,
                                                     bool repetitive = false) {
  std::map<SequenceKey, std::vector<TokenId>> out;
  for (SequenceKey key = 1; key <= kSequences; ++key) {
    EXPECT_TRUE(engine.add(spec_of(key, words, repetitive)).has_value());
    while (!engine.idle() && (!together || key == kSequences)) {
      for (const Produced& p : engine.step()) {
        EXPECT_EQ(p.error.what, "");
        out[p.key].insert(out[p.key].end(), p.ids.begin(), p.ids.end());
      }
    }
  }
  return out;
}

TEST(RealSteps, Tokens_WhenPrefixesAreCachedAndDraftsVerified_AreTheSame) {
  std::vector<std::string> families = {""};
  const std::string emulated = "avx512+amx-emulated";
  if (cpu::select_family(emulated).has_value()) families.push_back(emulated);
  for (const std::string& kernels : families) {
    for (const char* kv : {"f16", "bf16", "int8", "fp8", "f32"}) {
      const bool slow = !kernels.empty();
      if (slow && std::string_view(kv) != "f16") continue;
      const auto plain = open(kernels, kv, false);
      const auto expected = generate(*plain, false);
      ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSequences));
      for (const auto& [key, ids] : expected) {
        ASSERT_EQ(static_cast<std::int64_t>(ids.size()), tokens_of(key)) << key;
      }
      const auto shared = open(kernels, kv, true);
      for (const bool together : {false, true}) {
        if (slow && !together) continue;
        EXPECT_EQ(generate(*shared, together), expected) << kernels << " " << kv << together;
      }
      const Usage usage = shared->usage();
      EXPECT_GT(usage.drafts_accepted, 20u) << kernels << " " << kv;
      EXPECT_LT(usage.prefill_tokens, plain->usage().prefill_tokens * 2 / 3);
      EXPECT_EQ(usage.pages_used, 0);
    }
  }
}

TEST(RealSteps, Tokens_WhenStatesAreRestoredAndDraftsVerified_AreTheSame) {
  std::uint64_t accepted = 0, rejected = 0;
  constexpr TokenId kWords = 30;
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-states-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  std::vector<std::string> families = {"", "scalar"};
  const std::string emulated = "avx512+avx512bf16-emulated";
  if (cpu::select_family(emulated).has_value()) families.push_back(emulated);
  for (const std::string& architecture : {std::string("qwen35"), std::string("qwen3next")}) {
    for (const std::uint64_t seed : {0, 4, 7}) {
      ASSERT_TRUE(cli::synth_family(architecture, path, "q8_0", seed, "none").has_value());
      for (const std::string& kernels : families) {
        if (kernels == "scalar" && (seed != 0 || architecture != "qwen35")) continue;  // slow
        const auto plain = open(kernels, "f16", false, path);
        const auto expected = generate(*plain, false, kWords, true);
        ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSequences));
        const auto shared = open(kernels, "f16", true, path);
        for (const bool together : {false, true}) {
          EXPECT_EQ(generate(*shared, together, kWords, true), expected)
              << kernels << seed << together;
        }
        EXPECT_LT(shared->usage().prefill_tokens, plain->usage().prefill_tokens * 3 / 4);
        accepted += shared->usage().drafts_accepted;
        rejected += shared->usage().drafts - shared->usage().drafts_accepted;
        EXPECT_EQ(shared->usage().pages_used, 0);
      }
    }
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(rejected, 100u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace holdfast::engine::real_steps_test
