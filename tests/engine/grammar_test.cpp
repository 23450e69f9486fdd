// Goal: a sequence with a grammar produces a text of it, whatever the sampling; it depends on its
// own ids and parameters alone, so it goes on from any committed prefix, with any neighbours and
// after preemption, with the same ids; sequences without one are not touched. Method: the device
// double and the letter tokenizer of the engine's tests; a sequence run alone is the truth.

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/engine/hash_executor.h"
#include "worker/engine/philox.h"

namespace holdfast::engine::grammar_test {
namespace {

using wire::FinishReason;

/// Letters only, as the tokenizer has no others.
const std::vector<grammar::GrammarRequest> kGrammars = {
    {"regex", "((ab|cde)+z){2,6}"},
    {"gbnf", "root ::= \"x\" root \"y\" | [a-f]{1,3}"},
    {"regex", "[a-m]*n"},
    {"regex", "(q[a-z]{3}){20,40}"}};

SequenceSpec make_spec(SequenceKey key, std::size_t n, float temperature = 0.9f) {
  SequenceSpec spec;
  spec.key = key;
  spec.prompt.assign(5 + n % 90, static_cast<TokenId>(3 + n % 50));
  spec.sampling.temperature = temperature;
  spec.sampling.seed = 1000 + n;
  spec.sampling.extra = grammar::extra_of(kGrammars[n % kGrammars.size()]);
  spec.max_tokens = 180;
  return spec;
}

/// The token bytes of the ids without the end token.
std::string text_of(const std::vector<TokenId>& ids) {
  const auto tokenizer = make_letter_tokenizer(97, kTestEnd);
  std::string text;
  for (const TokenId id : ids) text += tokenizer->is_end(id) ? "" : tokenizer->token_bytes(id);
  return text;
}

grammar::Matcher new_matcher(const SequenceSpec& spec) {
  const auto request = grammar::read_extra(spec.sampling.extra).value();
  const auto table = grammar::TokenTable::make(*make_letter_tokenizer(97, kTestEnd));
  return grammar::Matcher(grammar::GrammarCache(table).find(*request).value());
}

void expect_of_grammar(const SequenceSpec& spec, const Outcome& out) {
  grammar::Matcher matcher = new_matcher(spec);
  for (const TokenId id : out.ids) ASSERT_TRUE(matcher.accept(id)) << text_of(out.ids);
  EXPECT_TRUE(out.finish == FinishReason::kStop || out.finish == FinishReason::kLength);
  EXPECT_EQ(matcher.ended(), out.finish == FinishReason::kStop) << text_of(out.ids);
}

// Each letter may be read in more ways than the one before.
TEST(EngineGrammar, Sequence_WhenItsGrammarIsTooAmbiguous_EndsAlone) {
  SequenceSpec spec = make_spec(1, 0);
  spec.sampling.extra = grammar::extra_of(
      grammar::GrammarRequest{"gbnf", "root ::= \"a\" root? root? root? root? root? root? root?"});
  spec.sampling.min_tokens = spec.max_tokens = 300;
  const SequenceSpec plain_spec = make_spec(2, 1);
  const Outcome alone = run_alone(plain_spec);
  TestEngine t;
  ASSERT_TRUE(t.engine->add(spec).has_value());
  ASSERT_TRUE(t.engine->add(plain_spec).has_value());
  std::vector<Outcome> out(2);
  while (!t.engine->idle()) gather(t.engine->step(), 1, out);
  EXPECT_EQ(out[0].finish, FinishReason::kError);
  EXPECT_EQ(out[0].error, Errc::kUnsupported);
  EXPECT_GT(out[0].ids.size(), 20u);
  EXPECT_EQ(text_of(out[0].ids), std::string(out[0].ids.size(), 'a'));
  EXPECT_EQ(out[1], alone);
}

TEST(EngineGrammar, Text_WithAGrammar_MatchesIt) {
  int stopped = 0;
  for (std::size_t n = 0; n < 40; ++n) {
    const SequenceSpec spec = make_spec(1, n, n % 5 == 0 ? 0.0f : 0.3f * static_cast<float>(n % 7));
    const Outcome out = run_alone(spec);
    expect_of_grammar(spec, out);
    stopped += out.finish == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 20);
}

// A grammar leaves one letter of thirteen open, and says no three the same way twice. Each letter
// is several tokens, of which these texts mostly have the first.
TEST(EngineGrammar, DraftTokens_WhenTheGrammarForcesThem_ChangeNoToken) {
  nlohmann::json bias;
  for (TokenId id = 0; id < 26; ++id) bias[std::to_string(id == 1 ? 27 : id)] = 7;
  std::vector<SequenceSpec> specs;
  for (std::size_t n = 0; n < 12; ++n) {
    SequenceSpec spec = make_spec(n, n);
    std::string source;
    for (std::int64_t i = 0; i < 120; ++i) {
      const auto drawn = random_bits(n, 1, i, RandomPurpose::kNeighbour) % 26;
      source += i % 13 == 12 ? "[a-z]" : std::string(1, static_cast<char>('a' + drawn));
    }
    spec.sampling.extra = nlohmann::json{
        {"grammar", {{"kind", "regex"}, {"source", source}}},
        {"logit_bias", bias}}.dump();
    specs.push_back(spec);
  }
  for (const bool recurrent : {false, true}) {
    ModelEngineConfig config = test_config();
    config.recurrent = recurrent;
    config.slots = 2;
    config.drafts = 0;
    TestEngine plain(config);
    config.drafts = kDraftsMax;
    TestEngine drafting(config);
    std::vector<Outcome> expected(specs.size()), out(specs.size());
    for (TestEngine* t : {&plain, &drafting}) {
      std::size_t next = 0;
      while (next < specs.size() || !t->engine->idle()) {
        while (next < specs.size() && t->engine->add(specs[next]).has_value()) ++next;
        gather(t->engine->step(), 0, t == &plain ? expected : out);
      }
    }
    EXPECT_EQ(out, expected) << recurrent;
    for (std::size_t n = 0; n < specs.size(); ++n) expect_of_grammar(specs[n], out[n]);
    const Usage usage = drafting.engine->usage();
    EXPECT_GT(usage.drafts_accepted, 500u) << recurrent;
    EXPECT_LT(usage.steps, plain.engine->usage().steps * 2 / 3) << recurrent;
  }
}

TEST(EngineGrammar, Grammar_WithEverySamplingParameter_IsObeyed) {
  for (std::size_t n = 0; n < 24; ++n) {
    SequenceSpec spec = make_spec(1, n, 1.2f);
    switch (n % 6) {
      case 0:
        spec.sampling.top_k = 5;
        break;
      case 1:
        spec.sampling.top_p = 0.3f;
        break;
      case 2:
        spec.sampling.min_p = 0.2f;
        break;
      case 3:
        spec.sampling.repetition_penalty = 1.5f;
        spec.sampling.presence_penalty = 1.0f;
        spec.sampling.frequency_penalty = 0.7f;
        break;
      case 4:
        spec.sampling.min_tokens = 60;
        break;
      default:
        spec.sampling.ignore_eos = true;
    }
    const Outcome out = run_alone(spec);
    expect_of_grammar(spec, out);
  }
}

// With "finish" every text that has enough tokens for its shortest form ends, and from any prefix
// with the same ids; without need for it, ids are those without it. An end token counts as a token.
TEST(EngineGrammar, Text_WithTheFinishOption_EndsWithinMaxTokens) {
  struct Shape {
    grammar::GrammarRequest request;
    std::int64_t shortest;  // tokens, the end among them
  };
  const std::vector<Shape> shapes = {{{"regex", "[a-m]*n", true}, 2},
                                     {{"regex", "(q[a-z]{3}){20,40}", true}, 81},
                                     {{"gbnf", "root ::= \"x\" root \"yy\" | \"z\"", true}, 2},
                                     {{"regex", "a*(b|cdefg)", true}, 2}};
  int other = 0;
  for (std::size_t n = 0; n < 48; ++n) {
    const Shape& shape = shapes[n % shapes.size()];
    SequenceSpec spec = make_spec(1, n, 1.3f);
    spec.max_tokens = shape.shortest + static_cast<std::int64_t>(n / 4) * (n % 3);
    spec.sampling.extra = grammar::extra_of(shape.request);
    const Outcome whole = run_alone(spec);
    EXPECT_EQ(whole.finish, FinishReason::kStop) << n << " " << text_of(whole.ids);
    expect_of_grammar(spec, whole);
    SequenceSpec rest = spec;
    rest.committed.assign(whole.ids.begin(), whole.ids.begin() + static_cast<long>(n) % 7 % 2 + 1);
    EXPECT_EQ(run_alone(rest).finish, FinishReason::kStop);
    rest.committed.assign(whole.ids.begin(), whole.ids.end() - 1);
    EXPECT_EQ(run_alone(rest).ids.back(), whole.ids.back());
    SequenceSpec plain = spec;
    plain.sampling.extra = grammar::extra_of({shape.request.kind, shape.request.source});
    const Outcome usual = run_alone(plain);
    other += usual.ids != whole.ids;
    if (usual.finish == FinishReason::kStop) {
      EXPECT_EQ(usual.ids, whole.ids) << n;
    }
  }
  EXPECT_GT(other, 10);
  SequenceSpec spec = make_spec(1, 3);
  spec.sampling.extra = grammar::extra_of({"regex", "(q[a-z]{3}){20,40}", true});
  spec.max_tokens = 80;  // the shortest has 80 and an end
  EXPECT_EQ(run_alone(spec).finish, FinishReason::kLength);
}

// A bias has no effect on tokens that may not come; on one that may, it has.
TEST(EngineGrammar, LogitBias_WhenTheGrammarForbidsTheToken_DoesNotAllowIt) {
  SequenceSpec spec = make_spec(1, 2);  // [a-m]*n
  spec.sampling.extra = R"({"grammar":{"kind":"regex","source":"[a-m]*n"},)"
                        R"("logit_bias":{"39":1000,"25":1000}})";  // "n" and "z"
  const Outcome out = run_alone(spec);
  EXPECT_EQ(text_of(out.ids), "n");
}

TEST(EngineGrammar, Resume_FromAnyCommittedPrefix_GivesTheSameIds) {
  for (std::size_t n = 0; n < 8; ++n) {
    const SequenceSpec spec = make_spec(1, n);
    const Outcome whole = run_alone(spec);
    for (long cut = 1; cut <= static_cast<long>(whole.ids.size()); ++cut) {
      SequenceSpec rest = spec;
      rest.committed.assign(whole.ids.begin(), whole.ids.begin() + cut);
      Outcome resumed = run_alone(rest);
      if (!resumed.ids.empty()) resumed.ids.erase(resumed.ids.begin(), resumed.ids.begin() + cut);
      EXPECT_EQ(resumed.finish, whole.finish);
      const std::vector<TokenId> tail(whole.ids.begin() + cut, whole.ids.end());
      EXPECT_EQ(resumed.ids, tail) << n << " cut at " << cut;
    }
  }
}

TEST(EngineGrammar, Tokens_WithNeighboursAndPreemption_AreTheSame) {
  std::vector<SequenceSpec> specs;
  for (std::size_t n = 0; n < 24; ++n) {
    specs.push_back(n % 3 == 0 ? varied_spec(100 + n, n) : make_spec(100 + n, n));
  }
  std::vector<Outcome> alone;
  for (const SequenceSpec& spec : specs) alone.push_back(run_alone(spec));
  std::uint64_t preemptions = 0;  // admission leaves spare pages: not every pool size needs one
  for (const std::int32_t pages : {5, 6, 7, 8}) {
    ModelEngineConfig config = test_config();
    config.pages = pages;
    TestEngine t(config);
    std::vector<Outcome> out(specs.size());
    std::size_t next = 0;
    for (int steps = 0; steps < 100'000 && (next < specs.size() || !t.engine->idle()); ++steps) {
      while (next < specs.size() && t.engine->add(specs[next]).has_value()) ++next;
      gather(t.engine->step(), specs[0].key, out);
    }
    preemptions += t.engine->usage().preemptions;
    for (std::size_t n = 0; n < specs.size(); ++n) EXPECT_EQ(out[n], alone[n]) << n;
  }
  EXPECT_GT(preemptions, 0u);
}

// Compiling is held up until the others are done; then the texts are what they always are.
TEST(EngineGrammar, GrammarCompilation_WhileItIsSlow_DelaysNoOtherSequence) {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  ModelEngineConfig config = test_config();
  config.compile_grammar = [&](const grammar::GrammarRequest& request) {
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return open; });
    return grammar::compile(request);
  };
  TestEngine t(config);
  std::vector<SequenceSpec> specs;
  std::vector<Outcome> alone;
  for (std::size_t n = 0; n < 4; ++n) {
    specs.push_back(n % 2 == 0 ? make_spec(1 + n, n) : varied_spec(1 + n, n));
    alone.push_back(run_alone(specs[n]));
    ASSERT_TRUE(t.engine->add(specs[n]).has_value());
  }
  t.engine->cancel(1);  // while it waits
  ASSERT_TRUE(t.engine->add(specs[0]).has_value());
  std::vector<Outcome> out(specs.size());
  while (out[1].finish == FinishReason::kNone || out[3].finish == FinishReason::kNone) {
    gather(t.engine->step(), 1, out);
  }
  EXPECT_TRUE(out[0].ids.empty());
  EXPECT_TRUE(out[2].ids.empty());
  EXPECT_FALSE(t.engine->idle());
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  opened.notify_all();
  while (!t.engine->idle()) gather(t.engine->step(), 1, out);
  for (std::size_t n = 0; n < specs.size(); ++n) EXPECT_EQ(out[n], alone[n]) << n;
}

TEST(EngineGrammar, Grammar_WhenInvalidOrUnsatisfiable_IsATypedError) {
  TestEngine t;
  const auto code = [&](SequenceSpec spec) {
    const auto added = t.engine->add(std::move(spec));
    if (!added.has_value()) return added.error().code;
    for (;;) {
      for (const Produced& p : t.engine->step()) {
        return p.finish == FinishReason::kError ? p.error.code : Errc::kInternal;
      }
    }
  };
  SequenceSpec spec = make_spec(1, 0);
  spec.sampling.extra = grammar::extra_of({"regex", "a{3,1}"});
  EXPECT_EQ(code(spec), Errc::kInvalidRequest);
  spec.sampling.extra = grammar::extra_of({"regex", "(a)\\1"});
  EXPECT_EQ(code(spec), Errc::kUnsupported);
  spec.sampling.extra = grammar::extra_of({"regex", "[0-9]+"});  // no such tokens here
  EXPECT_EQ(code(spec), Errc::kUnsupported);
  spec.sampling.extra = grammar::extra_of({"xml", "a"});
  EXPECT_EQ(code(spec), Errc::kInvalidRequest);
  spec = make_spec(1, 0);
  spec.committed = {25};  // "z" is no beginning
  EXPECT_EQ(code(spec), Errc::kInvalidRequest);
  spec.committed.clear();
  EXPECT_EQ(code(spec), Errc::kInternal);  // taken
  ModelEngineConfig config = test_config();
  config.vocabulary.tokenizer = nullptr;
  config.vocabulary.fake_end = kTestEnd;
  TestEngine bare(config);
  EXPECT_EQ(bare.engine->add(make_spec(1, 0)).error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace holdfast::engine::grammar_test
