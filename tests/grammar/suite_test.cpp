// Goal: no document that JSON schema calls invalid is accepted. Method: the cases of the
// JSON-Schema-Test-Suite (tests/data/json-schema-suite); schemas with a keyword that is refused are
// counted, and so are valid documents that are not in the form of generated ones (closed objects
// and arrays, members in their order, 1.0 for 1; docs/use/structured-output.md).

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "judge.h"
#include "support.h"

namespace holdfast::grammar::tests::suite_test {
namespace {

using Json = nlohmann::ordered_json;

struct Counts {
  int groups = 0;
  int compiled = 0;
  int invalid = 0;  // all of them must be refused
  int valid = 0;
  int narrowed = 0;  // valid, not in our form
};

void check_group(const Json& group, Counts& counts, std::map<std::string, int>& refused) {
  const std::string schema = group["schema"].dump();
  const auto grammar = compile_json_schema(schema);
  ++counts.groups;
  const bool empty = !grammar && refusal(grammar.error().what) == "unsatisfiable";
  if (!grammar && !empty) {
    ++refused[refusal(grammar.error().what)];
    return;
  }
  ++counts.compiled;
  for (const Json& test : group["tests"]) {
    const std::string document = test["data"].dump();
    const bool let_through = !empty && accepts(*grammar, document);
    if (test["valid"] == true) {
      // A schema that compiles as unsatisfiable has no valid document at all.
      EXPECT_FALSE(empty) << document << "\nschema: " << schema;
      ++(let_through ? counts.valid : counts.narrowed);
      continue;
    }
    ++counts.invalid;
    EXPECT_FALSE(let_through) << document << "\nschema: " << schema;
  }
}

TEST(JsonSchemaTestSuite, InvalidDocuments_WithTheOfficialTestSuite_AreRejected) {
  Counts all;
  std::map<std::string, int> refused;
  const std::filesystem::path folder = HOLDFAST_SOURCE_DIR "/tests/data/json-schema-suite";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path());
    for (const Json& group : Json::parse(in)) check_group(group, all, refused);
  }
  std::cout << all.groups << " schemas, " << all.compiled << " compiled; documents: " << all.invalid
            << " invalid, " << all.valid << " valid and let through, " << all.narrowed
            << " valid in another form\nrefused: ";
  for (const auto& [why, n] : refused) std::cout << why << " " << n << "  ";
  std::cout << "\n";
  EXPECT_GT(all.compiled, all.groups / 2);
  EXPECT_GT(all.valid, all.narrowed);
}

}  // namespace
}  // namespace holdfast::grammar::tests::suite_test
