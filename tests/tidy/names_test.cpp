// Goal: names are the field's terms, one meaning a word (docs/contribute/glossary.md), tests say
// what they test, and comments begin with their subject. Method: reads the source tree as text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace holdfast::tidy::names_test {
namespace {

/// Everyday words that had up to ten meanings each; docs/contribute/renamed.tsv has what they
/// became.
const std::set<std::string>& banned_words() {
  static const std::set<std::string> words = {
      "guess",  "guesses", "guessed",  "guesser", "guessing", "pick",    "picks",  "picked",
      "picker", "keep",    "keeps",    "kept",    "keeper",   "keepers", "beside", "behind",
      "apart",  "few",     "handed",   "coarse",  "wanted",   "known",   "place",  "places",
      "placed", "room",    "rooms",    "house",   "houses",   "door",    "doors",  "dress",
      "desk",   "desks",   "sheet",    "sheets",  "station",  "piece",   "pieces", "carver",
      "census", "tally",   "tallies",  "wish",    "wishes",   "heard",   "seen",   "shown",
      "asked",  "ran",     "met",      "chance",  "chances",  "hf",      "arrow",  "arrows",
      "book",   "books",   "stations", "pace"};
  return words;
}

/// Terms from outside that contain such a word.
const std::vector<std::string>& allowed_terms() {
  static const std::vector<std::string> terms = {"keep_alive", "sentence_piece", "word_piece",
                                                 "in_place_index", "falloc_fl_keep_size"};
  return terms;
}

/// KeepAliveComment, keep_alive_: "keep_alive_comment", "keep_alive".
std::string snake_case(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool after_lower = i > 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    const bool before_lower =
        i + 1 < name.size() && std::islower(static_cast<unsigned char>(name[i + 1])) != 0;
    if (std::isupper(c) != 0 && i > 0 && (after_lower || before_lower)) out.push_back('_');
    out.push_back(static_cast<char>(std::tolower(c)));
  }
  return out;
}

/// The first banned word in an identifier, else empty.
std::string banned_word_of(const std::string& identifier) {
  std::string name = snake_case(identifier);
  for (const std::string& term : allowed_terms()) {
    const std::size_t at = name.find(term);
    if (at != std::string::npos) name.erase(at, term.size());
  }
  std::string word;
  for (const char c : name + "_") {
    if (c != '_') {
      word.push_back(c);
      continue;
    }
    if (banned_words().contains(word)) return word;
    word.clear();
  }
  return "";
}

void find_banned(const Source& source, Findings& findings) {
  static const std::regex identifier(R"([A-Za-z_]\w*)");
  const std::vector<std::string> lines = code_lines(source);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (starts_with(lines[i], "#include")) continue;
    const std::string& code = lines[i];
    for (auto it = std::sregex_iterator(code.begin(), code.end(), identifier);
         it != std::sregex_iterator(); ++it) {
      const std::string word = banned_word_of(it->str());
      if (!word.empty()) findings.add(source.path, i + 1, it->str() + " has the word " + word);
    }
  }
}

TEST(Names, Identifiers_HaveNoBannedWord) {
  Findings findings;
  for (const Source& source : cpp_sources()) find_banned(source, findings);
  for (const Source& source : cl_sources()) find_banned(source, findings);
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Names, BannedWords_InAnyFormOfAnIdentifier_AreFound) {
  for (const char* name : {"kept", "kKeepFiles", "KeepChange", "pick_", "HF_TRY", "is_known",
                           "TheHouse_WhenItStands_Falls"}) {
    EXPECT_NE(banned_word_of(name), "") << name;
  }
  for (const char* name : {"keep_alive_", "kKeepAliveComment", "unknown", "SentencePiece",
                           "bookkeeper", "replaced", "fewer"}) {
    EXPECT_EQ(banned_word_of(name), "") << name;
  }
}

/// A comment's first line: the line before it is none.
bool begins_comment(const Source& source, std::size_t i) {
  static const std::regex comment(R"(^\s*//)");
  return std::regex_search(source.lines[i], comment) &&
         (i == 0 || !std::regex_search(source.lines[i - 1], comment));
}

TEST(Names, Comments_BeginWithTheirSubject) {
  static const std::regex bad(R"(^\s*///? ?(Of|Those|Who|What|It|Whose|Whether|Such|Nobody)\b)");
  Findings findings;
  for (const Source& source : cpp_sources()) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      if (begins_comment(source, i) && std::regex_search(source.lines[i], bad)) {
        findings.add(source.path, i + 1, source.lines[i]);
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Names, MembersOfKnobs_AreNamedAsTheirKnobs) {
  const Source* table = nullptr;
  for (const Source& source : cpp_sources()) {
    if (source.path == "control/core/knob_table.cpp") table = &source;
  }
  ASSERT_NE(table, nullptr);
  std::string text;
  for (const std::string& line : table->lines) text += line + "\n";
  static const std::regex knob(R"re(Knob\{\s*"([\w.]+)",\s*&Config::(\w+))re");
  int knobs = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), knob), end; it != end; ++it, ++knobs) {
    std::string name = (*it)[1].str();
    std::replace(name.begin(), name.end(), '.', '_');
    EXPECT_EQ((*it)[2].str(), name);
  }
  EXPECT_GT(knobs, 70) << "the table has another form";
}

TEST(Names, Tests_AreSubjectConditionAndResult) {
  static const std::regex test(R"(^(TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*(\w+)\))");
  static const std::regex form(R"([A-Z][A-Za-z0-9]*(_[A-Z0-9][A-Za-z0-9]*){1,2})");
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!ends_with(source.path, "_test.cpp")) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(source.lines[i], match, test)) continue;
      const std::string name = match[2].str();
      if (!std::regex_match(name, form)) {
        findings.add(source.path, i + 1, name + ": expected Subject_WhenCondition_Result");
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

}  // namespace
}  // namespace holdfast::tidy::names_test
