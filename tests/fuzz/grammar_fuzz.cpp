// Any bytes whatever as a JSON schema, a regular expression or a GBNF grammar; then a walk over the
// tokens that its masks allow. Run under AddressSanitizer and UBSan. A crash, an error without a
// text, a mask that a token does not keep, or a place where nothing is allowed is a bug; so is a
// source that takes long (libFuzzer's own limits). Input: the first byte chooses the language, the
// next eight the walk, the rest is the source.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "shared/grammar/matcher.h"

namespace {

using namespace holdfast;
using namespace holdfast::grammar;

std::shared_ptr<const TokenTable> table() {
  static const std::shared_ptr<const TokenTable> made = [] {
    std::vector<std::string> texts;
    for (int i = 0; i < 256; ++i) texts.emplace_back(1, static_cast<char>(i));
    for (const char* text :
         {"\":", "\", \"", "{\"", "\"}", "]}", "}}", "true", "null", "  ", "\n  ", "10", "0.", "aa",
          "ab", "abcdefghijklmnopqrstuvwxyz", "\\u00", "é"}) {
      texts.emplace_back(text);
    }
    std::vector<TokenTable::Token> tokens;
    for (const std::string& text : texts) tokens.push_back({text, false});
    tokens.push_back({"", true});
    return TokenTable::make(tokens);
  }();
  return made;
}

Result<GrammarPtr> compile(int language, std::string_view source) {
  GrammarLimits limits;  // small, so that each input is quick
  limits.states_max = 20'000;
  limits.work_max = 1'000'000;
  limits.rules_max = 300;
  limits.alternatives_max = 50;
  limits.source_bytes_max = 20'000;
  switch (language % 3) {
    case 0:
      return compile_json_schema(source, limits);
    case 1:
      return compile_regex(source, limits);
    default:
      return compile_gbnf(source, limits);
  }
}

void walk(const GrammarPtr& grammar, std::uint64_t random) {
  const auto masks = TokenMasks::make(grammar, table());
  Matcher matcher(masks.value());
  std::vector<std::uint64_t> bits(table()->mask_words());
  for (int i = 0; i < 24; ++i) {
    if (!matcher.fill_mask(bits)) return;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < table()->size(); ++id) {
      const auto at = static_cast<std::size_t>(id);
      if ((bits[at / 64] >> (at % 64) & 1) != 0) allowed.push_back(id);
    }
    CHECK(!allowed.empty());
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const TokenId id = allowed[(random >> 33) % allowed.size()];
    if (!matcher.accept(id)) return;  // too ambiguous
    if (matcher.ended()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 9) return 0;
  std::uint64_t random = 0;
  std::memcpy(&random, data + 1, sizeof random);
  const std::string_view source(reinterpret_cast<const char*>(data) + 9, size - 9);
  const auto grammar = compile(data[0], source);
  if (grammar) {
    walk(*grammar, random);
  } else {
    CHECK(!grammar.error().what.empty());
    CHECK(grammar.error().what.find('\n') == std::string::npos);
  }
  return 0;
}
