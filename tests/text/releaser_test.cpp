// Goal: the text that a stream has shown after i tokens is a pure function of the first i tokens,
// nothing shown is ever taken back, and no part of a stop string is shown. Method: random bytes
// (text of several scripts, broken sequences, parts of the stop strings) are cut into random
// tokens; every cut is compared with a slow reference that sees the whole at once.

#include "shared/text/releaser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast::text::releaser_test {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}

// The table of well-formed sequences, independent of the code under test: the reference takes the
// longest prefix of the bytes that begins some sequence of the table.
struct Row {
  unsigned lead_from, lead_to, second_from, second_to;
  std::size_t length;
};
constexpr Row kRows[] = {
    {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};

std::vector<std::string> characters(const std::string& bytes) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    const Row* row = nullptr;
    for (const Row& r : kRows) {
      if (byte(0) >= r.lead_from && byte(0) <= r.lead_to) row = &r;
    }
    std::size_t n = 1;
    while (row != nullptr && n < row->length && at + n < bytes.size()) {
      const unsigned from = n == 1 ? row->second_from : 0x80;
      const unsigned to = n == 1 ? row->second_to : 0xBF;
      if (byte(n) < from || byte(n) > to) break;
      ++n;
    }
    const bool whole = row != nullptr && n == row->length;
    out.push_back(whole ? bytes.substr(at, n) : "\xEF\xBF\xBD");
    at += n;
  }
  return out;
}

struct ReleasedText {
  std::string text;
  int stop = -1;
};

ReleasedText reference(const std::string& bytes, const std::vector<std::string>& stops) {
  ReleasedText released;
  for (const std::string& character : characters(bytes)) {
    released.text += character;
    for (std::size_t k = 0; k < stops.size(); ++k) {
      if (stops[k].empty() || !released.text.ends_with(stops[k])) continue;
      const auto best = static_cast<std::size_t>(released.stop);
      if (released.stop < 0 || stops[k].size() > stops[best].size())
        released.stop = static_cast<int>(k);
    }
    if (released.stop < 0) continue;
    released.text.resize(released.text.size() -
                         stops[static_cast<std::size_t>(released.stop)].size());
    break;
  }
  return released;
}

std::string random_bytes(Random& random, const std::vector<std::string>& stops) {
  static const std::vector<std::string> parts = {
      "a",       "b",    "ab",   "ba",   " ",        "\n",       "ü",    "世",           "界",
      "🚀",       "\x80", "\xFF", "\xE4", "\xE4\xB8", "\xF0\x9F", "\xC2", "\xED\xA0\x80", "\xF4\x90",
      "\xE0\x80"};
  std::string bytes;
  for (std::size_t n = below(random, 24); n > 0; --n) {
    const bool of_stop = !stops.empty() && below(random, 3) == 0;
    const std::string& part =
        of_stop ? stops[below(random, stops.size())] : parts[below(random, parts.size())];
    bytes += of_stop ? part.substr(0, 1 + below(random, part.size() + 1)) : part;
  }
  return bytes;
}

std::vector<std::string> random_tokens(Random& random, const std::string& bytes) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = below(random, 5);  // 0: a token without text, such as a control token
    tokens.push_back(bytes.substr(at, n));
    at += n;
  }
  return tokens;
}

std::string all_text(Releaser& releaser, const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += releaser.feed(token);
  return text + releaser.finish();
}

TEST(Releaser, Feed_WithAnyTokenBoundaries_GivesTheSameText) {
  Random random(1);
  const std::vector<std::string> pool = {
      "ab", "aba", "b",    "aab",          "世界",          "界",
      "ü",  "🚀 ",  "\n\n", "\xEF\xBF\xBD", "a\xEF\xBF\xBD", "bab"};
  int stopped = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t n = below(random, 4); n > 0; --n)
      stops.push_back(pool[below(random, pool.size())]);
    const std::string bytes = random_bytes(random, stops);
    const ReleasedText expected = reference(bytes, stops);
    const std::vector<std::string> tokens = random_tokens(random, bytes);
    Releaser releaser(stops);
    std::string text;
    for (const std::string& token : tokens) {
      text += releaser.feed(token);
      ASSERT_TRUE(expected.text.starts_with(text));
    }
    text += releaser.finish();
    ASSERT_EQ(text, expected.text) << testing::PrintToString(bytes);
    ASSERT_EQ(releaser.stop_index(), expected.stop);
    ASSERT_EQ(releaser.stopped(), expected.stop >= 0);
    stopped += releaser.stopped() ? 1 : 0;
  }
  EXPECT_GT(stopped, 2'000);
}

TEST(Releaser, Replay_WhenResumedAtAnyToken_RepeatsAndLosesNothing) {
  Random random(2);
  const std::vector<std::string> stops = {"aba", "世界", "bb"};
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::string> tokens = random_tokens(random, random_bytes(random, stops));
    Releaser straight(stops);
    std::vector<std::string> after{""};  // text shown after i tokens
    for (const std::string& token : tokens) after.push_back(after.back() + straight.feed(token));
    for (std::size_t i = 0; i <= tokens.size(); ++i) {
      Releaser replayed(stops);
      std::string released;
      for (std::size_t k = 0; k < i; ++k) released += replayed.feed(tokens[k]);
      ASSERT_EQ(released, after[i]);
      Releaser copy = replayed;  // goes on separately
      for (std::size_t k = i; k < tokens.size(); ++k) released += copy.feed(tokens[k]);
      ASSERT_EQ(released, after.back());
    }
  }
}

TEST(Releaser, Feed_WhenTextMayBecomeAStopString_HoldsItBack) {
  Releaser releaser({"</end>"});
  EXPECT_EQ(releaser.feed("x </e"), "x ");
  EXPECT_EQ(releaser.feed("x"), "</ex");
  EXPECT_EQ(releaser.feed("<</en"), "<");
  EXPECT_EQ(releaser.feed("d> more"), "");
  EXPECT_TRUE(releaser.stopped());
  EXPECT_EQ(releaser.stop_index(), 0);
  EXPECT_EQ(releaser.feed("more"), "");
  EXPECT_EQ(releaser.finish(), "");
}

TEST(Releaser, StopString_WhenSeveralMatch_IsTheFirstThenTheLongest) {
  const auto stop_of = [](std::vector<std::string> stops, const std::string& bytes) {
    Releaser releaser(std::move(stops));
    const std::string text = all_text(releaser, {bytes});
    return std::pair(text, releaser.stop_index());
  };
  EXPECT_EQ(stop_of({"abcd", "bc"}, "xabcd"), std::pair(std::string("xa"), 1));
  EXPECT_EQ(stop_of({"c", "abc"}, "xabc"), std::pair(std::string("x"), 1));
  EXPECT_EQ(stop_of({"z", "bc", "bc"}, "abc"), std::pair(std::string("a"), 1));
}

TEST(Releaser, StopString_WhenEmptyOrInvalid_NeverMatches) {
  Releaser releaser({"", "\xE4\xB8"});
  EXPECT_EQ(all_text(releaser, {"世", "a", "\xE4\xB8"}), "世a\xEF\xBF\xBD");
  EXPECT_FALSE(releaser.stopped());
}

TEST(Releaser, StopString_WhenLongAndRepetitive_CostsLinearTime) {
  const std::string stop = std::string(20'000, 'a') + 'b';
  Releaser releaser({stop});
  std::size_t released = 0;
  for (int i = 0; i < 400'000; ++i) released += releaser.feed("a").size();
  EXPECT_EQ(released, 380'000U);  // quadratic work would run into the test's time limit
  EXPECT_EQ(releaser.feed("b"), "");
  EXPECT_TRUE(releaser.stopped());
}

}  // namespace
}  // namespace holdfast::text::releaser_test
