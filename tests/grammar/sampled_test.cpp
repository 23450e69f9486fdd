// Goal: whatever the schema, a model that has not learnt JSON ends its document, and the document
// is valid; no text was ever one that could not become a valid document. Method: the real engine
// with the demo model, sampling at temperature 1; random schemas of depth 3 and more; the texts are
// matched again byte by byte, those that ended are judged by python3-jsonschema (validate.py). The
// model writes plays, and its strings do not end by themselves, so the request sets "finish";
// HOLDFAST_SCHEMA_FINISH=0 shows how many end without it. HOLDFAST_SCHEMA_SEED and
// HOLDFAST_SCHEMA_COUNT choose other and more cases; the figure in docs/use/structured-output.md is
// of 1,000.

#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "judge.h"
#include "random_schema.h"
#include "shared/grammar/request.h"
#include "support.h"
#include "worker/engine/engine.h"

namespace holdfast::grammar::tests::sampled_test {
namespace {

constexpr std::int64_t kContext = 512;  // of the demo model
constexpr std::int32_t kSlots = 16;

struct Sampled {
  GrammarPtr grammar;
  std::vector<TokenId> ids;
  wire::FinishReason finish = wire::FinishReason::kNone;
  std::string error;
};

bool finishes() {
  return setting("HOLDFAST_SCHEMA_FINISH", 1) != 0;
}

std::unique_ptr<engine::Engine> open_demo() {
  engine::EngineOptions options;
  options.context = kContext;
  options.slots = kSlots;
  options.threads = 2;
  return engine::open_engine(demo_path(), options).value();
}

engine::SequenceSpec spec_of(std::size_t n, const std::string& schema) {
  engine::SequenceSpec spec;
  spec.key = n;
  spec.prompt = {static_cast<TokenId>(40 + n % 50), static_cast<TokenId>(300 + n % 97)};
  spec.sampling.temperature = 1;
  spec.sampling.seed = n;
  spec.sampling.extra = extra_of({"json_schema", schema, finishes()});
  spec.max_tokens = kContext - 2;
  return spec;
}

void run(const std::vector<Judged>& cases, std::vector<Sampled>& samples) {
  const auto engine = open_demo();
  std::size_t next = 0;
  while (next < cases.size() || !engine->idle()) {
    for (; next < cases.size() && engine->usage().running < kSlots; ++next) {
      const auto added = engine->add(spec_of(next, cases[next].schema));
      ASSERT_TRUE(added.has_value()) << added.error().what << "\n" << cases[next].schema;
    }
    for (const engine::Produced& p : engine->step()) {
      Sampled& sample = samples[p.key];
      sample.ids.insert(sample.ids.end(), p.ids.begin(), p.ids.end());
      sample.finish = p.finish;
      if (p.finish == wire::FinishReason::kError) sample.error = p.error.what;
    }
  }
}

struct Drawn {
  std::vector<Judged> cases;
  std::vector<Sampled> samples;
  std::map<std::string, int> histogram;
  std::map<std::string, int> refused;
};

Drawn draw(std::uint64_t count) {
  Drawn out;
  RandomSchema random(setting("HOLDFAST_SCHEMA_SEED", 1));
  for (int made = 0; out.cases.size() < count; ++made) {
    std::map<std::string, int> keywords = out.histogram;
    const std::string schema = random.make(3 + made % 3, keywords);
    const auto grammar = compile_json_schema(schema);
    if (!grammar) {
      ++out.refused[refusal(grammar.error().what)];
      continue;
    }
    out.histogram = std::move(keywords);
    out.cases.push_back({schema, {}});
    out.samples.push_back({*grammar, {}, wire::FinishReason::kNone, {}});
  }
  return out;
}

/// Counts the samples that ended; their documents go to their cases.
std::size_t match(Drawn& drawn) {
  std::size_t stopped = 0;
  for (std::size_t i = 0; i < drawn.cases.size(); ++i) {
    Judged& c = drawn.cases[i];
    const Sampled& sample = drawn.samples[i];
    EXPECT_EQ(sample.error, "") << c.schema;
    std::string text;
    for (const TokenId id : sample.ids) text += demo_table()->bytes(id);
    EXPECT_TRUE(begins(sample.grammar, text)) << text << "\nschema: " << c.schema;
    if (sample.finish != wire::FinishReason::kStop) {
      std::cout << "did not end: " << text << "\nschema: " << c.schema << "\n";
      continue;
    }
    ++stopped;
    EXPECT_TRUE(accepts(sample.grammar, text)) << text << "\nschema: " << c.schema;
    c.documents.push_back(text);
  }
  return stopped;
}

TEST(Sampled, Documents_WhenSampledAtRandom_EndAndAreValid) {
  const std::uint64_t count = setting("HOLDFAST_SCHEMA_COUNT", 20);
  Drawn drawn = draw(count);
  run(drawn.cases, drawn.samples);
  const std::size_t stopped = match(drawn);
  const std::vector<std::string> verdicts = judge(drawn.cases);
  ASSERT_EQ(verdicts.size(), count) << "validate.py did not judge; is python3-jsonschema there?";
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t d = 0; d < drawn.cases[i].documents.size(); ++d) {
      EXPECT_EQ(verdicts[i][d], '1') << "ended, not valid: " << drawn.cases[i].documents[d]
                                     << "\nschema: " << drawn.cases[i].schema;
    }
  }
  std::cout << count << " schemas, " << stopped << " documents ended\n";
  for (const auto& [keyword, n] : drawn.histogram) std::cout << keyword << " " << n << "  ";
  std::cout << "\nrefused: ";
  for (const auto& [why, n] : drawn.refused) std::cout << why << " " << n << "  ";
  std::cout << "\n";
  EXPECT_GE(stopped * 100, finishes() ? count * 95 : 1);
}

}  // namespace
}  // namespace holdfast::grammar::tests::sampled_test
