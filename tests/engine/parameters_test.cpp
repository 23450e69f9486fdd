// Goal: the table of sampling parameters is sound, and frames and the page agree with it. Method:
// each row by itself; the visitor of the frame's fields; the page's table made anew from the rows
// (HOLDFAST_UPDATE_PAGES=1 writes it).
#include "shared/sampling/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "shared/sampling/extra.h"
#include "shared/wire/fields.h"

namespace holdfast::sampling::parameters_test {
namespace {

struct FieldNames {
  std::vector<std::string> names;
  template <class T>
  void operator()(std::string_view name, const T&) {
    names.emplace_back(name);
  }
  template <class T>
  void blob(std::string_view name, const T&) {
    names.emplace_back(name);
  }
};

TEST(Parameters, PlainParameters_NextToTheFramesFields_HaveTheirNamesAndOrder) {
  FieldNames frame;
  const wire::Sampling sampling;
  wire::fields(frame, sampling);
  std::erase(frame.names, "extra");
  std::vector<std::string> rows;
  for (const Parameter& parameter : kParameters) {
    visit_plain(parameter, [&](auto) { rows.emplace_back(parameter.name); });
  }
  EXPECT_EQ(rows, frame.names);
}

TEST(Parameters, Rows_WhenListed_HaveNamesOfTheirOwnAndAMeaning) {
  std::set<std::string_view> names = {"embedding", "thinking", "grammar"};  // of the extra too
  for (const Parameter& parameter : kParameters) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    if (!parameter.alias.empty()) {
      EXPECT_TRUE(names.insert(parameter.alias).second) << parameter.alias;
    }
    EXPECT_FALSE(parameter.meaning.empty()) << parameter.name;
    EXPECT_EQ(find_parameter(parameter.name), &parameter);
  }
  EXPECT_EQ(find_parameter("magic"), nullptr);
  EXPECT_EQ(check(wire::Sampling()), std::nullopt);
}

TEST(Parameters, Check_WhenAValueIsOutOfRange_SaysNameValueAndRange) {
  wire::Sampling s;
  s.repetition_penalty = 0.001F;
  EXPECT_EQ(check(s), "repetition_penalty is 0.001; expected 0.01 to 100");
  s.repetition_penalty = 0.01F;  // the float next to the bound
  EXPECT_EQ(check(s), std::nullopt);
  s.temperature = NAN;
  EXPECT_EQ(check(s), "temperature is nan; expected 0 to 100");
  s.temperature = 1;
  s.logprobs = -2;
  EXPECT_EQ(check(s), "logprobs is -2; expected 0 to 64");
  const std::pair<const char*, const char*> options[] = {
      {R"({"typical_p":2})", "sampling: typical_p is 2; expected 0 to 1"},
      {R"({"mirostat":1})", "sampling: mirostat is 1; expected 0 or 2"},
      {R"({"repeat_last_n":18446744073709551615})",
       "sampling: repeat_last_n is 18446744073709551615; expected -1 to 1073741824"},
      {R"({"logit_bias":{"7":1001}})", "sampling: logit_bias of 7 is 1001; expected -1000 to 1000"},
      {R"({"banned_strings":[""]})",
       "sampling: banned_strings is [\"\"]; expected at most 64 texts of 1 to 256 bytes"}};
  for (const auto& [text, message] : options) {
    const auto refused = parse_extra(text, 97);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, Errc::kInvalidRequest);
    EXPECT_EQ(refused.error().what, message);
  }
  EXPECT_EQ(parse_extra(R"({"mirostat":2.0})", 97)->mirostat, 2);
  EXPECT_EQ(parse_extra(R"({"temperature":1})", 97).error().code, Errc::kUnsupported);
}

/// The table of the page.
std::string page_table() {
  std::string out = "| field | what it does | range | default |\n|---|---|---|---|\n";
  for (const Parameter& parameter : kParameters) {
    const std::string range = range_text(parameter);
    std::string fallback = default_text(parameter);
    if (parameter.own_reader) fallback.clear();
    if (std::holds_alternative<Order SamplingOptions::*>(parameter.member)) fallback = "as listed";
    out += "| `" + std::string(parameter.name) + "`";
    if (!parameter.alias.empty()) out += ", `" + std::string(parameter.alias) + "`";
    out += " | " + std::string(parameter.meaning) + " | " + range + " | " +
           (fallback.empty() ? "" : "`" + fallback + "`") + " |\n";
  }
  return out;
}

TEST(Parameters, PageAboutSampling_WhenMadeAnew_IsTheSame) {
  const std::string path = HOLDFAST_SOURCE_DIR "/docs/use/sampling.md";
  std::ifstream file(path);
  std::stringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  const std::size_t from = text.find("| field |");
  ASSERT_NE(from, std::string::npos);
  const std::size_t end = text.find("\n\n", from) + 1;
  if (std::getenv("HOLDFAST_UPDATE_PAGES") != nullptr) {
    std::ofstream(path) << text.substr(0, from) << page_table() << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), page_table())
      << "HOLDFAST_UPDATE_PAGES=1 writes the table";
}

}  // namespace
}  // namespace holdfast::sampling::parameters_test
