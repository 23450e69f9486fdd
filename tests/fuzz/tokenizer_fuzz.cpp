// Any bytes whatever, read as a model file with a tokenizer; then text encoded with it, its token
// bytes as a table, and ids released as text. Run under AddressSanitizer and UBSan. A crash, an id
// out of range, a table unlike the tokenizer or text that is not UTF-8 is a bug.
// Input: the last 64 bytes are the text (cut to its valid part), the rest is the file.
// Seeds: vocabulary-only GGUF files, small ones first.

#include <algorithm>
#include <cstdint>
#include <string>

#include "shared/base/bytes.h"
#include "shared/text/releaser.h"
#include "shared/text/tokenizer.h"

namespace {

using namespace holdfast;

void use(const text::Tokenizer& tokenizer, const std::string& input) {
  const text::EncodeOptions all[] = {{true, true}, {false, false}};
  for (const text::EncodeOptions& options : all) {
    const auto ids = tokenizer.encode(input, options);
    if (!ids) continue;
    text::Releaser releaser({input.substr(0, 2), "</s>"});
    std::string released;
    for (const text::TokenId id : *ids) {
      CHECK(id >= 0 && id < tokenizer.vocab_size());
      released += releaser.feed(tokenizer.token_bytes(id));
    }
    released += releaser.finish();
    CHECK(is_valid_utf8(released));
    (void)text::decode(tokenizer, *ids, options.parse_special, true);
  }
  const auto table = text::DetokenizerTable::parse(text::encode_detokenizer_table(tokenizer));
  CHECK(table.has_value() && table->size() == tokenizer.vocab_size());
  for (text::TokenId id = -1; id <= table->size(); ++id) {
    CHECK(table->token_bytes(id) == tokenizer.token_bytes(id));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)text::DetokenizerTable::parse(bytes);
  const std::size_t text_bytes = std::min<std::size_t>(64, size / 2);
  std::string input = bytes.substr(size - text_bytes);
  while (!is_valid_utf8(input)) input.pop_back();
  const auto file = gguf::File::from_bytes(bytes.substr(0, size - text_bytes), "fuzz");
  if (!file) return 0;
  const auto tokenizer = text::Tokenizer::load(**file);
  if (tokenizer) {
    use(**tokenizer, input);
  } else {
    CHECK(!tokenizer.error().what.empty());
  }
  return 0;
}
