#include "support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "shared/text/tokenizer.h"

namespace holdfast::grammar::tests {
namespace {

std::shared_ptr<const TokenTable> table_of(const std::string& path) {
  const auto file = gguf::File::open(path);
  const auto tokenizer = text::Tokenizer::load(*file.value());
  return TokenTable::make(*tokenizer.value());
}

}  // namespace

std::shared_ptr<const TokenTable> byte_table() {
  static const std::shared_ptr<const TokenTable> table = [] {
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
    std::vector<TokenTable::Token> tokens;
    for (std::size_t i = 0; i < 256; ++i) {
      tokens.push_back({std::string_view(bytes).substr(i, 1), false});
    }
    tokens.push_back({"", true});
    return TokenTable::make(tokens);
  }();
  return table;
}

std::string demo_path() {
  return HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
}

std::shared_ptr<const TokenTable> demo_table() {
  static const auto table = table_of(demo_path());
  return table;
}

std::shared_ptr<const TokenTable> conformance_table(const std::string& name) {
  const char* set = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::string root =
      set != nullptr ? set : std::string(HOLDFAST_SOURCE_DIR) + "/../shared/conformance";
  const std::string path = root + "/tokenizers/ggml-vocab-" + name + ".gguf";
  return std::filesystem::exists(path) ? table_of(path) : nullptr;
}

std::shared_ptr<TokenMasks> masks_of(const GrammarPtr& grammar,
                                     std::shared_ptr<const TokenTable> table) {
  return TokenMasks::make(grammar, std::move(table)).value();
}

bool accepts(const GrammarPtr& grammar, std::string_view text) {
  Matcher matcher(masks_of(grammar, byte_table()));
  return matcher.accept_bytes(text) && matcher.may_end();
}

bool begins(const GrammarPtr& grammar, std::string_view text) {
  Matcher matcher(masks_of(grammar, byte_table()));
  return matcher.accept_bytes(text);
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto grammar = compile_json_schema(c.schema);
    ASSERT_TRUE(grammar.has_value()) << c.schema << ": " << grammar.error().what;
    for (const char* text : c.good)
      EXPECT_TRUE(accepts(*grammar, text)) << c.schema << "  " << text;
    for (const char* text : c.bad)
      EXPECT_FALSE(accepts(*grammar, text)) << c.schema << "  " << text;
  }
}

bool has_bit(const std::vector<std::uint64_t>& bits, TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  return (bits[at / 64] >> (at % 64) & 1) != 0;
}

std::vector<TokenId> allowed_ids(Matcher& matcher) {
  std::vector<std::uint64_t> bits(matcher.table().mask_words());
  CHECK(matcher.fill_mask(bits));
  std::vector<TokenId> ids;
  for (std::size_t word = 0; word < bits.size(); ++word) {
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(static_cast<TokenId>(word * 64) + __builtin_ctzll(rest));
    }
  }
  return ids;
}

std::vector<std::uint64_t> brute_force_mask(const Matcher& matcher) {
  std::vector<std::uint64_t> bits(matcher.table().mask_words(), 0);
  Matcher copy = matcher;
  for (TokenId id = 0; id < matcher.table().size(); ++id) {
    if (!copy.accept(id)) continue;
    const auto at = static_cast<std::size_t>(id);
    bits[at / 64] |= std::uint64_t{1} << (at % 64);
    copy = matcher;
  }
  return bits;
}

}  // namespace holdfast::grammar::tests
