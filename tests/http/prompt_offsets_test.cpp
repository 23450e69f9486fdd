// Goal: the text_offset of a prompt's tokens counts the characters before each: for tokens of any
// length, for tokens that a tokenizer puts in front or changes, and for ids without token bytes.
// Method: made-up token bytes.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "control/gateway/common/logprobs.h"

namespace holdfast::gateway::prompt_offsets_test {
namespace {

using Offsets = std::vector<std::int64_t>;

struct Token {
  std::string bytes;
  bool control = false;
};

wire::PromptScores scores_of(const std::vector<Token>& tokens) {
  wire::PromptScores scores;
  for (const Token& token : tokens) {
    const auto id = static_cast<wire::TokenId>(scores.ids.size());
    scores.ids.push_back(id);
    scores.token_bytes[id] = {token.bytes, token.control};
  }
  return scores;
}

TEST(PromptOffsets, TextOffset_WhenTokensAreMultibyte_CountsCharactersNotBytes) {
  EXPECT_EQ(prompt_offsets("näh€!", scores_of({{"n"}, {"ä"}, {"h"}, {"€"}, {"!"}})),
            (Offsets{0, 1, 2, 3, 4}));
}

TEST(PromptOffsets, TextOffset_WhenTokensAreLong_CountsTheirCharacters) {
  const std::string indent(40, ' ');
  EXPECT_EQ(prompt_offsets("a" + indent + "internationalization b",
                           scores_of({{"a"}, {indent}, {"internationalization"}, {" b"}})),
            (Offsets{0, 1, 41, 61}));
}

TEST(PromptOffsets, TextOffset_WhenBosIsPrepended_GivesItNoWidth) {
  EXPECT_EQ(prompt_offsets("to be", scores_of({{"<s>", true}, {" to"}, {" be"}})),
            (Offsets{0, 0, 2}));
}

TEST(PromptOffsets, TextOffset_WhenControlTokenIsInTheText_CountsItsWidth) {
  EXPECT_EQ(prompt_offsets("<s>to", scores_of({{"<s>", true}, {"to"}})), (Offsets{0, 3}));
}

TEST(PromptOffsets, TextOffset_WhenTokenizerChangesTheText_Resynchronizes) {
  // The tokenizer left a character out.
  EXPECT_EQ(prompt_offsets("to\rbe", scores_of({{"to"}, {"be"}, {"?"}})), (Offsets{0, 3, 5}));
  // … before a long token.
  EXPECT_EQ(prompt_offsets("to\rinternationalization b",
                           scores_of({{"to"}, {"internationalization"}, {" b"}})),
            (Offsets{0, 3, 23}));
  // The tokenizer put a character in that is not in the text.
  EXPECT_EQ(prompt_offsets("to be", scores_of({{"to"}, {"\xEF\xBF\xBD"}, {"be"}})),
            (Offsets{0, 2, 5}));
}

TEST(PromptOffsets, TextOffset_WhenIdHasNoTokenText_GivesItNoWidth) {
  wire::PromptScores scores = scores_of({{"to"}, {""}, {"be"}});
  scores.token_bytes.erase(1);
  EXPECT_EQ(prompt_offsets("tobe", scores), (Offsets{0, 2, 2}));
}

}  // namespace
}  // namespace holdfast::gateway::prompt_offsets_test
