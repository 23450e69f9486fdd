// Goal: the count of cached tokens goes with a token's extra and changes nothing else in it.
#include "shared/wire/cached_tokens.h"

#include <gtest/gtest.h>

#include "shared/wire/prompt_scores.h"

namespace holdfast::wire::cached_tokens_test {
namespace {

TEST(CachedTokens, CachedTokens_WithAnyExtra_RoundTrip) {
  PromptScores scores;
  scores.ids = {1, 2};
  scores.scores = {{-1.5F, 3}};
  for (const std::string& extra :
       {std::string(), std::string("{}"), std::string(R"({"logprob":-1,"top":[[1,-2]]})"),
        with_prompt_scores("", scores)}) {
    const std::string with = with_cached_tokens(extra, 64);
    EXPECT_EQ(cached_tokens_of(with), 64) << with;
    EXPECT_EQ(cached_tokens_of(extra), 0) << extra;
    EXPECT_EQ(read_prompt_scores(with), read_prompt_scores(extra));
  }
  EXPECT_EQ(with_cached_tokens(R"({"logprob":-1})", 5), R"({"cached":5,"logprob":-1})");
}

TEST(CachedTokens, CachedTokens_WhenDamaged_ReadAsZero) {
  for (const char* text :
       {"{\"cached\":", "{\"cached\":-4}", "{\"cached\":x}", "{\"cached\":99999999999999999999}"}) {
    EXPECT_EQ(cached_tokens_of(text), 0) << text;
  }
}

}  // namespace
}  // namespace holdfast::wire::cached_tokens_test
