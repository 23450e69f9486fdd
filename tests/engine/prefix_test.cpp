// Goal: sequences that begin alike compute their prefix once, and draft tokens make steps fewer;
// both change no token, and leave no page allocated. Method: the device double of engine_test,
// whose logits read the whole prefix back through the page tables: a page of other content changes
// every token after it; the same specs without cache and draft tokens are the truth.

#include <gtest/gtest.h>

#include "tests/engine/hash_executor.h"

namespace holdfast::engine::prefix_test {
namespace {

struct RunResult {
  std::vector<Outcome> outcomes;
  Usage usage;
};

RunResult run(const ModelEngineConfig& config, const std::vector<SequenceSpec>& specs,
              std::int64_t period = 0, bool one_by_one = false) {
  TestEngine t(config);
  t.log->period = period;
  RunResult result;
  result.outcomes.resize(specs.size());
  std::size_t next = 0;
  for (int steps = 0; steps < 100'000; ++steps) {
    while (next < specs.size() && (!one_by_one || t.engine->idle())) {
      if (!t.engine->add(specs[next]).has_value()) break;
      ++next;
    }
    if (t.engine->idle()) break;
    gather(t.engine->step(), specs[0].key, result.outcomes);
  }
  EXPECT_TRUE(t.engine->idle());
  result.usage = t.engine->usage();
  EXPECT_EQ(result.usage.pages_used, 0);
  return result;
}

ModelEngineConfig plain_config();

/// The first n ids that a sequence generates alone.
std::vector<TokenId> run_alone_ids(const SequenceSpec& spec, std::size_t n) {
  std::vector<TokenId> ids = run_alone(spec, plain_config()).ids;
  ids.resize(std::min(ids.size(), n));
  return ids;
}

ModelEngineConfig plain_config() {
  ModelEngineConfig config = test_config();
  config.prefix_cache = false;
  config.drafts = 0;
  return config;
}

/// Sequences that begin with the same `common` tokens.
std::vector<SequenceSpec> alike(std::size_t n, std::size_t common) {
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < n; ++i) {
    SequenceSpec spec = varied_spec(100 + i, i);
    spec.prompt.resize(std::min<std::size_t>(spec.prompt.size(), 40));
    std::vector<TokenId> begin;
    for (std::size_t k = 0; k < common; ++k) begin.push_back(static_cast<TokenId>(2 + k * 7 % 90));
    spec.prompt.insert(spec.prompt.begin(), begin.begin(), begin.end());
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(Prefix, CommonPrefix_WhenRequestsComeTogetherOrLater_IsComputedOnce) {
  constexpr std::size_t kCommon = 150;  // two whole pages
  for (const bool one_by_one : {false, true}) {
    const auto specs = alike(12, kCommon);
    ModelEngineConfig config = plain_config();
    config.prefill_chunk = config.prefill_chunk_busy = 1'000;  // all could begin in one step
    const RunResult expected = run(config, specs, 0, one_by_one);
    config.prefix_cache = true;
    const RunResult result = run(config, specs, 0, one_by_one);
    EXPECT_EQ(result.outcomes, expected.outcomes);
    const std::uint64_t saved = expected.usage.prefill_tokens - result.usage.prefill_tokens;
    EXPECT_EQ(saved, 11u * 128u) << one_by_one;
  }
}

/// Runs three turns of a conversation: each computes what was not cached, where whole pages of
/// prompt and answer are, but for the answer's last token.
void expect_conversation_goes_on(const ModelEngineConfig& config, std::int64_t period = 0) {
  TestEngine t(config);
  t.log->period = period;
  SequenceSpec spec;
  spec.key = 1;
  spec.max_tokens = 60;
  spec.sampling.ignore_eos = true;
  for (TokenId id = 0; id < 50; ++id) spec.prompt.push_back(id + 2);
  std::uint64_t before = 0;
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<Outcome> out(1);
    ASSERT_TRUE(t.engine->add(spec).has_value());
    while (!t.engine->idle()) gather(t.engine->step(), 1, out);
    EXPECT_EQ(out[0], run(plain_config(), {spec}, period).outcomes[0]) << turn;
    const std::uint64_t computed = t.engine->usage().prefill_tokens - before;
    before += computed;
    const std::size_t matched = turn == 0 ? 0 : (spec.prompt.size() - 12) / 64 * 64;
    EXPECT_EQ(computed, spec.prompt.size() - matched) << turn;
    spec.prompt.insert(spec.prompt.end(), out[0].ids.begin(), out[0].ids.end());
    for (int i = 0; i < 11; ++i) spec.prompt.push_back(3);
  }
}

TEST(Prefix, Conversation_AtItsNextTurn_ReusesItsCachedPages) {
  ModelEngineConfig config = plain_config();
  config.prefix_cache = true;
  expect_conversation_goes_on(config);
}

TEST(Prefix, Prompt_WhenItFillsWholePages_RecomputesOnlyTheLastPage) {
  ModelEngineConfig config = plain_config();
  config.prefix_cache = true;
  TestEngine t(config);
  SequenceSpec spec = varied_spec(1, 1);
  spec.prompt.assign(128, 7);
  for (const std::uint64_t computed : {128u, 128u + 64u}) {
    std::vector<Outcome> out(1);
    ASSERT_TRUE(t.engine->add(spec).has_value());
    while (!t.engine->idle()) gather(t.engine->step(), 1, out);
    EXPECT_EQ(out[0], run_alone(spec, plain_config()));
    EXPECT_EQ(t.engine->usage().prefill_tokens, computed);
  }
}

TEST(Prefix, ACancelledSequence_WhenSubmittedAgain_ReusesItsComputedPages) {
  ModelEngineConfig config = plain_config();
  config.prefix_cache = true;
  config.prefill_chunk = 70;
  for (int steps = 0; steps < 4; ++steps) {
    TestEngine t(config);
    SequenceSpec spec = varied_spec(1, 1);
    spec.prompt.clear();
    for (TokenId i = 0; i < 250; ++i) spec.prompt.push_back(2 + i * i % 91);
    ASSERT_TRUE(t.engine->add(spec).has_value());
    for (int i = 0; i < steps; ++i) t.engine->step();
    t.engine->cancel(1);
    std::vector<Outcome> out(1);
    ASSERT_TRUE(t.engine->add(spec).has_value());
    while (!t.engine->idle()) gather(t.engine->step(), 1, out);
    EXPECT_EQ(out[0], run_alone(spec, plain_config())) << steps;
  }
}

TEST(Prefix, Prefix_WhenKernelClassesDiffer_IsNotShared) {
  ModelEngineConfig config = plain_config();
  config.prefix_cache = true;
  std::vector<SequenceSpec> specs;
  for (SequenceKey key = 1; key <= 6; ++key) {
    specs.push_back(varied_spec(key, 1));
    specs.back().prompt.assign(16 * 12, 7);
    specs.back().max_tokens = key % 3 == 0 ? 13 : 12;  // decode-heavy, prefill-heavy
  }
  for (const bool one_by_one : {false, true}) {
    const RunResult result = run(config, specs, 0, one_by_one);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(result.outcomes[i], run_alone(specs[i], plain_config())) << i;
    }
    EXPECT_EQ(result.usage.prefill_tokens,
              2 * 192u + 4 * 64u);  // their last page is computed by all
  }
  EXPECT_NE(run_alone_ids(specs[0], 12), run_alone_ids(specs[2], 12));
}

/// A pool as after a long run: pages that were given back in any order are taken in their own.
TEST(PagePool, Take_WhenTheFollowingPageIsFree_ReturnsIt) {
  std::uint32_t state = 7;
  const auto draw = [&](std::size_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  PagePool pool(40);
  std::vector<std::int32_t> held;
  for (int i = 0; i < 40; ++i) held.push_back(pool.take());
  EXPECT_EQ(pool.take(), -1);
  EXPECT_EQ(pool.take(3), -1);
  while (!held.empty()) {
    const std::size_t at = draw(held.size());
    pool.give(held[at]);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::int32_t last = -1;
  int steps = 0;
  std::vector<bool> taken(40);
  for (int i = 0; i < 40; ++i) {
    const std::int32_t page = pool.take(last);
    ASSERT_GE(page, 0);
    ASSERT_FALSE(taken[static_cast<std::size_t>(page)]);
    taken[static_cast<std::size_t>(page)] = true;
    const bool could = last >= 0 && last + 1 < 40 && !taken[static_cast<std::size_t>(last) + 1];
    EXPECT_FALSE(could && page != last + 1);
    steps += page == last + 1 ? 1 : 0;
    last = page;
  }
  EXPECT_GT(steps, 25);
  EXPECT_EQ(pool.free(), 0);
}

/// Holders of pages come and go at random; what the cache says of a page is what was written there.
TEST(PrefixCache, Find_WhenPagesComeAndGoAtRandom_ReturnsOnlyMatchingPages) {
  constexpr std::size_t kPage = 64;
  std::uint32_t state = 1;
  const auto draw = [&](std::uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  PagePool pool(12);
  PrefixCache cache(pool);
  std::vector<std::vector<TokenId>> content(12);  // of each page: all tokens up to its end
  struct Holder {
    std::vector<std::int32_t> pages;
  };
  std::vector<Holder> holders;
  int found_pages = 0;
  for (int round = 0; round < 40'000; ++round) {
    if (!holders.empty() && (holders.size() == 3 || draw(3) == 0)) {
      const std::size_t at = draw(static_cast<std::uint32_t>(holders.size()));
      for (const std::int32_t page : holders[at].pages) pool.give(page);
      holders.erase(holders.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    // Few letters, a page each: many sequences share prefixes, and middles after other prefixes.
    std::vector<TokenId> tokens;
    for (std::uint32_t p = 0, n = 1 + draw(4); p < n; ++p) {
      tokens.insert(tokens.end(), kPage, static_cast<TokenId>(draw(3)));
    }
    const auto pages = static_cast<std::int32_t>(tokens.size() / kPage);
    Holder holder;
    const PrefixRoot root = {{draw(2), draw(2)}, draw(4) == 0};
    const std::int32_t matched = cache.match_pages(root, tokens, pages);
    cache.find(root, tokens, pages, holder.pages);
    ASSERT_EQ(static_cast<std::int32_t>(holder.pages.size()), matched);
    const auto up_to = [&](std::size_t page) {
      std::vector<TokenId> all(tokens.begin(),
                               tokens.begin() + static_cast<std::ptrdiff_t>((page + 1) * kPage));
      for (const std::uint64_t part : root.scope) all.push_back(static_cast<TokenId>(part));
      all.push_back(root.prefill_heavy ? 1 : 0);
      return all;
    };
    for (std::size_t p = 0; p < holder.pages.size(); ++p) {
      ASSERT_EQ(content[static_cast<std::size_t>(holder.pages[p])], up_to(p)) << round;
      ++found_pages;
    }
    const std::int32_t could = pool.free() + cache.evictable();
    for (std::size_t p = holder.pages.size(); p < static_cast<std::size_t>(pages); ++p) {
      std::int32_t page = pool.take();
      if (page < 0 && cache.evict()) page = pool.take();
      if (page < 0) {
        EXPECT_LT(could, pages - matched);
        break;
      }
      content[static_cast<std::size_t>(page)] = up_to(p);
      const auto last = std::span<const TokenId>(tokens).subspan(p * kPage, kPage);
      EXPECT_EQ(
          cache.insert(root, last, p == 0 ? PrefixCache::kNoParent : holder.pages.back(), page),
          page);
      holder.pages.push_back(page);
    }
    holders.push_back(std::move(holder));
  }
  EXPECT_GT(found_pages, 5'000);
  for (const Holder& holder : holders) {
    for (const std::int32_t page : holder.pages) pool.give(page);
  }
  EXPECT_EQ(pool.free() + cache.evictable(), 12);
  while (cache.evict()) {
  }
  EXPECT_EQ(pool.free(), 12);
}

TEST(Prefix, Found_WhenRootsDiffer_IsNothingOfOthers) {
  for (const bool one_by_one : {false, true}) {
    auto specs = alike(12, 150);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      // Three groups; the roots differ in the first, the last and every byte.
      specs[i].prefix_root = std::string(16, '\x01');
      if (i % 3 == 1) specs[i].prefix_root[0] = '\x02';
      if (i % 3 == 2) specs[i].prefix_root[15] = '\x02';
    }
    ModelEngineConfig config = plain_config();
    config.prefill_chunk = config.prefill_chunk_busy = 1'000;
    const RunResult expected = run(config, specs, 0, one_by_one);
    config.prefix_cache = true;
    const RunResult result = run(config, specs, 0, one_by_one);
    EXPECT_EQ(result.outcomes, expected.outcomes);
    const std::uint64_t saved = expected.usage.prefill_tokens - result.usage.prefill_tokens;
    EXPECT_EQ(saved, (12u - 3u) * 128u) << one_by_one;
  }
}

TEST(Prefix, Produced_WhenPagesAreCached_SaysHowManyTokensOnce) {
  ModelEngineConfig config = plain_config();
  config.prefix_cache = true;
  TestEngine t(config);
  std::vector<std::int64_t> told;
  SequenceSpec spec = varied_spec(1, 1);
  spec.prompt.assign(150, 7);
  spec.max_tokens = 3;
  spec.sampling.ignore_eos = true;
  for (const char* root : {"a", "a", "b", "a"}) {
    spec.prefix_root = root;
    ASSERT_TRUE(t.engine->add(spec).has_value());
    while (!t.engine->idle()) {
      for (const Produced& p : t.engine->step()) {
        if (p.cached_tokens) told.push_back(*p.cached_tokens);
      }
    }
  }
  EXPECT_EQ(told, (std::vector<std::int64_t>{0, 128, 0, 128}));
  spec.prefix_root = std::string(17, 'x');
  EXPECT_EQ(t.engine->add(spec).error().code, Errc::kInvalidRequest);
}

TEST(Prefix, CachedPrefixes_WhenKvPagesRunOut_AreEvictedAndChangeNoToken) {
  std::vector<SequenceSpec> specs;
  for (std::size_t common : {70, 130, 200}) {
    for (SequenceSpec& spec : alike(12, common)) {
      spec.key = 100 + specs.size();
      spec.prompt[0] = static_cast<TokenId>(common % 90);
      specs.push_back(std::move(spec));
    }
  }
  const RunResult expected = run(plain_config(), specs);
  for (const std::int32_t pages : {6, 7, 9, 14}) {
    ModelEngineConfig config = test_config();
    config.pages = pages;
    const RunResult result = run(config, specs);
    EXPECT_EQ(result.outcomes, expected.outcomes) << pages;
  }
}

ModelEngineConfig recurrent_config() {
  ModelEngineConfig config = test_config();
  config.recurrent = true;
  config.prefill_chunk = config.prefill_chunk_busy = 1'000;
  return config;
}

// Where layers carry a state a prefix is of use up to its last state snapshot.
TEST(States, StateSnapshot_WhereTextsDiverge_IsCached) {
  constexpr std::size_t kCommon = 150;
  auto specs = alike(12, kCommon);
  for (std::size_t i = 0; i < specs.size(); ++i) {  // so that no prompt ends near the branch
    for (std::size_t k = 0; k < 100; ++k) {
      specs[i].prompt.push_back(static_cast<TokenId>(2 + (i * 31 + k * k) % 90));
    }
    specs[i].max_tokens = 20;
  }
  ModelEngineConfig config = recurrent_config();
  config.slots = 12;
  config.pages = 60;
  for (const bool one_by_one : {false, true}) {
    const RunResult expected = run(plain_config(), specs, 0, one_by_one);
    const RunResult result = run(config, specs, 0, one_by_one);
    EXPECT_EQ(result.outcomes, expected.outcomes);
    const std::uint64_t saved = expected.usage.prefill_tokens - result.usage.prefill_tokens;
    // A waiting sequence marks where it diverges; a later one learns it from the one before it.
    EXPECT_EQ(saved, (one_by_one ? 10u : 11u) * 128u) << one_by_one;
  }
}

// Draft tokens could pass the end of a page, after which the state is wanted.
TEST(States, Conversation_AtItsNextTurn_ResumesFromItsStateSnapshot) {
  for (const std::int64_t period : {0, 3, 5}) {
    expect_conversation_goes_on(recurrent_config(), period);
  }
}

TEST(States, PreemptedSequence_WhenReadmitted_ResumesFromItsLastPage) {
  ModelEngineConfig config = recurrent_config();
  config.pages = 9;
  TestEngine t(config);
  std::vector<SequenceSpec> specs(2);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].key = i;
    specs[i].prompt.assign(60, 3 + static_cast<TokenId>(i));
    specs[i].max_tokens = 230;
    specs[i].sampling.ignore_eos = true;
    ASSERT_TRUE(t.engine->add(specs[i]).has_value());
  }
  std::vector<Outcome> out(2);
  while (!t.engine->idle()) gather(t.engine->step(), 0, out);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(out[i], run_alone(specs[i], plain_config())) << i;
  }
  EXPECT_GT(t.engine->usage().preemptions, 0u);
  // Less than a page of each sequence that came back, not its text.
  EXPECT_LE(t.engine->usage().prefill_tokens, 120 + 64 * t.engine->usage().preemptions);
}

void expect_nothing_changes(std::int64_t period) {
  std::vector<SequenceSpec> specs;
  for (std::size_t common : {70, 130, 200}) {
    for (SequenceSpec& spec : alike(12, common)) {
      spec.key = 100 + specs.size();
      spec.prompt[0] = static_cast<TokenId>(common % 90);
      specs.push_back(std::move(spec));
    }
  }
  const RunResult expected = run(plain_config(), specs, period);
  for (const std::int32_t pages : {6, 7, 9, 14, 60}) {
    for (const std::int32_t slots : {2, 6}) {
      ModelEngineConfig config = recurrent_config();
      config.pages = pages;
      config.slots = slots;
      config.prefill_chunk = config.prefill_chunk_busy = pages == 9 ? 50 : 1'000;
      const RunResult result = run(config, specs, period);
      EXPECT_EQ(result.outcomes, expected.outcomes) << pages << " " << slots;
      EXPECT_GE(result.usage.drafts_accepted, period > 0 ? 10u : 0u) << pages << " " << slots;
      TestEngine t(config);  // the same, with some that go away, go wrong or stand still
      t.log->error_after = 60;
      t.log->period = period;
      std::vector<Outcome> out(specs.size());
      std::size_t next = 0;
      for (int step = 0; next < specs.size() || !t.engine->idle(); ++step) {
        while (next < specs.size() && t.engine->add(specs[next]).has_value()) ++next;
        if (step % 7 == 3) t.engine->cancel(100 + static_cast<SequenceKey>(step * 5) % next);
        for (std::size_t i = 0; i < next; ++i) t.engine->pause(100 + i, (step / 5 + i) % 4 == 0);
        gather(t.engine->step(), 100, out);
      }
      for (std::size_t i = 0; i < specs.size(); ++i) {
        const std::vector<TokenId>& want = expected.outcomes[i].ids;
        ASSERT_LE(out[i].ids.size(), want.size()) << i;
        EXPECT_TRUE(std::equal(out[i].ids.begin(), out[i].ids.end(), want.begin())) << i;
      }
    }
  }
}

TEST(States, Tokens_WithPagePressureCancelsAndErrors_AreTheSame) {
  expect_nothing_changes(0);
}

TEST(States, State_WhenDraftTokensAreRejected_GoesOnFromTheAccepted) {
  for (const std::int64_t period : {2, 4, 9}) expect_nothing_changes(period);
}

// The lag of this sequence's state exceeds the budget of any step.
TEST(States, State_WhenItsLagExceedsTheBudget_CatchesUpInParts) {
  SequenceSpec spec = varied_spec(100, 3);
  spec.prompt.resize(5);
  spec.max_tokens = 200;
  spec.sampling.ignore_eos = true;
  spec.stops.clear();
  const RunResult expected = run(plain_config(), {spec}, 5);
  TestEngine t(recurrent_config());
  t.log->period = 5;
  std::vector<Outcome> out(1);
  ASSERT_TRUE(t.engine->add(spec).has_value());
  std::uint64_t parts = 0;
  for (int step = 0; !t.engine->idle(); ++step) {
    t.engine->set_prefill_chunk(step % 2 == 0 ? 1'000 : 1, step % 2 == 0 ? 1'000 : 1);
    const std::uint64_t before = t.engine->usage().tokens;
    gather(t.engine->step(), 100, out);
    parts += t.engine->usage().tokens == before && !out[0].ids.empty() ? 1 : 0;
  }
  EXPECT_EQ(out[0], expected.outcomes[0]);
  EXPECT_GT(t.engine->usage().drafts_accepted, 20u);
  EXPECT_GT(parts, 3u);
}

TEST(Drafts, DraftTokens_WhenVerified_SaveStepsAndChangeNoToken) {
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < 24; ++i) specs.push_back(varied_spec(100 + i, i));
  for (const std::int64_t period : {0, 4, 9}) {
    for (const bool one_by_one : {false, true}) {
      const RunResult expected = run(plain_config(), specs, period, one_by_one);
      for (const bool recurrent : {false, true}) {
        ModelEngineConfig config = plain_config();
        config.drafts = kDraftsMax;
        config.recurrent = recurrent;
        const RunResult result = run(config, specs, period, one_by_one);
        EXPECT_EQ(result.outcomes, expected.outcomes) << period;
        EXPECT_EQ(result.usage.tokens, expected.usage.tokens);
        EXPECT_LE(result.usage.drafts_accepted, result.usage.drafts);
        if (period == 0) continue;
        EXPECT_GT(result.usage.drafts_accepted, 50u) << one_by_one << recurrent;
        EXPECT_LT(result.usage.steps, expected.usage.steps);
      }
    }
  }
}

TEST(Drafts, DraftTokens_WhenTheirLogitsAreNotFinite_AreDiscarded) {
  // Each repeats itself, and one of the tokens that come again ends it.
  std::vector<SequenceSpec> specs;
  for (std::size_t i = 0; i < 6; ++i) {
    SequenceSpec spec = varied_spec(100 + i, i);
    spec.max_tokens = 60;
    spec.sampling.ignore_eos = true;
    spec.stops.clear();
    spec.prompt.clear();
    for (std::size_t k = 0; k < 21 + i; ++k) {
      spec.prompt.push_back(static_cast<TokenId>(40 + (k + i) % 5));
    }
    specs.push_back(std::move(spec));
  }
  for (const TokenId bad : {40, 42, 44}) {
    const auto run_with = [&](std::int32_t drafts, bool recurrent, bool together) {
      ModelEngineConfig config = plain_config();
      config.drafts = drafts;
      config.recurrent = recurrent;
      TestEngine t(config);
      t.log->period = 5;
      t.log->error_after = bad;
      std::vector<Outcome> out(specs.size());
      for (const SequenceSpec& spec : specs) {
        EXPECT_TRUE(t.engine->add(spec).has_value());
        while (!together && !t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
      }
      while (!t.engine->idle()) gather(t.engine->step(), specs[0].key, out);
      return out;
    };
    const auto expected = run_with(0, false, true);
    for (const bool recurrent : {false, true}) {
      for (const bool together : {false, true}) {
        EXPECT_EQ(run_with(kDraftsMax, recurrent, together), expected) << bad << recurrent;
      }
    }
  }
}

// More rows than a weight is read for at once are not nearly free. Tokens that a state goes over
// once more are rows, too.
TEST(Drafts, DraftRows_WhenVerified_NeverExceedTheMaximum) {
  for (const bool recurrent : {false, true}) {
    ModelEngineConfig config = plain_config();
    config.drafts = kDraftsMax;
    config.recurrent = recurrent;
    TestEngine t(config);
    std::vector<Outcome> out(20);
    for (std::size_t i = 0; i < out.size(); ++i) {
      SequenceSpec spec = varied_spec(100 + i, i);
      spec.prompt.resize(5);
      spec.max_tokens = 300;
      spec.sampling.ignore_eos = true;
      spec.stops.clear();
      spec.sampling.extra = R"({"logit_bias": {"7": 60, "8": 50}})";  // some drafts are accepted
      ASSERT_TRUE(t.engine->add(spec).has_value());
      while (!t.engine->idle()) gather(t.engine->step(), 100, out);
      EXPECT_EQ(out[i], run(plain_config(), {spec}).outcomes[0]) << i;
    }
    std::int32_t most = 0;
    for (const HashCall& call : t.log->calls) most = std::max(most, call.prefill);
    EXPECT_EQ(most, 1 + kDraftsMax) << recurrent;
  }
}

TEST(ModelOptions, Options_WhenGivenAsJson_AreReadOrRefused) {
  EngineOptions options;
  EXPECT_TRUE(read_options("", options).has_value());
  EXPECT_TRUE(read_options(R"({"prefix_cache":false,"drafts":3,"gap_ms":50,"step_us":5})", options)
                  .has_value());
  EXPECT_FALSE(options.prefix_cache);
  EXPECT_EQ(options.drafts, 3);
  EXPECT_EQ(options.gap_ms, 50);
  EXPECT_EQ(options.kernels, "");
  EXPECT_TRUE(read_options(R"({"kernels":"scalar"})", options).has_value());
  EXPECT_EQ(options.kernels, "scalar");
  for (const char* bad : {"[]", "{", R"({"drafts":8})", R"({"drafts":-1})", R"({"drafts":1.5})",
                          R"({"prefix_cache":1})", R"({"gap_ms":-1})", R"({"gap_ms":60001})",
                          R"({"gap_ms":"5"})", R"({"kernels":1})"}) {
    const auto refused = read_options(bad, options);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Errc::kInvalidRequest);
  }
}

}  // namespace
}  // namespace holdfast::engine::prefix_test
