#pragma once
// A walk over tokens that a compiled grammar allows, for the fuzzers of grammars.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/check.h"
#include "shared/grammar/matcher.h"

namespace holdfast::fuzz {

/// Limits that are small, so that each input is quick.
inline grammar::GrammarLimits small_grammar() {
  grammar::GrammarLimits limits;
  limits.states_max = 20'000;
  limits.work_max = 1'000'000;
  limits.rules_max = 300;
  limits.alternatives_max = 50;
  limits.source_bytes_max = 20'000;
  return limits;
}

/// A vocabulary of every byte, and some longer tokens of JSON.
inline std::shared_ptr<const grammar::TokenTable> token_table() {
  static const std::shared_ptr<const grammar::TokenTable> made = [] {
    std::vector<std::string> texts;
    for (int i = 0; i < 256; ++i) texts.emplace_back(1, static_cast<char>(i));
    for (const char* text :
         {"\":", "\", \"", "{\"", "\"}", "]}", "}}", "true", "null", "  ", "\n  ", "10", "0.", "aa",
          "ab", "abcdefghijklmnopqrstuvwxyz", "\\u00", "é"}) {
      texts.emplace_back(text);
    }
    std::vector<grammar::TokenTable::Token> tokens;
    for (const std::string& text : texts) tokens.push_back({text, false});
    tokens.push_back({"", true});
    return grammar::TokenTable::make(tokens);
  }();
  return made;
}

/// Accepts tokens that the mask allows, as `random` selects. There always is one, and it is
/// accepted.
inline void walk_grammar(const grammar::GrammarPtr& compiled, std::uint64_t random) {
  const auto masks = grammar::TokenMasks::make(compiled, token_table());
  grammar::Matcher matcher(masks.value());
  std::vector<std::uint64_t> bits(token_table()->mask_words());
  for (int i = 0; i < 24; ++i) {
    if (!matcher.fill_mask(bits)) return;
    std::vector<grammar::TokenId> allowed;
    for (grammar::TokenId id = 0; id < token_table()->size(); ++id) {
      const auto at = static_cast<std::size_t>(id);
      if ((bits[at / 64] >> (at % 64) & 1) != 0) allowed.push_back(id);
    }
    CHECK(!allowed.empty());
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const grammar::TokenId id = allowed[(random >> 33) % allowed.size()];
    if (!matcher.accept(id)) return;  // too ambiguous
    if (matcher.ended()) return;
  }
}

}  // namespace holdfast::fuzz
