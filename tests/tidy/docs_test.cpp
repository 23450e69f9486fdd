// Goal: documents stay readable and true: short paragraphs, lines that fit, links that lead
// somewhere, files and functions that exist. Method: reads the Markdown of the tree as text.
// docs/lab has dated notes of what was measured; it may name what is gone.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace holdfast::tidy::docs_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kColumnsMax = 100;
constexpr std::size_t kParagraphWordsMax = 120;

std::vector<Source> pages() {
  std::vector<Source> out;
  for (const std::string& path : all_files()) {
    const bool ours = starts_with(path, "docs/") || starts_with(path, "schema/") ||
                      path.find('/') == std::string::npos;
    if (ours && ends_with(path, ".md")) out.push_back(read_source(path));
  }
  return out;
}

bool is_lab(const std::string& path) {
  return starts_with(path, "docs/lab/");
}

bool is_fence(const std::string& line) {
  return line.find_first_not_of(' ') != std::string::npos &&
         line.compare(line.find_first_not_of(' '), 3, "```") == 0;
}

bool is_table(const std::string& line) {
  const std::size_t at = line.find_first_not_of(' ');
  return at != std::string::npos && line[at] == '|';
}

/// Calls visit(line number, line) for what is neither code block nor table.
template <class Visit>
void each_prose_line(const Source& page, const Visit& visit) {
  bool code = false;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    if (is_fence(page.lines[i])) {
      code = !code;
    } else if (!code && !is_table(page.lines[i])) {
      visit(i, page.lines[i]);
    }
  }
}

std::size_t words_of(const std::string& text) {
  std::istringstream in(text);
  std::size_t count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

/// A line that cannot be broken: one link, perhaps as an item of a list.
bool is_one_link(const std::string& line) {
  static const std::regex link(R"(^\s*([-*] )?(\[[^\]]*\]\([^)]*\)|https?://\S+)[.,;:]?\s*$)");
  return std::regex_match(line, link);
}

TEST(Docs, Lines_OutsideTables_FitInAHundredColumns) {
  Findings findings;
  for (const Source& page : pages()) {
    each_prose_line(page, [&](std::size_t i, const std::string& line) {
      const std::size_t width = columns(line);
      if (width <= kColumnsMax || is_one_link(line)) return;
      findings.add(page.path, i + 1, std::to_string(width) + " columns");
    });
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Docs, Paragraphs_HaveAtMost120Words) {
  Findings findings;
  for (const Source& page : pages()) {
    if (is_lab(page.path)) continue;
    std::size_t begin = 0;
    std::size_t words = 0;
    const auto end = [&] {
      if (words > kParagraphWordsMax) {
        findings.add(page.path, begin + 1, "a paragraph of " + std::to_string(words) + " words");
      }
      words = 0;
    };
    std::size_t last = 0;
    each_prose_line(page, [&](std::size_t i, const std::string& line) {
      const bool blank = line.find_first_not_of(" \t") == std::string::npos;
      const bool begins = blank || line[0] == '#' || i != last + 1;
      if (begins) {
        end();
        begin = i;
      }
      last = i;
      words += words_of(line);
    });
    end();
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Docs, Links_ToFiles_LeadSomewhere) {
  static const std::regex link(R"(\]\(([^)\s#]+)(#[^)]*)?\))");
  Findings findings;
  for (const Source& page : pages()) {
    each_prose_line(page, [&](std::size_t i, const std::string& line) {
      for (auto it = std::sregex_iterator(line.begin(), line.end(), link);
           it != std::sregex_iterator(); ++it) {
        const std::string target = (*it)[1].str();
        if (target.find(':') != std::string::npos) continue;  // https:, mailto:
        const fs::path path = (root() / page.path).parent_path() / target;
        if (!fs::exists(path)) findings.add(page.path, i + 1, target + " is not there");
      }
    });
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

/// True for a path in backticks that names something of the tree: `control/core/machine.h`,
/// `tests/http/`, with `*` or `{a,b}` for several, which are not looked at.
bool is_tree_path(const std::string& text) {
  static const std::regex path(
      R"((bench|control|docs|ops|schema|shared|tests|worker)/[A-Za-z0-9_./-]+)");
  return std::regex_match(text, path);
}

TEST(Docs, Paths_InBackticks_Exist) {
  static const std::regex quoted(R"(`([^`\s]+)`)");
  Findings findings;
  for (const Source& page : pages()) {
    if (is_lab(page.path) || page.path == "CHANGELOG.md") continue;
    for (std::size_t i = 0; i < page.lines.size(); ++i) {
      const std::string& line = page.lines[i];
      for (auto it = std::sregex_iterator(line.begin(), line.end(), quoted);
           it != std::sregex_iterator(); ++it) {
        const std::string name = (*it)[1].str();
        if (is_tree_path(name) && !fs::exists(root() / name)) {
          findings.add(page.path, i + 1, name + " is not in the tree");
        }
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

/// Every identifier of the sources.
const std::set<std::string>& identifiers() {
  static const std::set<std::string> all = [] {
    std::set<std::string> out;
    for (const auto* sources : {&cpp_sources(), &cl_sources()}) {
      for (const Source& source : *sources) {
        for (const std::string& line : source.lines) {
          std::string word;
          for (const char c : line + " ") {
            const auto u = static_cast<unsigned char>(c);
            if (std::isalnum(u) != 0 || c == '_') {
              word.push_back(c);
            } else if (!word.empty()) {
              out.insert(word);
              word.clear();
            }
          }
        }
      }
    }
    return out;
  }();
  return all;
}

TEST(Docs, SymbolsOfTheCode_InBackticks_Exist) {
  // Type::member, function(), kConstant: forms that only code has.
  static const std::regex quoted(R"(`([A-Za-z_]\w*(?:::[A-Za-z_]\w*)+(?:\(\))?|k[A-Z]\w+)`)");
  static const std::regex part(R"([A-Za-z_]\w*)");
  static const std::set<std::string> outside = {"std", "sqlite3", "nlohmann", "boost"};
  Findings findings;
  for (const Source& page : pages()) {
    if (is_lab(page.path) || page.path == "CHANGELOG.md") continue;
    for (std::size_t i = 0; i < page.lines.size(); ++i) {
      const std::string& line = page.lines[i];
      for (auto it = std::sregex_iterator(line.begin(), line.end(), quoted);
           it != std::sregex_iterator(); ++it) {
        const std::string name = (*it)[1].str();
        for (auto p = std::sregex_iterator(name.begin(), name.end(), part);
             p != std::sregex_iterator(); ++p) {
          if (outside.contains(p->str())) break;
          if (!identifiers().contains(p->str())) {
            findings.add(page.path, i + 1, name + ": no " + p->str() + " in the sources");
          }
        }
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

}  // namespace
}  // namespace holdfast::tidy::docs_test
