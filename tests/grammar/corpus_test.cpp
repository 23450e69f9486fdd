// Goal: schemas as generators, servers and agents write them are accepted, and accepted ones give
// valid documents alone; a refused schema is listed in docs/use/structured-output.md with its
// reason. Method: the schemas of tests/grammar/schemas (make.py there); each is compiled, documents
// are walked at random to their end, byte by byte, and judged by python3-jsonschema (validate.py).
// HOLDFAST_CORPUS_WALKS sets the number of documents for each schema.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "judge.h"
#include "support.h"

namespace holdfast::grammar::tests::corpus_test {
namespace {

using Json = nlohmann::ordered_json;

struct Line {
  std::string kind;
  std::string name;
  std::string schema;
};

std::vector<Line> read_corpus() {
  std::vector<Line> lines;
  for (const char* file : {"models", "patterns", "tools"}) {
    std::ifstream in(HOLDFAST_SOURCE_DIR "/tests/grammar/schemas/" + std::string(file) + ".jsonl");
    for (std::string text; std::getline(in, text);) {
      const Json line = Json::parse(text);
      lines.push_back({line["kind"], line["name"], line["schema"].dump()});
    }
  }
  return lines;
}

/// Makes a document of random bytes, each of which leaves an end within a number of bytes.
std::string walk(const std::shared_ptr<TokenMasks>& masks, std::mt19937_64& random) {
  Matcher matcher(masks);
  std::string text;
  std::int64_t left = 16;
  while (!matcher.ended()) {
    std::vector<TokenId> allowed = allowed_ids(matcher);
    std::shuffle(allowed.begin(), allowed.end(), random);
    if (random() % 4 == 0) {  // strings get long enough without it
      std::stable_partition(allowed.begin(), allowed.end(),
                            [](TokenId id) { return id == '"' || id == kByteEnd; });
    }
    const auto fits = std::find_if(allowed.begin(), allowed.end(),
                                   [&](TokenId id) { return matcher.ends_within(id, left); });
    if (fits == allowed.end()) {
      left *= 2;
      CHECK(left < 1 << 24);
      continue;
    }
    CHECK(matcher.accept(*fits));
    text += matcher.table().bytes(*fits);
    left = std::max<std::int64_t>(left - 1, 1);
  }
  return text;
}

/// The rows of the table of refused schemas, without their last column.
std::vector<std::string> documented() {
  std::ifstream in(HOLDFAST_SOURCE_DIR "/docs/use/structured-output.md");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| of | schema |", 0) == 0) {
      inside = true;
      std::getline(in, line);
    } else if (inside && line.rfind("| ", 0) == 0) {
      rows.push_back(line.substr(0, line.rfind(" | ")));
    } else {
      inside = false;
    }
  }
  return rows;
}

TEST(SchemaCorpus, Schemas_WhenCompiled_GenerateValidDocuments) {
  const std::vector<Line> lines = read_corpus();
  std::mt19937_64 random(setting("HOLDFAST_SCHEMA_SEED", 1));
  const std::uint64_t walks = setting("HOLDFAST_CORPUS_WALKS", 3);
  std::vector<Judged> cases;
  std::vector<std::string> refused;
  for (const Line& line : lines) {
    const auto grammar = compile_json_schema(line.schema);
    if (!grammar) {
      EXPECT_NE(grammar.error().what.find(" at #"), std::string::npos) << grammar.error().what;
      refused.push_back("| " + line.kind + " | " + line.name + " | " +
                        refusal(grammar.error().what));
      std::cout << refused.back() << ": " << grammar.error().what << "\n";
      continue;
    }
    cases.push_back({line.schema, {}});
    const auto masks = masks_of(*grammar, byte_table());
    for (std::uint64_t n = 0; n < walks; ++n) cases.back().documents.push_back(walk(masks, random));
  }
  const std::vector<std::string> verdicts = judge(cases);
  ASSERT_EQ(verdicts.size(), cases.size()) << "validate.py did not judge";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t d = 0; d < cases[i].documents.size(); ++d) {
      EXPECT_EQ(verdicts[i][d], '1')
          << "not valid: " << cases[i].documents[d] << "\nschema: " << cases[i].schema;
    }
  }
  std::cout << lines.size() << " schemas, " << cases.size() << " taken\n";
  EXPECT_GE(lines.size(), 500u);
  EXPECT_GE(cases.size() * 100, lines.size() * 97);
  EXPECT_EQ(refused, documented());
}

}  // namespace
}  // namespace holdfast::grammar::tests::corpus_test
