// Goal: a text that the bounded JSON reader accepts can be read, copied, written and destroyed on a
// small stack; a text beyond a bound is refused with the position before anything is built. Method:
// texts at each bound and one beyond it, texts that are not JSON, on threads with small stacks.
#include "shared/base/json_text.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "shared/base/bytes.h"
#include "shared/base/readable.h"

namespace holdfast::json_text_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string nested(int depth, const std::string& inside = "") {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + inside + std::string(n, ']');
}

/// Runs `work` on a thread with a stack of 128 KiB.
void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 * 1024), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* raw) -> void* {
                  (*static_cast<const std::function<void()>*>(raw))();
                  return nullptr;
                },
                const_cast<std::function<void()>*>(&work)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(JsonText, ParsedJson_AtTheDepthLimit_FitsASmallStack) {
  on_small_stack([] {
    const std::string text = nested(kDocumentLimits.depth_max, R"({"a":[1,2.5,"x",null]})");
    EXPECT_FALSE(parse_json<json>(text)) << "one level more than it may have";
    const std::string deepest = nested(kDocumentLimits.depth_max - 2, R"({"a":[1,2.5,"x",null]})");
    const auto read = parse_json<ordered_json>(deepest);
    ASSERT_TRUE(read) << read.error().what;
    const ordered_json copy = *read;
    EXPECT_EQ(copy.dump(), deepest);
    EXPECT_EQ(json(copy).dump(), deepest) << "as the hash of a body is made";
  });
}

TEST(JsonText, Parse_WhenNestedTooDeep_RefusesWithByteOffset) {
  on_small_stack([] {
    for (const int depth : {65, 1'000, 80'000, 5'000'000}) {
      for (const std::string& text :
           {nested(depth), std::string(static_cast<std::size_t>(depth), '['),
            "{\"a\":" + nested(depth) + "}", "[\"]]\\\"]\"," + nested(depth) + "]"}) {
        const auto read = parse_json<json>(text);
        ASSERT_FALSE(read) << depth;
        EXPECT_EQ(read.error().code, Errc::kInvalidRequest);
        EXPECT_NE(read.error().what.find("deeper than 64 levels, at byte"), std::string::npos)
            << read.error().what;
        EXPECT_TRUE(try_parse_json<ordered_json>(text).is_discarded());
        EXPECT_FALSE(is_json(text));
      }
    }
  });
}

TEST(JsonText, Parse_WhenBytesValuesOrMembersExceedLimits_IsRefused) {
  JsonLimits limits;
  limits.bytes_max = 100;
  EXPECT_TRUE(parse_json<json>(std::string(98, ' ') + "10", limits));
  EXPECT_FALSE(parse_json<json>(std::string(99, ' ') + "10", limits));
  limits = {};
  limits.values_max = 4;
  EXPECT_TRUE(parse_json<json>("[1,2,3]", limits));
  EXPECT_FALSE(parse_json<json>("[1,2,3,4]", limits));
  limits = {};
  limits.members_max = 2;
  EXPECT_TRUE(parse_json<json>(R"({"a":[1,2,3,4],"b":"{,,,,}"})", limits));
  EXPECT_FALSE(parse_json<json>(R"({"a":1,"b":2,"c":3})", limits));
  // Many objects of the allowed size cost too much together, small ones never do.
  std::string large = "{\"x\":0";
  for (std::size_t i = 1; i < kBodyLimits.members_max; ++i)
    large += ",\"" + std::to_string(i) + "\":0";
  large += "}";
  EXPECT_TRUE(parse_json<ordered_json>(large, kBodyLimits));
  std::string many = "[" + large;
  for (int i = 0; i < 20; ++i) many += "," + large;
  EXPECT_FALSE(parse_json<ordered_json>(many + "]", kBodyLimits));
  std::string small = R"([{"a":1,"b":2})";
  for (int i = 0; i < 100'000; ++i) small += R"(,{"a":1,"b":2})";
  EXPECT_TRUE(parse_json<ordered_json>(small + "]", kBodyLimits));
}

TEST(JsonText, Parse_WhenTheTextIsNotJson_NamesTheColumn) {
  const auto read = parse_json<json>("{\"a\":}");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().what.find("not JSON: "), std::string::npos) << read.error().what;
  EXPECT_NE(read.error().what.find("column 6"), std::string::npos) << read.error().what;
  for (const char* text : {"", "{", "]", "1 2", "{\"a\":1,}", "nul", "\"\x01\"", "1e999"}) {
    EXPECT_FALSE(parse_json<json>(text)) << text;
    EXPECT_TRUE(try_parse_json<json>(text).is_discarded()) << text;
  }
}

/// The wrong token may be as long as the text, and be cut inside a character.
TEST(JsonText, Error_WhenTheTextIsNotJson_IsShort) {
  const std::string token(1 << 20, '\x01');
  for (const std::string& text :
       {"[\"" + token, "{\"a\":" + token, std::string("\xC3\xA9"), std::string("[1,\xE4\xB8\x96]"),
        std::string("\"\xF0\x9F\x98"), std::string("\xFF")}) {
    const auto read = parse_json<json>(text);
    ASSERT_FALSE(read);
    EXPECT_TRUE(is_valid_utf8(read.error().what)) << text.substr(0, 20);
    EXPECT_LT(read.error().what.size(), 400u);
    EXPECT_NE(read.error().what.find("column"), std::string::npos) << read.error().what;
  }
}

TEST(Readable, Readable_WithInvalidOrLongText_IsValidUtf8AndShort) {
  EXPECT_EQ(readable("", 3), "");
  EXPECT_EQ(readable("ab\xFF"
                     "c\xC3",
                     100),
            "ab?c?");
  EXPECT_EQ(readable("abcdef", 6), "abcdef");
  EXPECT_EQ(readable("abcdefg", 6), "abc...");
  EXPECT_EQ(readable("ab\xC3\xA9\xC3\xA9", 6), "ab\xC3\xA9\xC3\xA9");
  EXPECT_EQ(readable("ab\xC3\xA9\xC3\xA9"
                     "c",
                     6),
            "ab...")
      << "no half of a character";
  EXPECT_EQ(readable(std::string(1'000, '\x80'), 5), "??...");
}

/// The measure counts all that a parser would build, whatever the text is.
TEST(JsonText, MeasureJson_WithRandomTexts_IsNeverBelowWhatIsBuilt) {
  std::mt19937 random(7);
  constexpr std::string_view kSigns = "[]{},:\"\\a1 \"";
  int built = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string text = "[";
    for (int n = static_cast<int>(random() % 12); n > 0; --n)
      text += kSigns[random() % kSigns.size()];
    text += "]";
    const json value = json::parse(text, nullptr, false);
    if (value.is_discarded()) continue;
    ++built;
    const std::function<int(const json&)> depth = [&](const json& at) {
      int most = 0;
      if (at.is_structured()) {
        for (const json& item : at) most = std::max(most, depth(item));
      }
      return at.is_structured() ? most + 1 : 0;
    };
    const auto size = measure_json(text, {});
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(size->depth, depth(value)) << text;
    EXPECT_GE(size->values, value.flatten().size()) << text;
  }
  EXPECT_GT(built, 200);
}

TEST(JsonText, FindTextMember_WhenTheRestIsInvalid_FindsIt) {
  EXPECT_EQ(find_text_member(R"({"a":{"id":"inner"},"id":"outer","b":1})", "id"), "outer");
  EXPECT_EQ(find_text_member("{\"id\":\"x\",\"deep\":" + nested(100'000) + "}", "id"), "x");
  EXPECT_EQ(find_text_member(R"({"id":"x","cut":"of)", "id"), "x");
  for (const char* text : {R"({"cut":"of)", R"([{"id":"x"}])", R"({"id":1})", "", "{\"id\":\"x"}) {
    EXPECT_FALSE(find_text_member(text, "id").has_value()) << text;
  }
}

}  // namespace
}  // namespace holdfast::json_text_test
