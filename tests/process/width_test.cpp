// Goal: no printed line is wider than the terminal, whatever the alphabet, and shortened texts can
// be recognised. Method: the functions themselves on texts of every kind, at every width from a few
// columns on.

#include "ops/terminal/width.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ops/terminal/output.h"
#include "ops/terminal/render.h"

namespace holdfast::cli::width_test {
namespace {

const char* kTexts[] = {
    "plain",
    "a sentence with several words, one after the other, and no end in sight",
    "/a/very/long/path/to/some/model/that/lies/deep/down/qwen2.5-0.5b-q8_0.gguf",
    "Größenänderungsausschussvorsitzende",
    "大型语言模型服务器在这台机器上运行",
    "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301",
    "🙂🙂🙂 smile 🙂🙂🙂",
    "broken \xff\xfe bytes \xe5\xa4",
    ""};

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, display_width(line));
  return most;
}

TEST(DisplayWidth, DisplayWidth_CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("ä"), 1u);
  EXPECT_EQ(display_width("大"), 2u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("\033[31mred\033[0m"), 3u);
  EXPECT_EQ(display_width("…"), 1u);
}

TEST(Shorten, Shorten_AtAnyWidth_FitsAndShowsBothEndsOfPaths) {
  for (const char* text : kTexts) {
    for (std::size_t width = 1; width < 60; ++width) {
      const std::string cut = shorten(text, width);
      EXPECT_LE(display_width(cut), width) << text;
      if (display_width(text) <= width) {
        EXPECT_EQ(cut, text);
      }
    }
  }
  EXPECT_EQ(shorten("/models/deep/model.gguf", 15), "/models…el.gguf");
  EXPECT_EQ(shorten("a sentence of words", 11), "a sentence…");
}

TEST(WrapLines, WrapLines_AtAnyWidth_FitsAndLosesNothing) {
  for (const char* text : kTexts) {
    for (std::size_t width = 8; width < 60; ++width) {
      const std::string wrapped = wrap_lines(std::string("  ") + text + "\n", width);
      EXPECT_LE(widest(wrapped), width) << wrapped;
      const auto without_blanks = [](std::string all) {
        std::erase_if(all, [](char c) { return c == ' ' || c == '\n'; });
        return all;
      };
      EXPECT_EQ(without_blanks(wrapped), without_blanks(text));
    }
  }
  EXPECT_EQ(wrap_lines("one two three\n", 0), "one two three\n");
  EXPECT_EQ(wrap_lines("one two three\n", 9, 4), "one two\n    three\n");
}

TEST(TableWidth, Table_AtAnyWidth_Fits) {
  Table table({"NAME", "N", "STATE", "PATH", "NOTE", "EMPTY"});
  for (const char* text : kTexts) table.add({text, "1234567", "ready", text, text, "-"});
  for (std::size_t width = 4; width < 250; ++width) {
    const std::string rendered = table.str(width % 2 == 0, width);
    EXPECT_LE(widest(rendered), width) << rendered;
    if (width >= 60) {
      EXPECT_NE(rendered.find("1234567"), std::string::npos) << "numbers are whole";
    }
    if (width >= 60) {
      EXPECT_NE(rendered.find("ready"), std::string::npos) << rendered;
    }
  }
  EXPECT_NE(table.str(false, 50).find("no room for"), std::string::npos);
  EXPECT_EQ(table.str(false, 0), table.str(false, 1'000));
}

TEST(TableWidth, Table_WithControlCharacters_ReplacesThem) {
  Table table({"NAME"});
  table.add({"a\033[2Jb\x7f"});
  EXPECT_EQ(table.str(false), "NAME\na?[2Jb?\n");
}

TEST(RenderWidth, RenderHuman_AtAnyWidth_FitsObjectsAndTables) {
  nlohmann::json object = {{"id", std::string(70, 'i')}, {"a_long_member_name", kTexts[1]}};
  object["rows"] = nlohmann::json::array();
  for (const char* text : {kTexts[1], kTexts[2], kTexts[4]}) {
    object["rows"].push_back({{"path", text}, {"state", "failed"}, {"count", 7}, {"why", text}});
  }
  object["part"] = {{"deep", object["rows"]}, {"text", kTexts[2]}};
  for (std::size_t width = 20; width < 200; ++width) {
    RenderOptions options;
    options.width = width;
    EXPECT_LE(widest(render_human(object, options)), width) << render_human(object, options);
  }
}

}  // namespace
}  // namespace holdfast::cli::width_test
