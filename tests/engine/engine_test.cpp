// Goal: what a sequence produces depends on its own ids and parameters alone: not on neighbours,
// chunking, preemption, pauses, or where it was resumed; and no end leaves anything allocated.
// Method: a device double whose logits hash the token prefix as read back through the page tables,
// so one wrong page, position or token changes every id after it; a sequence run alone is the
// truth.

#include <gtest/gtest.h>

#include <malloc.h>

#include <cmath>

#include "tests/engine/hash_executor.h"

namespace holdfast::engine::engine_test {
namespace {

using wire::FinishReason;

/// Runs all specs through one engine, adding each when a slot is free.
std::vector<Outcome> run_together(TestEngine& t, const std::vector<SequenceSpec>& specs) {
  std::vector<Outcome> out(specs.size());
  std::size_t next = 0;
  for (int steps = 0; steps < 100'000; ++steps) {
    while (next < specs.size()) {
      const auto added = t.engine->add(specs[next]);
      if (!added.has_value()) {
        EXPECT_EQ(added.error().code, Errc::kRateLimited) << added.error().what;
        break;
      }
      ++next;
    }
    if (t.engine->idle()) break;
    gather(t.engine->step(), specs[0].key, out);
  }
  EXPECT_TRUE(t.engine->idle());
  EXPECT_EQ(t.engine->usage().pages_used, 0);
  EXPECT_EQ(t.engine->usage().running, 0);
  return out;
}

/// Expects the same tokens, and the same said of them.
void expect_same(const std::vector<Outcome>& out, const std::vector<Outcome>& expected) {
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], expected[i]) << i;
    EXPECT_EQ(out[i].extra, expected[i].extra) << i;
  }
}

std::vector<SequenceSpec> varied(std::size_t n, std::uint64_t seed = 0) {
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < n; ++i) specs.push_back(varied_spec(100 + i, seed + i));
  return specs;
}

TEST(Engine, Tokens_WhenBatchCompositionDiffers_AreTheSame) {
  const auto specs = varied(60);
  TestEngine t;
  const auto together = run_together(t, specs);
  int stopped = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(together[i], run_alone(specs[i])) << i;
    EXPECT_FALSE(together[i].ids.empty());
    stopped += together[i].finish == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 5);  // the specs must exercise both ends
  EXPECT_LT(stopped, 55);
  EXPECT_EQ(t.engine->usage().preemptions, 0u);
}

TEST(Engine, Tokens_WhenPrefillChunksDiffer_AreTheSame) {
  const auto specs = varied(20);
  TestEngine reference;
  const auto expected = run_together(reference, specs);
  for (const std::int32_t chunk : {1, 7, 63, 512}) {
    ModelEngineConfig config = test_config();
    config.prefill_chunk = chunk;
    config.prefill_chunk_busy = std::max(1, chunk / 3);
    TestEngine t(config);
    EXPECT_EQ(run_together(t, specs), expected) << chunk;
  }
}

// Several threads sample the tokens, or one.
TEST(Engine, Tokens_WhenSampledBySeveralThreads_AreTheSame) {
  const auto specs = varied(40);
  std::vector<Outcome> expected;
  for (const int workers : {1, 2, 3, 9}) {
    TestEngine t(test_config(), workers);
    const auto outcome = run_together(t, specs);
    if (workers == 1) expected = outcome;
    EXPECT_EQ(outcome, expected) << workers;
    EXPECT_EQ(t.log->spread > 10, workers > 1);
  }
}

TEST(Engine, Tokens_AfterPreemption_AreTheSame) {
  const auto specs = varied(40, 500);
  TestEngine wide;
  const auto expected = run_together(wide, specs);
  std::uint64_t preemptions = 0;  // admission leaves spare pages, so not every pool size needs one
  for (const std::int32_t pages : {5, 6, 7, 8}) {
    ModelEngineConfig config = test_config();
    config.pages = pages;
    TestEngine t(config);
    EXPECT_EQ(run_together(t, specs), expected) << pages;
    preemptions += t.engine->usage().preemptions;
  }
  EXPECT_GT(preemptions, 0u);
}

ModelEngineConfig recurrent_config() {
  ModelEngineConfig config = test_config();
  config.recurrent = true;
  return config;
}

// The layers of this model carry states, which neither go back nor are anywhere else.
TEST(Engine, RecurrentState_WithPreemptionAndChunks_GivesTheSameTokens) {
  const auto specs = varied(40, 500);
  TestEngine wide;
  const auto expected = run_together(wide, specs);
  std::uint64_t preemptions = 0;
  for (const std::int32_t chunk : {1, 7, 64}) {
    for (const std::int32_t pages : {5, 7, 30}) {
      ModelEngineConfig config = recurrent_config();
      config.pages = pages;
      config.prefill_chunk = config.prefill_chunk_busy = chunk;
      TestEngine t(config);
      EXPECT_EQ(run_together(t, specs), expected) << chunk << " " << pages;
      preemptions += t.engine->usage().preemptions;
    }
  }
  EXPECT_GT(preemptions, 0u);
}

TEST(Engine, Preemption_WhenKvPagesRunOut_TakesLowestPriorityThenYoungest) {
  ModelEngineConfig config = test_config();
  config.pages = 6;
  TestEngine t(config);
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < 3; ++i) {  // one page each at first, four at the end
    SequenceSpec s;
    s.key = i;
    s.prompt.assign(50, 3 + static_cast<TokenId>(i));
    s.max_tokens = 200;
    s.sampling.ignore_eos = true;
    s.priority = i == 0 ? 2 : 1;
    specs.push_back(s);
  }
  // 0 is the oldest, but of the lowest priority: it goes first, then 2, the younger of the others.
  std::vector<Outcome> out(3);
  for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
  std::vector<SequenceKey> ended;
  while (!t.engine->idle()) {
    const auto& produced = t.engine->step();
    for (const Produced& p : produced) {
      if (p.finish != FinishReason::kNone) ended.push_back(p.key);
    }
    gather(produced, 0, out);
  }
  EXPECT_EQ(ended, (std::vector<SequenceKey>{1, 2, 0}));
  EXPECT_GT(t.engine->usage().preemptions, 0u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i], run_alone(specs[i])) << i;
}

// For measuring: only the last token of a prompt is computed, in pages that belong to it alone, and
// every step after it is one that decodes.
TEST(Engine, Prefill_WhenPromptsAreAssumed_IsSkipped) {
  ModelEngineConfig config = test_config();
  config.prefix_cache = false;
  config.drafts = 0;
  config.assume_prompts = true;
  TestEngine t(config);
  std::vector<Outcome> out(3);
  for (std::size_t i = 0; i < out.size(); ++i) {
    SequenceSpec s;
    s.key = i;
    s.prompt.assign(200, 3);
    s.max_tokens = 70;  // into another page
    s.sampling.ignore_eos = true;
    ASSERT_TRUE(t.engine->add(s).has_value());
  }
  while (!t.engine->idle()) gather(t.engine->step(), 0, out);
  for (const Outcome& one : out) EXPECT_EQ(one.ids.size(), 70u);
  ASSERT_EQ(t.log->calls.size(), 70u);
  for (const HashCall& call : t.log->calls) {
    EXPECT_EQ(call.prefill, 0);
    EXPECT_EQ(call.decode, 3);
  }
  EXPECT_EQ(t.engine->usage().pages_used, 0);
}

// Admission reserves pages for sequences that run and may want more, and for no others.
TEST(Engine, Admission_WhenRunningSequencesCannotGrow_ReservesNoPages) {
  ModelEngineConfig config = test_config();
  config.pages = 4;
  config.prefill_chunk = config.prefill_chunk_busy = 256;  // all of them in a step
  // The last token needs no position: with the prompt they fill a page, or begin another.
  for (const std::int32_t max_tokens : {15, 16}) {
    TestEngine t(config);
    std::vector<Outcome> out(4);
    for (std::size_t i = 0; i < out.size(); ++i) {
      SequenceSpec s;
      s.key = i;
      s.prompt.assign(50, 3 + static_cast<TokenId>(i));
      s.max_tokens = max_tokens;
      s.sampling.ignore_eos = true;
      ASSERT_TRUE(t.engine->add(s).has_value());
    }
    gather(t.engine->step(), 0, out);
    gather(t.engine->step(), 0, out);
    EXPECT_EQ(t.engine->usage().pages_used, max_tokens == 15 ? 4 : 2) << max_tokens;
    while (!t.engine->idle()) gather(t.engine->step(), 0, out);
  }
}

TEST(Engine, HigherPriority_WhenKvPagesRunOut_TakesPagesOfLowerPriority) {
  ModelEngineConfig config = test_config();
  config.pages = 5;
  TestEngine t(config);
  SequenceSpec low;
  low.key = 0;
  low.prompt.assign(250, 3);
  low.max_tokens = 60;
  low.priority = 2;
  low.sampling.ignore_eos = true;
  SequenceSpec high = low;
  high.key = 1;
  high.prompt.assign(200, 4);
  high.priority = 0;
  std::vector<Outcome> out(2);
  ASSERT_TRUE(t.engine->add(low).has_value());
  for (int i = 0; i < 10; ++i) gather(t.engine->step(), 0, out);
  EXPECT_FALSE(out[0].ids.empty());
  ASSERT_TRUE(t.engine->add(high).has_value());
  while (out[1].finish == FinishReason::kNone) gather(t.engine->step(), 0, out);
  EXPECT_EQ(out[0].finish, FinishReason::kNone);
  while (!t.engine->idle()) gather(t.engine->step(), 0, out);
  EXPECT_EQ(out[0], run_alone(low));
  EXPECT_EQ(out[1], run_alone(high));
}

TEST(Engine, DecodingSequence_WhileOthersPrefill_GetsATokenEachStep) {
  ModelEngineConfig config = test_config();
  config.prefill_chunk = 64;
  config.prefill_chunk_busy = 16;
  config.drafts = 0;  // as rows are counted
  TestEngine t(config);
  SequenceSpec chat;
  chat.key = 0;
  chat.prompt = {5};
  chat.max_tokens = 200;
  chat.sampling.ignore_eos = true;
  ASSERT_TRUE(t.engine->add(chat).has_value());
  t.engine->step();
  SequenceSpec longer = chat;
  longer.key = 1;
  longer.prompt.assign(200, 6);
  ASSERT_TRUE(t.engine->add(longer).has_value());
  for (int i = 0; i < 12; ++i) {
    const auto& produced = t.engine->step();
    ASSERT_EQ(produced.size(), 1u);
    EXPECT_EQ(produced[0].key, 0u);
    EXPECT_EQ(t.log->calls.back().decode, 1);
    EXPECT_EQ(t.log->calls.back().prefill, 16);
  }
  EXPECT_EQ(t.engine->step().size(), 2u);  // 192 + 8: its first token
}

TEST(Engine, Cancel_AtEveryStep_FreesPagesAndChangesNoOtherSequence) {
  const auto specs = varied(4, 40);
  TestEngine reference;
  const auto expected = run_together(reference, specs);
  for (int at = 0; at < 40; ++at) {
    TestEngine t;
    std::vector<Outcome> out(specs.size());
    for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
    for (int i = 0; i < at; ++i) gather(t.engine->step(), specs[0].key, out);
    t.engine->cancel(specs[0].key);
    t.engine->cancel(4711);  // unknown: ignored
    const std::size_t before = out[0].ids.size();
    while (!t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
    EXPECT_EQ(out[0].ids.size(), before) << at;
    EXPECT_EQ(t.engine->usage().pages_used, 0) << at;
    for (std::size_t i = 1; i < specs.size(); ++i) EXPECT_EQ(out[i], expected[i]) << at;
  }
}

TEST(Engine, PausedSequence_AfterResume_GivesTheSameTokens) {
  const auto specs = varied(3, 70);
  TestEngine t;
  std::vector<Outcome> out(specs.size());
  for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
  gather(t.engine->step(), specs[0].key, out);
  t.engine->pause(specs[1].key, true);
  const std::size_t held = out[1].ids.size();
  while (!t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
  EXPECT_EQ(out[1].ids.size(), held);
  EXPECT_EQ(out[1].finish, FinishReason::kNone);
  t.engine->pause(specs[1].key, false);
  EXPECT_FALSE(t.engine->idle());
  while (!t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
  for (std::size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(out[i], run_alone(specs[i])) << i;
}

TEST(Engine, PausedSequence_WhenOthersNeedKvPages_ReleasesItsPages) {
  ModelEngineConfig config = test_config();
  config.pages = 5;
  TestEngine t(config);
  SequenceSpec a = varied_spec(0, 3);
  a.prompt.assign(250, 9);
  a.stops.clear();
  a.max_tokens = 60;
  a.sampling.ignore_eos = true;
  a.priority = 0;
  SequenceSpec b = a;
  b.key = 1;
  b.priority = 2;
  std::vector<Outcome> out(2);
  ASSERT_TRUE(t.engine->add(a).has_value());
  for (int i = 0; i < 10; ++i) gather(t.engine->step(), 0, out);
  t.engine->pause(0, true);
  ASSERT_TRUE(t.engine->add(b).has_value());
  for (int i = 0; i < 200 && !t.engine->idle(); ++i) gather(t.engine->step(), 0, out);
  EXPECT_EQ(out[1], run_alone(b));
  t.engine->pause(0, false);
  while (!t.engine->idle()) gather(t.engine->step(), 0, out);
  EXPECT_EQ(out[0], run_alone(a));
}

TEST(Engine, Resume_AtEveryIndex_GivesTheSameIds) {
  for (std::uint64_t n = 200; n < 214; ++n) {
    const SequenceSpec spec = varied_spec(1, n);
    const Outcome whole = run_alone(spec);
    for (std::size_t k = 0; k <= whole.ids.size(); ++k) {
      SequenceSpec resumed = spec;
      resumed.committed.assign(whole.ids.begin(), whole.ids.begin() + static_cast<long>(k));
      Outcome rest = run_alone(resumed);
      for (std::size_t i = 0; i < k; ++i) {
        ASSERT_EQ(rest.ids[i], -1);  // not produced again
        rest.ids[i] = whole.ids[i];
      }
      ASSERT_EQ(rest, whole) << n << " at " << k;
    }
  }
}

TEST(Engine, Sequence_AtItsEndOrRefusal_HasATypedReason) {
  SequenceSpec spec = varied_spec(1, 1);
  spec.sampling.ignore_eos = true;
  spec.stops.clear();
  spec.max_tokens = 0;
  EXPECT_EQ(run_alone(spec), (Outcome{{}, FinishReason::kLength, {}, {}}));
  spec.prompt.assign(300, 4);
  spec.max_tokens = 1000;
  ModelEngineConfig config = test_config();
  const Outcome full = run_alone(spec, config);
  EXPECT_EQ(full.ids.size(), 20u);  // the context's end
  EXPECT_EQ(full.finish, FinishReason::kLength);

  TestEngine t(config);
  const auto code = [&](const SequenceSpec& s) {
    const auto r = t.engine->add(s);
    return r.has_value() ? Errc::kInternal : r.error().code;
  };
  SequenceSpec bad = spec;
  bad.prompt.assign(320, 4);
  EXPECT_EQ(code(bad), Errc::kContextExceeded);
  bad.prompt = {97};
  EXPECT_EQ(code(bad), Errc::kInvalidRequest);
  bad.prompt = {};
  EXPECT_EQ(code(bad), Errc::kInvalidRequest);
  bad.prompt = {1};
  bad.sampling.top_p = 1.5f;
  EXPECT_EQ(code(bad), Errc::kInvalidRequest);
  bad.sampling.top_p = 1;
  bad.sampling.extra = "{\"magic\":2}";
  EXPECT_EQ(code(bad), Errc::kUnsupported);
  bad.sampling.extra = "{\"grammar\":\"root ::= x\"}";  // no kind, no source
  EXPECT_EQ(code(bad), Errc::kInvalidRequest);
  bad.sampling.extra.clear();
  EXPECT_EQ(code(bad), Errc::kInternal);  // taken
  EXPECT_EQ(code(bad), Errc::kConflict);
  for (SequenceKey key = 2; key < 7; ++key) {
    bad.key = key;
    EXPECT_EQ(code(bad), Errc::kInternal);
  }
  bad.key = 7;
  EXPECT_EQ(code(bad), Errc::kRateLimited);
  config.pages = 2;
  TestEngine small(config);
  EXPECT_EQ(small.engine->add(spec).error().code, Errc::kMemoryExhausted);
}

TEST(Engine, Parameter_WhenOutOfRange_IsRefusedByName) {
  using Change = void (*)(SequenceSpec&);
  const std::pair<const char*, Change> changes[] = {
      {"temperature", [](SequenceSpec& s) { s.sampling.temperature = -1; }},
      {"temperature", [](SequenceSpec& s) { s.sampling.temperature = std::nanf(""); }},
      {"top_k", [](SequenceSpec& s) { s.sampling.top_k = -2; }},
      {"top_p", [](SequenceSpec& s) { s.sampling.top_p = -0.1F; }},
      {"min_p", [](SequenceSpec& s) { s.sampling.min_p = 1.1F; }},
      {"min_tokens", [](SequenceSpec& s) { s.sampling.min_tokens = -1; }},
      {"logprobs", [](SequenceSpec& s) { s.sampling.logprobs = -2; }},
      {"logprobs", [](SequenceSpec& s) { s.sampling.logprobs = 65; }},
      {"prompt_logprobs", [](SequenceSpec& s) { s.sampling.prompt_logprobs = -2; }},
      {"prompt_logprobs", [](SequenceSpec& s) { s.sampling.prompt_logprobs = 65; }},
      {"repetition_penalty", [](SequenceSpec& s) { s.sampling.repetition_penalty = 0; }},
      {"presence_penalty", [](SequenceSpec& s) { s.sampling.presence_penalty = 101; }},
      {"frequency_penalty", [](SequenceSpec& s) { s.sampling.frequency_penalty = -101; }},
      {"max_tokens", [](SequenceSpec& s) { s.max_tokens = -1; }},
      {"choice", [](SequenceSpec& s) { s.choice = -1; }},
      {"committed",
       [](SequenceSpec& s) {
         s.max_tokens = 3, s.committed = {4, 5, 6, 7};
       }},
      {"committed", [](SequenceSpec& s) { s.committed = {97}; }}};
  TestEngine t;
  for (const auto& [name, change] : changes) {
    SequenceSpec spec = varied_spec(1, 1);
    change(spec);
    const auto refused = t.engine->add(spec);
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, Errc::kInvalidRequest) << name;
    EXPECT_NE(refused.error().what.find(name), std::string::npos) << refused.error().what;
  }
  EXPECT_TRUE(t.engine->idle());
}

TEST(Engine, StopStrings_WithoutTokenizer_AreRefused) {
  ModelEngineConfig config = test_config();
  config.vocabulary = {nullptr, kTestEnd};
  TestEngine t(config);
  SequenceSpec spec = varied_spec(1, 2);
  ASSERT_FALSE(spec.stops.empty());
  EXPECT_EQ(t.engine->add(spec).error().code, Errc::kUnsupported);
}

TEST(Engine, Sequence_WhenItsLogitsAreNotFinite_EndsAlone) {
  for (const int way : {0, 1, 2, 3}) {
    const bool whole_forward = way % 2 == 1;
    auto specs = varied(5, 300);
    for (auto& s : specs) {
      for (auto& id : s.prompt) id = id == 60 ? 61 : id;
    }
    specs[2].prompt.back() = 60;
    std::vector<Outcome> expected;
    for (const auto& s : specs) expected.push_back(run_alone(s));
    TestEngine t(way < 2 ? test_config() : recurrent_config());
    (whole_forward ? t.log->error_after : t.log->nan_after) = 60;
    const auto out = run_together(t, specs);
    EXPECT_EQ(out[2].finish, FinishReason::kError);
    EXPECT_EQ(out[2].error, Errc::kNumericsNan);
    EXPECT_TRUE(out[2].ids.empty());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (i == 2 || out[i].finish == FinishReason::kError) continue;  // may sample 60 as well
      EXPECT_EQ(out[i], expected[i]) << i;
    }
  }
}

std::ptrdiff_t lost(const std::vector<Produced>& produced) {
  return std::count_if(produced.begin(), produced.end(), [](const Produced& p) {
    return p.finish == FinishReason::kError && p.error.code == Errc::kModelFailed;
  });
}

// A device that failed gets no further call: neither for each sequence alone nor in later steps.
TEST(Engine, Device_WhenLost_EndsAllSequencesAndGetsNoFurtherCall) {
  TestEngine t;
  auto specs = varied(5, 300);
  t.log->error = Errc::kModelFailed;
  t.log->error_after = specs[2].prompt.back();
  for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
  std::ptrdiff_t ended = 0;
  std::size_t calls = 0;
  for (int step = 0; step < 50 && ended == 0; ++step) {
    calls = t.log->calls.size();
    ended = lost(t.engine->step());
  }
  EXPECT_EQ(ended, 5);
  EXPECT_EQ(t.log->calls.size(), calls + 1);
  EXPECT_TRUE(t.engine->idle());
  ASSERT_TRUE(t.engine->add(specs[0]).has_value());
  EXPECT_EQ(lost(t.engine->step()), 1);
  EXPECT_EQ(t.log->calls.size(), calls + 1);
}

// A forward of all failed for its numbers; then each sequence runs alone, or its state is computed
// again for that.
TEST(Engine, Device_WhenLostDuringSingleSequenceRetry_EndsAllSequences) {
  for (const bool recurrent : {false, true}) {
    auto specs = varied(4, 300);
    TestEngine t(recurrent ? recurrent_config() : test_config());
    t.log->then = Errc::kModelFailed;
    for (const auto& s : specs) ASSERT_TRUE(t.engine->add(s).has_value());
    for (int step = 0; step < 3; ++step) t.engine->step();
    std::ptrdiff_t ended = 0;
    std::size_t calls = 0;
    for (TokenId id = 0; id < 97 && ended == 0; ++id) {
      t.log->error_after = id;
      calls = t.log->calls.size();
      ended = lost(t.engine->step());
    }
    EXPECT_EQ(ended, 4) << recurrent;
    EXPECT_EQ(t.log->calls.size(), calls + 2) << "all, and the first alone";
    EXPECT_TRUE(t.engine->idle()) << recurrent;
  }
}

// The rows of a prompt's scores are what fails here.
TEST(Engine, Device_WhenLostDuringPromptScores_EndsAllSequences) {
  TestEngine t;
  auto specs = varied(3, 300);
  t.log->error = Errc::kModelFailed;
  for (auto& s : specs) {
    s.sampling.prompt_logprobs = 1;
    ASSERT_TRUE(t.engine->add(s).has_value());
  }
  t.log->error_after = specs[0].prompt[0];
  EXPECT_EQ(lost(t.engine->step()), 3);
  EXPECT_EQ(t.log->calls.size(), 1u);
}

// The executor gives the greatest logit alone: greedy sequences give the same tokens, next to
// sampled ones, with draft tokens, and where something else is requested of their rows.
TEST(Engine, GreedySequences_WhenTheDeviceGivesArgmax_NeedNoLogitRows) {
  auto specs = varied(6, 40);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    wire::Sampling& s = specs[i].sampling;
    if (i == 0) continue;  // sampled
    s = wire::Sampling();
    s.temperature = 0;
    if (i == 2) s.logprobs = 2;
    if (i == 3) s.repetition_penalty = 1.5f;
    if (i == 4) s.min_tokens = 3;
  }
  for (const std::int64_t period : {0, 5}) {
    TestEngine all, best;
    all.log->period = best.log->period = period;
    best.log->capabilities.greatest = true;
    const auto expected = run_together(all, specs);
    const auto out = run_together(best, specs);
    EXPECT_EQ(all.log->best_rows, 0);
    EXPECT_GT(best.log->best_rows, 20);
    expect_same(out, expected);
    EXPECT_EQ(best.engine->usage().drafts_accepted > 0, period > 0);
  }
}

// Sequences that look at the first logits of a row, cut by top_p and min_p too, need no more; not
// so those that need more of them than there are, or that change the row.
TEST(Engine, Sequences_WhenTopKIsSmall_NeedNoLogitRows) {
  auto specs = varied(6, 40);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    wire::Sampling& s = specs[i].sampling;
    const std::uint64_t seed = s.seed;
    s = wire::Sampling();
    s.seed = seed;
    s.temperature = 1.2f;
    s.top_k = i == 4 ? 21 : 20;
    if (i == 1) s.top_p = 0.7f;
    if (i == 2) s.min_p = 0.2f;
    if (i == 3) s.logprobs = 2;
    if (i == 5) s.presence_penalty = 0.5f;
  }
  for (const std::int64_t period : {0, 5}) {
    TestEngine all, top_only;
    all.log->period = top_only.log->period = period;
    top_only.log->capabilities.top_max = 20;
    const auto expected = run_together(all, specs);
    const auto out = run_together(top_only, specs);
    EXPECT_EQ(all.log->top_rows, 0);
    EXPECT_GT(top_only.log->top_rows, 40);
    expect_same(out, expected);
  }
}

// The executor gives the maxima of its rows: all sequences give the same tokens and say the same of
// them: sampled in any way, with draft tokens, with scores of their prompts.
TEST(Engine, Tokens_WhenTheExecutorGivesRowMaxima_AreTheSame) {
  auto specs = varied(12, 40);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    wire::Sampling& s = specs[i].sampling;
    if (i % 3 == 0) s.temperature = 0;
    if (i % 4 == 1) s.logprobs = 3;
    if (i % 5 == 2) s.repetition_penalty = 1.5f;
    if (i % 6 == 3) s.prompt_logprobs = 2;
    if (i % 7 == 4) s.top_p = 0.9f;
  }
  ModelEngineConfig config = test_config();
  config.vocab = 700;
  config.vocabulary.tokenizer = make_letter_tokenizer(config.vocab, kTestEnd);
  for (const std::int64_t period : {0, 5}) {
    TestEngine plain(config), with_maxima(config);
    plain.log->period = with_maxima.log->period = period;
    with_maxima.log->tells_maxima = true;
    const auto expected = run_together(plain, specs);
    const auto out = run_together(with_maxima, specs);
    EXPECT_EQ(plain.log->maxima_rows, 0);
    EXPECT_GT(with_maxima.log->maxima_rows, 200);
    expect_same(out, expected);
  }
}

/// The same thousand requests, again and again, and the heap that they leave behind.
class Requests {
 public:
  explicit Requests(int workers) : engine_(config(), workers) {
    engine_.log->calls.reserve(2'000'000);
  }
  std::int64_t left_by_a_thousand() {
    const std::uint64_t allocations = engine_.engine->usage().allocations;
    const auto heap = static_cast<std::int64_t>(mallinfo2().uordblks);
    for (std::uint64_t i = 0; i < 100; ++i) run_together(engine_, varied(10, i * 10));
    EXPECT_EQ(engine_.engine->usage().allocations, allocations);
    return static_cast<std::int64_t>(mallinfo2().uordblks) - heap;
  }

 private:
  static ModelEngineConfig config() {
    ModelEngineConfig config = test_config();
    config.pages = 6;
    return config;
  }
  TestEngine engine_;
};

// Vectors keep the capacity of the largest request so far, each slot's by itself: the same requests
// again need less and less more, until they need none. A leak never does.
TEST(Engine, ThousandRequests_WhenTheyEnd_LeaveNoMemoryAllocated) {
  Requests requests(1);
  std::int64_t left = 1;
  for (int i = 0; i < 10 && left > 0; ++i) left = requests.left_by_a_thousand();
  EXPECT_EQ(left, 0);
}

// The memory that the library holds for threads that come and go changes by a kilobyte, up and
// down. A leak recurs every time, and the least piece of heap is 32 bytes.
TEST(Engine, ThousandRequests_WhenThreadsSample_LeaveNoMemoryAllocated) {
  Requests requests(3);
  std::int64_t left = requests.left_by_a_thousand();
  for (int i = 0; i < 5 && left >= 1'000; ++i) left = requests.left_by_a_thousand();
  EXPECT_LT(left, 1'000);
}

TEST(Engine, Logprobs_WhenRequested_ComeWithEachToken) {
  SequenceSpec spec = varied_spec(1, 4);
  spec.sampling.logprobs = 2;
  const Outcome out = run_alone(spec);
  ASSERT_EQ(out.extra.size(), out.ids.size());
  EXPECT_EQ(out.extra[0].rfind("{\"logprob\":-", 0), 0u) << out.extra[0];
}

}  // namespace
}  // namespace holdfast::engine::engine_test
