// Any bytes whatever as a JSON schema, a regular expression or a GBNF grammar; then a walk over the
// tokens that its masks allow. Run under AddressSanitizer and UBSan. A crash, an error without a
// text, a mask with a token that is not accepted, or a state where nothing is allowed is a bug; so
// is a source that takes long (libFuzzer's own limits). Input: the first byte chooses the language,
// the next eight the walk, the rest is the source.

#include <cstdint>
#include <cstring>
#include <string_view>

#include "tests/fuzz/grammar_walk.h"

namespace {

using namespace holdfast;
using namespace holdfast::grammar;

Result<GrammarPtr> compile(int language, std::string_view source) {
  const GrammarLimits limits = fuzz::small_grammar();
  switch (language % 3) {
    case 0:
      return compile_json_schema(source, limits);
    case 1:
      return compile_regex(source, limits);
    default:
      return compile_gbnf(source, limits);
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
    fuzz::walk_grammar(*grammar, random);
  } else {
    CHECK(!grammar.error().what.empty());
    CHECK(grammar.error().what.find('\n') == std::string::npos);
  }
  return 0;
}
