// Goal: scores of a prompt come back with the same bits, whatever else a token's extra has, and
// nothing else is taken for them.
// Method: random scores with and without token bytes; texts cut and damaged at every byte.
#include "shared/wire/prompt_scores.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "control/core/admission.h"
#include "shared/base/base64.h"

namespace holdfast::wire::prompt_scores_test {
namespace {

PromptScores random_scores(std::mt19937& random, std::size_t tokens, std::int32_t top) {
  const auto any = [&] { return static_cast<std::uint32_t>(random()); };
  const auto number = [&] { return -std::bit_cast<float>(any() % 0x42000000U); };
  PromptScores scores;
  scores.top = top;
  for (std::size_t i = 0; i < tokens; ++i) {
    scores.ids.push_back(static_cast<TokenId>(any() >> 1));
    if (i == 0) continue;
    scores.scores.push_back({number(), static_cast<std::int32_t>(any() >> 1)});
    for (std::int32_t k = 0; k < top; ++k) {
      scores.alternatives.push_back({static_cast<TokenId>(any() >> 1), number()});
    }
  }
  return scores;
}

TEST(PromptScores, PromptScores_AfterRoundTrip_AreBitIdentical) {
  std::mt19937 random(3);
  for (const char* extra : {"", "{}", R"({"logprob":-1,"top":[[3,-0.5,[34,125]]]})"}) {
    for (std::size_t tokens = 1; tokens < 12; ++tokens) {
      PromptScores scores = random_scores(random, tokens, static_cast<std::int32_t>(tokens % 4));
      for (const bool with_token_bytes : {false, true}) {
        if (with_token_bytes) {
          for (const TokenId id : scores.ids)
            scores.token_bytes[id] = {std::string(tokens, '"'), true};
          scores.token_bytes[7] = {"", false};
        }
        std::string text = with_prompt_scores(extra, scores);
        EXPECT_EQ(read_prompt_scores(text), scores) << text;
        EXPECT_EQ(take_prompt_scores(text), scores);
        EXPECT_EQ(text, *extra == '\0' ? "{}" : extra);
      }
    }
  }
}

TEST(PromptScores, PromptScores_WithAlternatives_ReturnThoseOfEachToken) {
  std::mt19937 random(6);
  const PromptScores scores = random_scores(random, 4, 3);
  for (std::size_t at = 1; at < scores.ids.size(); ++at) {
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(scores.top_of(at)[k], scores.alternatives[(at - 1) * 3 + k]) << at;
    }
  }
}

TEST(PromptScores, PromptScores_WhenEncoded_FitTheCountedBytes) {
  std::mt19937 random(4);
  for (const std::int32_t top : {0, 1, 5, 20}) {
    for (const std::size_t tokens : {1, 2, 300}) {
      const std::string text = with_prompt_scores("", random_scores(random, tokens, top));
      const auto bytes = core::prompt_score_bytes(static_cast<std::int64_t>(tokens), top);
      EXPECT_LE(static_cast<std::int64_t>(text.size()), (bytes + 2) / 3 * 4 + 13) << tokens;
    }
  }
}

TEST(PromptScores, PromptScores_WhenDamaged_AreRefused) {
  std::mt19937 random(5);
  PromptScores scores = random_scores(random, 5, 2);
  scores.token_bytes[scores.ids[0]] = {"a", false};
  const std::string good = with_prompt_scores(R"({"logprob":-1})", scores);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(read_prompt_scores(good.substr(0, i)).has_value()) << i;
  }
  for (std::size_t i = good.find("prompt"); i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = '!';
    EXPECT_FALSE(read_prompt_scores(damaged).has_value()) << damaged;
  }
  // Counts that do not fit the data after them.
  const auto counted = [](std::uint32_t tokens, std::uint32_t top, std::size_t bytes) {
    std::string raw(8 + bytes, 'x');
    std::memcpy(raw.data(), &tokens, 4);
    std::memcpy(raw.data() + 4, &top, 4);
    return read_prompt_scores(R"({"prompt":")" + to_base64(raw) + "\"}").has_value();
  };
  EXPECT_TRUE(counted(1, 7, 4));
  EXPECT_TRUE(counted(3, 1, 12 + 2 * 16));
  EXPECT_FALSE(counted(0, 0, 0));
  EXPECT_FALSE(counted(3, 1, 12 + 2 * 16 + 8));
  EXPECT_FALSE(counted(3, 2, 12 + 2 * 16));
  EXPECT_FALSE(counted(3, 1, 12 + 2 * 16 + 4));  // half an entry
  EXPECT_FALSE(counted(3, 1, 8));                // not even the tokens
  EXPECT_FALSE(counted(0x40000000, 0xFFFFFFFF, 64));
  for (const char* text : {"", "{}", R"({"prompt":""})", R"({"embedding":"AAAA"})"}) {
    EXPECT_FALSE(read_prompt_scores(text).has_value()) << text;
    std::string unchanged = text;
    EXPECT_FALSE(take_prompt_scores(unchanged).has_value()) << text;
    EXPECT_EQ(unchanged, text);
  }
}

TEST(PromptScores, TokenTexts_WhenTruncated_AreRefused) {
  std::mt19937 random(7);
  const std::string scores = with_prompt_scores("", random_scores(random, 2, 0));
  const std::string head = scores.substr(0, scores.size() - 2) + R"(","pieces":")";
  const std::string token_bytes("\1\0\0\0\5\0\0\0ab\2\0\0\0\2\0\0\0c", 19);
  for (std::size_t n = 0; n <= token_bytes.size(); ++n) {
    const auto read = read_prompt_scores(head + to_base64(token_bytes.substr(0, n)) + "\"}");
    if (n != 0 && n != 10 && n != 19) {  // not between the bytes of two tokens
      EXPECT_FALSE(read.has_value()) << n;
      continue;
    }
    ASSERT_TRUE(read.has_value()) << n;
    std::map<TokenId, PromptScores::TokenBytes> expected;
    if (n >= 10) expected[1] = {"ab", true};
    if (n >= 19) expected[2] = {"c", false};
    EXPECT_EQ(read->token_bytes, expected) << n;
  }
  EXPECT_FALSE(read_prompt_scores(head + "!!!!\"}").has_value());
}

}  // namespace
}  // namespace holdfast::wire::prompt_scores_test
