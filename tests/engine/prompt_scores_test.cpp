// Goal: the log-probabilities of a prompt are those of the raw logits after each of its tokens, bit
// for bit the same whatever runs with it and however the prompt is cut, preempted or cached
// already; and no token of any sequence depends on whether they were requested.
// Method: the device double, whose logits read the whole prefix back through the page tables, and
// compute_logits on a fresh engine as the truth, in doubles; then the demo model on real kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shared/wire/prompt_scores.h"
#include "tests/engine/hash_executor.h"

namespace holdfast::engine::prompt_scores_test {
namespace {

using wire::FinishReason;
using wire::PromptScores;

std::optional<PromptScores> scores_of(const Outcome& out) {
  return out.extra.empty() ? std::nullopt : wire::read_prompt_scores(out.extra[0]);
}

SequenceSpec scored(SequenceSpec spec, std::int32_t top) {
  spec.sampling.prompt_logprobs = top;
  return spec;
}

/// Specs of long and short prompts, the scored ones among others; all tokens are requested of all.
std::vector<SequenceSpec> mixed(std::size_t n, std::int32_t every) {
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < n; ++i) {
    SequenceSpec spec = varied_spec(100 + i, i * 3);  // n % 3 == 0: up to 200 tokens of prompt
    if (i % 4 == 1) spec.prompt.resize(1);
    if (i % 4 == 2) spec.prompt = specs[i - 2].prompt;  // its pages may be cached
    if (i % 5 == 4) spec.max_tokens = 0;
    const auto top = static_cast<std::int32_t>(i % 3) * 4;
    specs.push_back(static_cast<std::int32_t>(i) % every == 0 ? scored(spec, top) : spec);
  }
  return specs;
}

std::vector<Outcome> run_together(TestEngine& t, const std::vector<SequenceSpec>& specs) {
  std::vector<Outcome> out(specs.size());
  std::size_t next = 0;
  for (int steps = 0; steps < 100'000; ++steps) {
    while (next < specs.size() && t.engine->add(specs[next]).has_value()) ++next;
    if (t.engine->idle()) break;
    gather(t.engine->step(), specs[0].key, out);
  }
  EXPECT_TRUE(t.engine->idle());
  EXPECT_EQ(t.engine->usage().pages_used, 0);
  return out;
}

/// Expects the same tokens, ends, and every byte of what was said of them.
void expect_same(const std::vector<Outcome>& got, const std::vector<Outcome>& expected,
                 const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i], expected[i]) << what << " " << i;
    EXPECT_EQ(got[i].extra, expected[i].extra) << what << " " << i;
  }
}

/// Expects the scores of the definition: log-softmax of the row, ranks by (logit, id).
void expect_defined(const PromptScores& scores, const std::vector<TokenId>& prompt,
                    const std::vector<std::vector<float>>& rows, std::int32_t top) {
  ASSERT_EQ(scores.ids, prompt);
  ASSERT_EQ(scores.scores.size(), prompt.size() - 1);
  ASSERT_EQ(scores.top, std::min(top, static_cast<std::int32_t>(rows[0].size())));
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const std::vector<float>& row = rows[i - 1];
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - row[0]);
    const double lse = row[0] + std::log(sum);
    std::vector<TokenId> order(row.size());
    for (std::size_t id = 0; id < order.size(); ++id) order[id] = static_cast<TokenId>(id);
    const auto logit = [&](TokenId id) { return row[static_cast<std::size_t>(id)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
    const auto index = std::find(order.begin(), order.end(), prompt[i]) - order.begin();
    // The sum of a row in floats and then doubles: a few ulp of the result.
    EXPECT_NEAR(scores.scores[i - 1].logprob, logit(prompt[i]) - lse, 2e-6 * (1 + std::fabs(lse)));
    EXPECT_EQ(scores.scores[i - 1].rank, index + 1);
    for (std::int32_t k = 0; k < scores.top; ++k) {
      const auto& [id, logprob] = scores.top_of(i)[k];
      EXPECT_EQ(id, order[static_cast<std::size_t>(k)]) << i;
      EXPECT_NEAR(logprob, logit(id) - lse, 2e-6 * (1 + std::fabs(lse)));
    }
  }
}

std::vector<std::int64_t> all_positions(std::size_t n) {
  std::vector<std::int64_t> positions(n);
  for (std::size_t i = 0; i < n; ++i) positions[i] = static_cast<std::int64_t>(i);
  return positions;
}

TEST(PromptScores, PromptScores_WhenRequested_AreThoseOfTheRawLogits) {
  for (const SequenceSpec& spec : mixed(24, 1)) {
    const auto scores = scores_of(run_alone(spec));
    ASSERT_TRUE(scores.has_value());
    TestEngine t;
    const auto rows =
        compute_logits(*t.engine, spec.prompt, all_positions(spec.prompt.size()), {}).value();
    expect_defined(*scores, spec.prompt, rows, spec.sampling.prompt_logprobs);
  }
}

TEST(PromptScores, PromptScores_WhenRequested_ChangeNoTokenAndComeWithTheFirst) {
  for (const SequenceSpec& spec : mixed(24, 1)) {
    SequenceSpec plain = spec;
    plain.sampling.prompt_logprobs = -1;
    plain.sampling.logprobs = 2;
    SequenceSpec both = plain;
    both.sampling.prompt_logprobs = 3;
    const Outcome expected = run_alone(plain);
    Outcome out = run_alone(both);
    if (spec.max_tokens == 0) {
      EXPECT_EQ(out.ids, std::vector<TokenId>{wire::kScoresToken});
      EXPECT_EQ(out.finish, FinishReason::kLength);
      EXPECT_EQ(out.extra.size(), 1u);
      continue;
    }
    EXPECT_EQ(out, expected);
    ASSERT_EQ(out.extra.size(), expected.extra.size());
    EXPECT_TRUE(wire::take_prompt_scores(out.extra[0]).has_value());
    EXPECT_EQ(out.extra, expected.extra);
    EXPECT_EQ(run_alone(spec), expected) << "the scores alone";
  }
}

TEST(PromptScores, Scores_WhenChunksNeighboursPagesOrDraftsDiffer_AreTheSame) {
  const auto specs = mixed(40, 2);
  const std::int64_t period = 4;  // texts repeat themselves, so that there are draft tokens
  std::vector<Outcome> expected;
  for (const SequenceSpec& spec : specs) {
    TestEngine t;
    t.log->period = period;
    expected.push_back(run_together(t, {spec})[0]);
  }
  std::uint64_t preemptions = 0;
  std::uint64_t accepted = 0;
  for (const std::int32_t chunk : {1, 5, 64, 512}) {
    for (const std::int32_t pages : {5, 6, 30}) {
      for (const std::int32_t rows : {0, 40}) {
        ModelEngineConfig config = test_config();
        config.prefill_chunk = chunk;
        config.prefill_chunk_busy = std::max(1, chunk / 3);
        config.pages = pages;
        config.logit_rows = rows;
        TestEngine t(config);
        t.log->period = period;
        expect_same(run_together(t, specs), expected,
                    std::to_string(chunk) + "/" + std::to_string(pages));
        preemptions += t.engine->usage().preemptions;
        accepted += t.engine->usage().drafts_accepted;
      }
    }
  }
  EXPECT_GT(preemptions, 10u);
  EXPECT_GT(accepted, 100u);
}

TEST(PromptScores, PromptScores_WhenRequested_AddNoSteps) {
  SequenceSpec spec = varied_spec(1, 3);
  spec.prompt.assign(300, 9);
  spec.max_tokens = 1;
  const auto steps = [](const SequenceSpec& one) {
    TestEngine t;
    run_together(t, {one});
    return t.engine->usage().steps;
  };
  EXPECT_EQ(steps(scored(spec, 2)), steps(spec));
}

TEST(PromptScores, PromptScores_WhenThePromptIsCached_AreComputed) {
  TestEngine t;
  SequenceSpec spec = varied_spec(1, 3);
  spec.prompt.clear();
  for (TokenId i = 0; i < 200; ++i) spec.prompt.push_back(2 + i * i % 91);
  const Outcome expected = run_alone(scored(spec, 2));
  for (const bool asks : {false, true, false, true}) {
    const std::uint64_t before = t.engine->usage().prefill_tokens;
    std::vector<Outcome> out(1);
    ASSERT_TRUE(t.engine->add(asks ? scored(spec, 2) : spec).has_value());
    while (!t.engine->idle()) gather(t.engine->step(), 1, out);
    EXPECT_EQ(out[0], expected);
    EXPECT_EQ(t.engine->usage().prefill_tokens - before, asks || before == 0 ? 200u : 200u - 192u);
    if (asks) {
      EXPECT_EQ(out[0].extra, expected.extra);
    }
  }
}

TEST(PromptScores, PromptScores_AfterResume_AreNotComputedAgain) {
  const SequenceSpec spec = scored(varied_spec(1, 3), 2);
  const Outcome whole = run_alone(spec);
  for (std::size_t k = 1; k < whole.ids.size(); ++k) {
    SequenceSpec resumed = spec;
    resumed.committed.assign(whole.ids.begin(), whole.ids.begin() + static_cast<long>(k));
    const Outcome rest = run_alone(resumed);
    EXPECT_TRUE(rest.extra.empty()) << k;
    EXPECT_TRUE(std::equal(rest.ids.begin() + static_cast<long>(k), rest.ids.end(),
                           whole.ids.begin() + static_cast<long>(k), whole.ids.end()));
  }
}

TEST(PromptScores, Cancel_AtEveryStep_FreesPagesAndChangesNoOtherScores) {
  const auto specs = mixed(4, 1);
  std::vector<Outcome> expected;
  for (const SequenceSpec& spec : specs) expected.push_back(run_alone(spec));
  for (int at = 0; at < 30; ++at) {
    TestEngine t;
    std::vector<Outcome> out(specs.size());
    for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
    for (int i = 0; i < at; ++i) gather(t.engine->step(), specs[0].key, out);
    t.engine->cancel(specs[0].key);
    while (!t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
    EXPECT_EQ(t.engine->usage().pages_used, 0) << at;
    for (std::size_t i = 1; i < specs.size(); ++i) EXPECT_EQ(out[i].extra, expected[i].extra);
  }
}

TEST(PromptScores, PromptScores_WithoutFiniteLogitsOrKvPages_AreATypedError) {
  SequenceSpec spec = scored(varied_spec(1, 3), 0);
  spec.prompt.assign(100, 5);
  spec.prompt[50] = 60;
  for (const bool whole_forward : {false, true}) {
    TestEngine t;
    (whole_forward ? t.log->error_after : t.log->nan_after) = 60;
    std::vector<Outcome> out(1);
    ASSERT_TRUE(t.engine->add(spec).has_value());
    while (!t.engine->idle()) gather(t.engine->step(), 1, out);
    EXPECT_EQ(out[0].finish, FinishReason::kError);
    EXPECT_EQ(out[0].error, Errc::kNumericsNan);
    EXPECT_EQ(t.engine->usage().pages_used, 0);
  }
  ModelEngineConfig config = test_config();
  spec.max_tokens = 0;
  config.pages = 2;
  EXPECT_TRUE(TestEngine(config).engine->add(spec).has_value());
  config.pages = 1;
  EXPECT_EQ(TestEngine(config).engine->add(spec).error().code, Errc::kMemoryExhausted);
  spec.sampling.prompt_logprobs = 65;
  EXPECT_EQ(TestEngine().engine->add(spec).error().code, Errc::kInvalidRequest);
}

TEST(PromptScores, PromptScores_WhenThePromptFillsTheContext_AreComplete) {
  SequenceSpec spec = scored(varied_spec(1, 3), 1);
  spec.max_tokens = 0;
  spec.prompt.assign(320, 5);  // all of test_config()'s
  const auto scores = scores_of(run_alone(spec));
  ASSERT_TRUE(scores.has_value());
  EXPECT_EQ(scores->scores.size(), 319u);
}

// ---- real kernels

std::unique_ptr<Engine> open_demo(std::int32_t chunk) {
  EngineOptions options;
  options.context = 384;
  options.slots = 4;
  options.threads = 2;
  options.prefill_chunk = chunk;
  auto engine = open_engine(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf", options);
  CHECK_MSG(engine.has_value(), engine.has_value() ? "" : engine.error().what.c_str());
  return std::move(engine).value();
}

TEST(PromptScores, PromptScores_OnRealKernels_AreThoseOfTheRawLogits) {
  std::vector<SequenceSpec> specs;
  for (SequenceKey key = 0; key < 4; ++key) {
    SequenceSpec spec;
    spec.key = key;
    spec.max_tokens = key == 3 ? 0 : 20;
    spec.sampling.prompt_logprobs = static_cast<std::int32_t>(key) * 3;
    spec.sampling.temperature = 0.5f;  // of the generated tokens alone
    for (TokenId i = 0; i < 150; ++i) {
      spec.prompt.push_back(3 + (i * i + 7 * static_cast<TokenId>(key)) % 400);
    }
    specs.push_back(std::move(spec));
  }
  std::vector<Outcome> first(specs.size());
  for (const std::int32_t chunk : {96, 33}) {
    auto engine = open_demo(chunk);
    std::vector<Outcome> out(specs.size());
    for (const SequenceSpec& spec : specs) ASSERT_TRUE(engine->add(spec).has_value());
    while (!engine->idle()) gather(engine->step(), 0, out);
    if (chunk == 96) {
      first = out;
      for (const SequenceSpec& spec : specs) {
        const auto rows =
            compute_logits(*engine, spec.prompt, all_positions(spec.prompt.size()), {}).value();
        const auto scores = scores_of(out[spec.key]);
        ASSERT_TRUE(scores.has_value());
        expect_defined(*scores, spec.prompt, rows, spec.sampling.prompt_logprobs);
      }
    }
    expect_same(out, first, std::to_string(chunk));
  }
}

}  // namespace
}  // namespace holdfast::engine::prompt_scores_test
