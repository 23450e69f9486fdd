// Goal: a log line is one JSON object with the fields under their own names, whatever is in them
// and however long they are.
// Method: stderr is caught and parsed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "shared/base/log_fields.h"

namespace holdfast::log::log_test {
namespace {

using nlohmann::json;

std::string line_of(const std::string& event, const std::vector<Field>& fields) {
  init("test", true);
  testing::internal::CaptureStderr();
  write_fields(Level::kWarn, event, fields);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, LogLine_HasFieldsUnderTheirNames) {
  const json line = json::parse(line_of("happened", {{"request", "req1"}, {"ms", 3}}));
  EXPECT_EQ(line["event"], "happened");
  EXPECT_EQ(line["level"], "warn");
  EXPECT_EQ(line["program"], "test");
  EXPECT_EQ(line["request"], "req1");
  EXPECT_EQ(line["ms"], "3");
}

TEST(Log, LogLine_WithAnyBytes_IsUtf8) {
  const std::string bytes =
      "q\" b\\ n\n \xc3\xa9 \xf0\x9f\x98\x80 \xff \xc0\x80 \xed\xa0\x80 \xe2\x82";
  const std::string raw = line_of("bytes", {{"what", bytes}});
  const json line = json::parse(raw);  // throws on what is not UTF-8
  const std::string what = line["what"];
  EXPECT_EQ(what.rfind("q\" b\\ n\n \xc3\xa9 \xf0\x9f\x98\x80 \xef\xbf\xbd ", 0), 0u) << what;
  EXPECT_EQ(std::count(raw.begin(), raw.end(), '\n'), 1) << "one line";
}

TEST(Log, LogLine_WhenTooLong_IsTruncatedToValidJson) {
  for (const std::string& character :
       {std::string("x"), std::string("\xc3\xa9"), std::string("\"")}) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += character;
    for (std::size_t shift = 0; shift < 8; ++shift) {
      const std::string raw = line_of(
          "long", {{"request", "req1" + std::string(shift, 'y')}, {"text", text}, {"after", text}});
      EXPECT_LE(raw.size(), 8192u + 1);
      const json line = json::parse(raw);
      EXPECT_EQ(line["request"], "req1" + std::string(shift, 'y'));
      EXPECT_GT(line["text"].get<std::string>().size(), 2000u);
    }
  }
}

}  // namespace
}  // namespace holdfast::log::log_test
