// Goal: the matcher accepts what JSON schema means: every finished document is valid, and a valid
// document in the form of generated ones is accepted. Method: random schemas; random walks over the
// demo model's tokens to finished documents; documents made from those by random changes; all are
// judged by python3-jsonschema (validate.py), an independent implementation. HOLDFAST_SCHEMA_SEED
// and HOLDFAST_SCHEMA_COUNT choose other cases.

#include <gtest/gtest.h>

#include <iostream>

#include "judge.h"
#include "random_schema.h"
#include "support.h"

namespace holdfast::grammar::tests::differential_test {
namespace {

struct Walked : Judged {
  GrammarPtr grammar;
  std::vector<bool> walked;  // by document: made by a walk, else by a change of one
};

/// Walks over any allowed tokens first, then mostly over those that close what is open. Empty if it
/// did not end.
std::string walk(const std::shared_ptr<TokenMasks>& masks, RandomSchema& random) {
  Matcher matcher(masks);
  std::string text;
  const std::uint64_t wander = random.below(50);
  for (std::uint64_t i = 0; i < 1'500; ++i) {
    const std::vector<TokenId> allowed = allowed_ids(matcher);
    if (allowed.empty()) return "";
    TokenId id = allowed[random.below(allowed.size())];
    if (i >= wander && random.below(40) != 0) {
      int best = 0;
      for (const TokenId other : allowed) {
        const std::string_view bytes = matcher.table().bytes(other);
        const int score = matcher.table().is_end(other)          ? 5
                          : bytes == "\""                        ? 4
                          : bytes == "}" || bytes == "]"         ? 3
                          : bytes == "," || bytes == ":"         ? 2
                          : bytes.size() == 1 && bytes[0] != ' ' ? 1
                                                                 : 0;
        if (score > best || (score == best && score == 1 && random.below(8) == 0)) {
          best = score;
          id = other;
        }
      }
    }
    CHECK(matcher.accept(id));
    if (matcher.ended()) return text;
    text += matcher.table().bytes(id);
  }
  return "";
}

TEST(SchemaDifferential, Grammar_WithRandomSchemas_AgreesWithAnIndependentValidator) {
  RandomSchema random(setting("HOLDFAST_SCHEMA_SEED", 1));
  const std::uint64_t count = setting("HOLDFAST_SCHEMA_COUNT", 200);
  std::map<std::string, int> histogram;
  std::map<std::string, int> refused;
  std::vector<Walked> cases;
  int unfinished = 0;
  int walks = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Walked c;
    c.schema = random.make(3 + static_cast<int>(i % 3), histogram);
    const auto grammar = compile_json_schema(c.schema);
    if (!grammar) {
      ++refused[refusal(grammar.error().what)];
      continue;
    }
    c.grammar = *grammar;
    const auto masks = masks_of(*grammar, demo_table());
    for (int n = 0; n < 4; ++n) {
      const std::string text = walk(masks, random);
      ++walks;
      unfinished += text.empty() ? 1 : 0;
      if (text.empty()) continue;
      c.documents.push_back(text);
      c.walked.push_back(true);
      for (int m = 0; m < 6; ++m) {
        const std::string changed = random.mutate(text);
        if (changed.empty()) continue;
        c.documents.push_back(changed);
        c.walked.push_back(false);
      }
    }
    cases.push_back(std::move(c));
  }
  const std::vector<std::string> verdicts = judge({cases.begin(), cases.end()});
  ASSERT_EQ(verdicts.size(), cases.size()) << "validate.py did not judge; is python3-jsonschema "
                                              "there?";
  int agreed[2] = {0, 0};
  int wrong = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(verdicts[i].size(), cases[i].documents.size());
    for (std::size_t d = 0; d < cases[i].documents.size() && wrong < 20; ++d) {
      const bool valid = verdicts[i][d] == '1';
      const bool expected = cases[i].walked[d] || accepts(cases[i].grammar, cases[i].documents[d]);
      ++agreed[valid ? 1 : 0];
      if (valid == expected) continue;
      ++wrong;
      ADD_FAILURE() << (expected ? "let through, not valid: " : "valid, not let through: ")
                    << cases[i].documents[d] << "\nschema: " << cases[i].schema;
    }
  }
  std::cout << cases.size() << " schemas, " << walks << " walks, " << unfinished
            << " unfinished, documents valid " << agreed[1] << ", not valid " << agreed[0] << "\n";
  for (const auto& [keyword, n] : histogram) std::cout << keyword << " " << n << "  ";
  std::cout << "\nrefused: ";
  for (const auto& [why, n] : refused) std::cout << why << " " << n << "  ";
  std::cout << "\n";
  EXPECT_GT(cases.size(), count * 6 / 10);
  EXPECT_LT(unfinished, walks / 10);
  EXPECT_GT(agreed[1], walks / 2);
  EXPECT_GT(agreed[0], walks / 2);
}

}  // namespace
}  // namespace holdfast::grammar::tests::differential_test
