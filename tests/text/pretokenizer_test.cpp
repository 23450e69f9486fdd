// Goal: the hand-written splitters equal the patterns that they replace, and every pattern ends in
// useful time on text made to be slow. Method: random text of awkward characters through both forms
// of each name; long runs of one character, with and without other text after them, through all
// names.

#include "shared/text/pretokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "shared/text/utf8.h"

namespace holdfast::text::pretokenizer_test {
namespace {

using Ends = std::vector<std::uint32_t>;

Ends split(const PreTokenizer& pre, const std::string& text) {
  Ends ends;
  const auto done = pre.split(text, ends);
  EXPECT_TRUE(done.has_value());
  return ends;
}

// Letters, digits, marks, symbols and spaces of several planes; contractions in all their cases.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {
      "a",      "Z",      "é",  "ß",    "世",     "ا",      "ǅ",      "ʰ",
      "𝒳",      "1",      "९",  "Ⅷ",    "½",      "\u0301", "\u0903", "!",
      ".",      "'",      "''", "€",    "🚀",      "_",      " ",      "  ",
      "\t",     "\n",     "\r", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085",
      "\u180e", "\u200b", "'s", "'S",   "'LL",    "'ll",    "'Re",    "'ve",
      "'d",     "'T",     "'ſ", "'m ",  "\x01",   "/",      "\u2003", "\u1680",
      "、",     "！",     "К",  "Ა",  "Ḁ",      "한",     "‘",      "\ufb01"};
  std::string text;
  std::uniform_int_distribution<std::size_t> index(0, parts.size() - 1);
  std::uniform_int_distribution<int> length(0, 30);
  for (int n = length(random); n > 0; --n) text += parts[index(random)];
  return text;
}

TEST(PreTokenizer, HandWrittenSplitters_WithRandomTexts_EqualTheirPatterns) {
  for (const std::string_view name : pre_tokenizer_names()) {
    const auto by_hand = PreTokenizer::create(name);
    const auto by_regex = PreTokenizer::create(name, /*by_regex=*/true);
    ASSERT_TRUE(by_hand.has_value() && by_regex.has_value());
    std::mt19937 random(7);
    for (int round = 0; round < 3'000; ++round) {
      const std::string text = random_text(random);
      ASSERT_EQ(split(**by_hand, text), split(**by_regex, text))
          << name << ": " << testing::PrintToString(text);
    }
  }
}

TEST(PreTokenizer, Words_WithRandomTexts_CoverTheTextInOrder) {
  std::mt19937 random(8);
  for (const std::string_view name : pre_tokenizer_names()) {
    const auto pre = PreTokenizer::create(name);
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_text(random);
      const Ends ends = split(**pre, text);
      std::uint32_t last = 0;
      for (const std::uint32_t end : ends) {
        ASSERT_GT(end, last) << name;
        ASSERT_FALSE(first_invalid_utf8(std::string_view(text).substr(last, end - last)));
        last = end;
      }
      ASSERT_EQ(last, text.size()) << name;
    }
  }
}

TEST(PreTokenizer, Schemes_WhenGivenReferenceTexts_SplitThemAsExpected) {
  struct Case {
    const char* name;
    std::string text;
    Ends ends;
  };
  const Case cases[] = {
      {"gpt-2", "I'll  go\n 123x", {1, 4, 5, 8, 9, 13, 14}},
      {"starcoder", "a 12 b", {1, 2, 3, 4, 6}},
      {"llama-bpe", "I'LL $go 12345\n\n x", {1, 4, 6, 8, 9, 12, 14, 16, 18}},
      {"qwen2", "ab12 ... \r\n z", {2, 3, 4, 8, 11, 13}},
      {"deepseek-llm", "Hi there 12\n  中文!", {2, 8, 9, 11, 12, 14, 20, 21}},
  };
  for (const Case& c : cases) {
    const auto pre = PreTokenizer::create(c.name);
    EXPECT_EQ(split(**pre, c.text), c.ends) << c.name;
  }
}

TEST(PreTokenizer, Split_WithLongRuns_IsNotQuadratic) {
  for (const std::string_view name : pre_tokenizer_names()) {
    const auto pre = PreTokenizer::create(name);
    for (const char* const unit : {" ", "\n", "a", "A", "7", "'", "\u3000", "世", "\u0301", "<"}) {
      for (const char* const suffix : {"", "x", "世", "\n", "!"}) {
        std::string text;
        while (text.size() < 100'000) text += unit;
        text += suffix;
        Ends ends;  // refusing is allowed, quadratic time is not: the test would time out
        const auto done = (*pre)->split(text, ends);
        if (done.has_value()) {
          EXPECT_EQ(ends.back(), text.size()) << name;
        } else {
          EXPECT_EQ(done.error().code, Errc::kInvalidRequest) << name;
        }
      }
    }
  }
}

TEST(PreTokenizer, Create_WhenTheNameIsUnknown_IsUnsupported) {
  const auto pre = PreTokenizer::create("no-such-model");
  ASSERT_FALSE(pre.has_value());
  EXPECT_EQ(pre.error().code, Errc::kUnsupported);
  EXPECT_NE(pre.error().what.find("llama-bpe"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::text::pretokenizer_test
