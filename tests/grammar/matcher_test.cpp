// Goal: a mask names exactly the tokens that may come next, end tokens are allowed exactly where a
// text may end, and a state is a function of its tokens. Method: random walks over the demo model's
// vocabulary (and large ones where the conformance data is there) through grammars of all kinds; at
// many states the mask is compared with every token tried byte by byte on a copy, with another
// matcher that replayed the ids over empty masks, and with the two sides of each byte; and forced
// text with every byte tried, one after the other.

#include <gtest/gtest.h>
#include <malloc.h>

#include <random>

#include "support.h"

namespace holdfast::grammar::tests::matcher_test {
namespace {

constexpr const char* kPerson =
    R"({"type":"object","properties":{"name":{"type":"string"},)"
    R"("age":{"type":"integer","minimum":0},)"
    R"("tags":{"type":"array","items":{"enum":["a","bee","long words"]},"maxItems":4},)"
    R"("note":{"type":"string","maxLength":60},"more":{"$ref":"#"}},"required":["name","tags"]})";

std::vector<std::pair<std::string, GrammarPtr>> grammars() {
  std::vector<std::pair<std::string, GrammarPtr>> out;
  out.emplace_back("mode", compile_json_mode().value());
  out.emplace_back("any", compile_json_schema("true").value());
  out.emplace_back("person", compile_json_schema(kPerson).value());
  out.emplace_back(
      "map", compile_json_schema(
                 R"({"type":"object","properties":{"the":{"type":"null"}},"additionalProperties":)"
                 R"({"anyOf":[{"type":"number","minimum":-2.5},)"
                 R"({"type":"string","pattern":"^(the |and )+$"}]}})")
                 .value());
  out.emplace_back(
      "union",
      compile_json_schema(
          R"({"anyOf":[{"type":"object","properties":{"ab":{"type":"string"}},"required":["ab"]},)"
          R"({"type":"object","properties":{"abc":{"type":"integer"}},"required":["abc"]},)"
          R"({"type":"array","items":{"type":"boolean"}}]})")
          .value());
  out.emplace_back("regex", compile_regex("([a-z]+ ){1,40}(the|thee|thou)[^a-z]*").value());
  out.emplace_back("counted", compile_regex(".{90,110}").value());
  out.emplace_back("nested", compile_gbnf("root ::= \"(\" root \")\" root | [a-z ]*").value());
  out.emplace_back("ambiguous",
                   compile_gbnf("root ::= a | b | a root\na ::= w (\" \" w)*\nb ::= w+ \".\"\n"
                                "w ::= [a-z]+ | x\nx ::= \"(\" root \")\" | \"th\" y\n"
                                "y ::= \"e\" | \"ou\" y | x")
                       .value());
  return out;
}

/// The forced bytes, at most `most`: each is the only one of 256 that fits.
std::string brute_force_forced(const Matcher& matcher, std::size_t most) {
  std::string bytes;
  Matcher at = matcher;
  while (bytes.size() < most && !at.may_end() && !at.ended()) {
    std::string fits;
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (Matcher(at).accept_bytes({&c, 1})) fits.push_back(c);
    }
    if (fits.size() != 1) break;
    CHECK(at.accept_bytes(fits));
    bytes += fits;
  }
  return bytes;
}

std::size_t forced_bytes = 0;

void check_state(Matcher& matcher, const std::string& name, const std::vector<TokenId>& ids) {
  for (const std::size_t most : {std::size_t{0}, std::size_t{3}, std::size_t{64}}) {
    const std::string forced = matcher.forced(most), expected = brute_force_forced(matcher, most);
    if (name == "ambiguous") {
      ASSERT_TRUE(expected.starts_with(forced));
    } else {
      ASSERT_EQ(forced, expected) << name;
    }
    forced_bytes += forced.size();
  }
  std::vector<std::uint64_t> bits(matcher.table().mask_words(), ~std::uint64_t{0});
  ASSERT_TRUE(matcher.fill_mask(bits));
  const auto expected = brute_force_mask(matcher);
  for (TokenId id = 0; id < matcher.table().size(); ++id) {
    ASSERT_EQ(has_bit(bits, id), has_bit(expected, id))
        << name << " after " << ids.size() << " tokens: token " << id << " '"
        << matcher.table().bytes(id) << "'";
  }
  ASSERT_EQ(bits, expected) << name << ": bits behind the vocabulary";
  bool any_end = false;
  for (const TokenId id : matcher.table().end_ids()) any_end = any_end || has_bit(bits, id);
  EXPECT_EQ(any_end, matcher.may_end() && !matcher.table().end_ids().empty());
}

/// Walks at random, checks every `every`-th state; returns the ids.
std::vector<TokenId> walk(const std::string& name, const std::shared_ptr<TokenMasks>& masks,
                          std::mt19937_64& random, int steps, int every) {
  Matcher matcher(masks);
  std::vector<TokenId> ids;
  for (int i = 0; i < steps; ++i) {
    const std::vector<TokenId> allowed = allowed_ids(matcher);
    EXPECT_FALSE(allowed.empty()) << name << " is stuck after " << i << " tokens";
    if (allowed.empty()) break;
    if (i % every == 0) check_state(matcher, name, ids);
    const TokenId id = allowed[random() % allowed.size()];
    EXPECT_TRUE(matcher.accept(id)) << name;
    ids.push_back(id);
    if (matcher.ended()) break;
  }
  return ids;
}

TEST(Matcher, TokenMask_WithTheDemoVocabulary_EqualsBruteForce) {
  std::mt19937_64 random(7);
  for (const auto& [name, grammar] : grammars()) {
    const auto masks = masks_of(grammar, demo_table());
    for (int i = 0; i < 6; ++i) walk(name, masks, random, 60, 3);
  }
  EXPECT_GT(forced_bytes, 100u);
}

TEST(Matcher, Forced_WhenOnlyOneContinuationExists_ReturnsIt) {
  const auto grammar = compile_regex("ab(cde|cdf){2}(x|yz)?").value();
  Matcher matcher(masks_of(grammar, byte_table()));
  EXPECT_EQ(matcher.forced(64), "abcd");
  EXPECT_EQ(matcher.forced(1), "a");
  ASSERT_TRUE(matcher.accept_bytes("abcde"));
  EXPECT_EQ(matcher.forced(64), "cd");
  ASSERT_TRUE(matcher.accept_bytes("cdf"));
  EXPECT_EQ(matcher.forced(64), "") << "it may end";
  ASSERT_TRUE(matcher.accept_bytes("y"));
  EXPECT_EQ(matcher.forced(64), "z");
  ASSERT_TRUE(matcher.accept_bytes("z"));
  EXPECT_EQ(matcher.forced(64), "");
  ASSERT_TRUE(matcher.accept(kByteEnd));
  EXPECT_EQ(matcher.forced(64), "");
  Matcher may_stop(masks_of(compile_regex("ab(cd)?").value(), byte_table()));
  EXPECT_EQ(may_stop.forced(64), "ab");
  Matcher two_ways(masks_of(
      compile_gbnf("root ::= a | b\na ::= \"xyz\"\nb ::= \"xy\" [0-9]").value(), byte_table()));
  EXPECT_EQ(two_ways.forced(64), "xy");
}

// Each call of forced() comes to a rule call, which opens a frame.
TEST(Matcher, Forced_WhenCalledRepeatedly_LeaksNoMemory) {
  const auto grammar =
      compile_gbnf("root ::= \"ab\" r \"cd\"\nr ::= \"(\" r \")\" | \"x\"").value();
  Matcher matcher(masks_of(grammar, byte_table()));
  EXPECT_EQ(matcher.forced(64), "ab");
  const std::size_t heap = mallinfo2().uordblks;
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(matcher.forced(64), "ab");
  EXPECT_LT(mallinfo2().uordblks, heap + 10'000);
}

TEST(TokenTable, Split_WithAnyBytes_ReturnsTheLongestTokens) {
  const auto split = [](const TokenTable& table, std::string_view bytes) {
    std::vector<TokenId> ids;
    table.split(bytes, ids);
    return ids;
  };
  const std::string over(20, 'b');
  const std::vector<TokenTable::Token> tokens = {{"a"}, {"abc"}, {"b"}, {over}, {"ab"}, {"", true}};
  const auto small_table = TokenTable::make(tokens);
  EXPECT_EQ(split(*small_table, "abcab"), (std::vector<TokenId>{1, 4}));
  EXPECT_EQ(split(*small_table, "aab" + over + "b"), (std::vector<TokenId>{0, 4, 3, 2}));
  EXPECT_EQ(split(*small_table, "abxab"), (std::vector<TokenId>{4})) << "x is no token";
  EXPECT_EQ(split(*small_table, ""), (std::vector<TokenId>{}));
  const auto table = demo_table();
  const std::string text = "the king's \"daughter\",\n  and:{he} \xc3\xa9";
  std::vector<TokenId> expected;
  for (std::size_t at = 0; at < text.size();) {
    TokenId best = -1;
    for (TokenId id = 0; id < table->size(); ++id) {
      const std::string_view bytes = table->bytes(id);
      if (bytes.empty() || text.compare(at, bytes.size(), bytes) != 0) continue;
      if (best < 0 || bytes.size() > table->bytes(best).size()) best = id;
    }
    ASSERT_GE(best, 0);
    expected.push_back(best);
    at += table->bytes(best).size();
  }
  EXPECT_EQ(split(*table, text), expected);
}

TEST(Matcher, TokenMask_WithLargeVocabularies_EqualsBruteForce) {
  std::mt19937_64 random(8);
  for (const char* vocabulary : {"qwen2", "llama-spm"}) {
    const auto table = conformance_table(vocabulary);
    if (table == nullptr) GTEST_SKIP() << "no conformance data; set HOLDFAST_CONFORMANCE_DIR";
    for (const auto& [name, grammar] : grammars()) {
      const auto masks = masks_of(grammar, table);
      walk(name, masks, random, 24, 12);
    }
  }
}

TEST(Matcher, MatcherState_WhenReplayedFromIds_IsTheSame) {
  std::mt19937_64 random(9);
  for (const auto& [name, grammar] : grammars()) {
    const auto masks = masks_of(grammar, demo_table());
    const std::vector<TokenId> ids = walk(name, masks, random, 80, 100);
    Matcher warm(masks);
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
      // Another matcher with masks of its own, as a worker has that takes over.
      if (cut % 9 == 0) {
        Matcher cold(masks_of(grammar, demo_table()));
        for (std::size_t i = 0; i < cut; ++i) ASSERT_TRUE(cold.accept(ids[i]));
        EXPECT_EQ(allowed_ids(cold), allowed_ids(warm)) << name << " at " << cut;
        EXPECT_EQ(cold.may_end(), warm.may_end());
        EXPECT_EQ(cold.ended(), warm.ended());
      }
      if (cut < ids.size()) {
        ASSERT_TRUE(warm.accept(ids[cut]));
      }
    }
  }
}

TEST(Matcher, Accept_WhenTheTokenIsRefused_ChangesNothing) {
  const auto grammar = compile_json_schema(kPerson).value();
  Matcher matcher(masks_of(grammar, byte_table()));
  ASSERT_TRUE(matcher.accept_bytes(R"({"name":"x)"));
  const auto before = allowed_ids(matcher);
  EXPECT_FALSE(matcher.accept_bytes(R"(y","tags":["a","never)"));
  EXPECT_FALSE(matcher.accept(kByteEnd));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(100'000));
  EXPECT_EQ(allowed_ids(matcher), before);
  EXPECT_TRUE(matcher.accept_bytes(R"(y","tags":["a","bee"]})"));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_TRUE(matcher.must_end());
  EXPECT_EQ(allowed_ids(matcher), std::vector<TokenId>{kByteEnd});
  EXPECT_TRUE(matcher.accept(kByteEnd));
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.may_end());
  EXPECT_TRUE(allowed_ids(matcher).empty());
  EXPECT_FALSE(matcher.accept('x'));
}

TEST(Matcher, EndToken_WhenTheTextMayEnd_IsAllowed) {
  Matcher matcher(masks_of(compile_regex("a*b?").value(), byte_table()));
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.must_end());
  EXPECT_EQ(allowed_ids(matcher), (std::vector<TokenId>{'a', 'b', kByteEnd}));
  ASSERT_TRUE(matcher.accept('b'));
  EXPECT_TRUE(matcher.must_end());
  Matcher strict(masks_of(compile_regex("ab").value(), byte_table()));
  EXPECT_EQ(allowed_ids(strict), std::vector<TokenId>{'a'});
}

// Masks that were evicted are computed again, the same.
TEST(Matcher, MaskCache_WhenSmall_GivesTheSameMasks) {
  std::mt19937_64 random(10);
  const auto grammar = compile_json_schema(kPerson).value();
  const auto large = masks_of(grammar, demo_table());
  const auto small = TokenMasks::make(grammar, demo_table(), 2'000).value();
  for (int round = 0; round < 10; ++round) {
    Matcher a(large);
    Matcher b(small);
    for (int i = 0; i < 60; ++i) {
      const auto allowed = allowed_ids(a);
      ASSERT_EQ(allowed, allowed_ids(b));
      const TokenId id = allowed[random() % allowed.size()];
      ASSERT_TRUE(a.accept(id) && b.accept(id));
      if (a.ended()) break;
    }
  }
  EXPECT_LT(small->bytes_held(), 200'000u);
}

TEST(Matcher, TokenMasks_WhenTheVocabularyLacksAByte_AreRefused) {
  const std::string_view bytes = "abc";
  std::vector<TokenTable::Token> tokens;
  for (std::size_t i = 0; i < 3; ++i) tokens.push_back({bytes.substr(i, 1), false});
  const auto table = TokenTable::make(tokens);
  EXPECT_TRUE(TokenMasks::make(compile_regex("[abc]+").value(), table).has_value());
  const auto masks = TokenMasks::make(compile_regex("[abcd]+").value(), table);
  ASSERT_FALSE(masks.has_value());
  EXPECT_EQ(masks.error().code, Errc::kUnsupported);
  EXPECT_NE(masks.error().what.find("byte 100"), std::string::npos);
}

// Right recursion must not pile up frames, nor cost more with every token.
TEST(Matcher, Matcher_WithRightRecursion_StaysSmall) {
  const auto grammar =
      compile_gbnf("root ::= item | item \",\" root\nitem ::= n n\nn ::= \"[\" n \"]\" | [0-9]");
  Matcher matcher(masks_of(grammar.value(), byte_table()));
  for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(matcher.accept_bytes("[1]2,"));
  EXPECT_TRUE(matcher.accept_bytes("33"));
  EXPECT_TRUE(matcher.may_end());
}

}  // namespace
}  // namespace holdfast::grammar::tests::matcher_test
