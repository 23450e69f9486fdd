// bench/grammar: costs of structured output. Compiles some schemas, walks one fixed document
// through each, and prints the time of a mask and of accepting a token: first with an empty mask
// cache, then with a full one, as every later request with the same schema has it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "shared/grammar/matcher.h"
#include "shared/text/tokenizer.h"

namespace {

using namespace holdfast;
using namespace holdfast::grammar;
using Clock = std::chrono::steady_clock;

struct Example {
  const char* name;
  Result<GrammarPtr> (*compile)();
  const char* document;
};

constexpr const char* kPerson =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer",)"
    R"("minimum":0,)"
    R"("maximum":150},"email":{"type":["string","null"],"format":"email"},"tags":{"type":"array",)"
    R"("items":{"enum":["admin","user","guest"]},"maxItems":5},"address":{"type":"object",)"
    R"("properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string",)"
    R"("pattern":"^[0-9]{5}$"}},"required":["street","city","zip"]},"summary":{"type":"string",)"
    R"("maxLength":400},"score":{"type":"number"}},"required":["name","age","email","tags",)"
    R"("address","summary","score"]})";

constexpr const char* kPersonText =
    R"({"name": "John Ronald Reuel Tolkien", "age": 81, "email": "jrr@oxford.example", "tags": )"
    R"(["admin", "user"], "address": {"street": "20 Northmoor Road", "city": "Oxford", "zip": )"
    R"("12345"}, "summary": "An English writer and philologist. He was the author of high )"
    R"(fantasy works, among many others, and \"more\".", "score": 9.75})";

constexpr const char* kTree =
    R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"title":{"type":"string"},)"
    R"("children":{"type":"array","items":{"$ref":"#/$defs/n"}}},)"
    R"("required":["title","children"]}}})";

constexpr const char* kTreeText =
    R"({"title": "a document", "children": [{"title": "first part", "children": []}, )"
    R"({"title": "second part", "children": [{"title": "deep", "children": []}]}]})";

constexpr const char* kAnyText =
    "{\n  \"a\": [1, 2, {\"b\": null, \"c\": [true, false, {\"d\": \"x\\ny\"}]}],\n  \"long "
    "text\": "
    "\"The quick brown fox jumps over the lazy dog; Unicode works as well, of course.\",\n  \"n\": "
    "-1.5e10\n}";

const Example kExamples[] = {
    {"person schema", [] { return compile_json_schema(kPerson); }, kPersonText},
    {"recursive schema", [] { return compile_json_schema(kTree); }, kTreeText},
    {"JSON mode", [] { return compile_json_mode(); }, kAnyText},
    {"regular expression", [] { return compile_regex("([A-Za-z]+[ ,.]{0,2}){1,60}"); },
     "The author of high fantasy works, among many others."},
};

double micros(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

void round(const std::shared_ptr<TokenMasks>& masks, const std::vector<TokenId>& ids,
           const char* label) {
  Matcher matcher(masks);
  std::vector<std::uint64_t> bits(masks->table().mask_words());
  double fill = 0;
  double worst = 0;
  double accept = 0;
  for (const TokenId id : ids) {
    auto start = Clock::now();
    if (!matcher.fill_mask(bits)) std::printf("  too ambiguous\n");
    const double one = micros(start);
    fill += one;
    worst = std::max(worst, one);
    start = Clock::now();
    if (!matcher.accept(id)) std::printf("  a token was refused\n");
    accept += micros(start);
  }
  const auto n = static_cast<double>(ids.size());
  std::printf("  %-18s mask %8.2f us/token (worst %8.1f), accept %5.2f us/token\n", label, fill / n,
              worst, accept / n);
}

int run(const char* path) {
  const auto file = gguf::File::open(path);
  if (!file) return std::printf("%s\n", file.error().what.c_str()), 1;
  const auto tokenizer = text::Tokenizer::load(**file);
  if (!tokenizer) return std::printf("%s\n", tokenizer.error().what.c_str()), 1;
  auto start = Clock::now();
  const auto table = TokenTable::make(**tokenizer);
  std::printf("token table: %d tokens, %.1f ms\n", table->size(), micros(start) / 1000);
  for (const Example& example : kExamples) {
    start = Clock::now();
    const auto grammar = example.compile();
    const double compiled = micros(start);
    text::EncodeOptions options;
    options.add_special = false;
    const auto ids = (*tokenizer)->encode(example.document, options);
    std::printf("%s: compiled in %.2f ms, %zu states, document of %zu tokens\n", example.name,
                compiled / 1000, grammar.value()->states.size(), ids.value().size());
    const auto masks = TokenMasks::make(grammar.value(), table).value();
    round(masks, ids.value(), "first document");
    round(masks, ids.value(), "later documents");
    std::printf("  masks kept: %zu KiB\n", masks->bytes_held() / 1024);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::printf("usage: holdfast-bench-grammar VOCAB.gguf\n"), 2;
  return run(argv[1]);
}
