#pragma once
// Shared parts of the grammar tests: texts matched byte by byte, and the demo model's vocabulary.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/grammar/matcher.h"

namespace holdfast::grammar::tests {

/// A vocabulary of 256 tokens of one byte each; token 256 is the end.
std::shared_ptr<const TokenTable> byte_table();
constexpr TokenId kByteEnd = 256;

/// ops/demo's model and its vocabulary (1,024 tokens).
std::string demo_path();
std::shared_ptr<const TokenTable> demo_table();
/// A vocabulary of the conformance data (HOLDFAST_CONFORMANCE_DIR); null if it is not there.
std::shared_ptr<const TokenTable> conformance_table(const std::string& name);

std::shared_ptr<TokenMasks> masks_of(const GrammarPtr& grammar,
                                     std::shared_ptr<const TokenTable> table);

/// True if `text` is a complete text of the grammar.
bool accepts(const GrammarPtr& grammar, std::string_view text);
/// True if `text` begins some complete text.
bool begins(const GrammarPtr& grammar, std::string_view text);

std::vector<TokenId> allowed_ids(Matcher& matcher);
/// A schema with documents that satisfy it and that do not.
struct Case {
  const char* schema;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};
void check(const std::vector<Case>& cases);

bool has_bit(const std::vector<std::uint64_t>& bits, TokenId id);
/// The mask that fill_mask must give: every token tried on a copy of the matcher.
std::vector<std::uint64_t> brute_force_mask(const Matcher& matcher);

}  // namespace holdfast::grammar::tests
