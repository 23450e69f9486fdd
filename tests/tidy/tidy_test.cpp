// Goal: rules of the code base that no compiler checks stay true: no file on disk is left out of
// the tests, lines and functions stay readable, modules include only what they may, the pure core
// stays pure, and no words slip in that do not belong in the repository. Method: reads the source
// tree as text. Every finding of a rule is listed, not only the first.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace holdfast::tidy::tidy_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kColumnsMax = 100;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::uintmax_t kFileBytesMax = 8u << 20;

TEST(Tidy, TestFiles_AreAllBuiltAndRun) {
  const Source cmake = read_source("tests/CMakeLists.txt");
  std::set<std::string> modules;
  for (const std::string& line : cmake.lines) {
    const std::string begin = "set(HOLDFAST_ROOMS ";
    if (!starts_with(line, begin)) continue;
    std::istringstream words(line.substr(begin.size(), line.find(')') - begin.size()));
    for (std::string module; words >> module;) modules.insert(module);
  }
  ASSERT_FALSE(modules.empty()) << "tests/CMakeLists.txt names no rooms";
  std::ifstream manifest(HOLDFAST_BUILD_DIR "/generated/tests.txt");
  std::set<std::string> built;
  for (std::string line; std::getline(manifest, line);) built.insert(line);
  ASSERT_FALSE(built.empty()) << "the build has no list of its tests (generated/tests.txt)";
  Findings findings;
  for (const std::string& path : all_files()) {
    if (!ends_with(path, "_test.cpp")) continue;
    const fs::path p(path);
    const std::string module = p.parent_path().filename().string();
    if (p.parent_path().parent_path() != "tests" || modules.count(module) == 0) {
      findings.add(path, 0, "is in no room of tests/CMakeLists.txt, so nobody runs it");
    } else if (built.count((fs::path(HOLDFAST_SOURCE_DIR) / path).string()) == 0) {
      findings.add(path, 0, "is not in this build; configure again");
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, Lines_FitInAHundredColumns) {
  Findings findings;
  for (const Source& source : cpp_sources()) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::size_t width = columns(source.lines[i]);
      if (width > kColumnsMax) findings.add(source.path, i + 1, std::to_string(width) + " columns");
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

/// Finds the functions of a file by its braces: a block that has a ')' in its head and is enclosed
/// only by namespaces and types.
class FunctionFinder {
 public:
  explicit FunctionFinder(const Source& source) : source_(source) {}
  void report(Findings& findings) {
    const std::vector<std::string> code = code_lines(source_);
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (starts_with(code[i], "#")) continue;
      for (const char c : code[i]) take(c, i, findings);
    }
  }

 private:
  struct Block {
    std::size_t first_line;
    bool scope;
    bool function;
  };
  void take(char c, std::size_t line, Findings& findings) {
    if (c == '{') {
      static const std::regex scope(R"(^\s*(template\s*<.*>\s*)?(inline\s+)?)"
                                    R"((namespace|class|struct|union|enum|extern)\b)");
      const bool is_scope = std::regex_search(head_, scope);
      const bool outside =
          std::all_of(blocks_.begin(), blocks_.end(), [](auto& b) { return b.scope; });
      const bool has_arguments = head_.find(')') != std::string::npos;
      blocks_.push_back({head_line_, is_scope, !is_scope && outside && has_arguments});
    }
    if (c == '}' && !blocks_.empty()) {
      const std::size_t length = line - blocks_.back().first_line + 1;
      if (blocks_.back().function && length > kFunctionLinesMax) {
        findings.add(source_.path, blocks_.back().first_line + 1,
                     "a function of " + std::to_string(length) + " lines");
      }
      blocks_.pop_back();
    }
    if (c == '{' || c == '}' || c == ';') {
      head_.clear();
    } else if (!head_.empty() || std::isspace(static_cast<unsigned char>(c)) == 0) {
      if (head_.empty()) head_line_ = line;
      head_.push_back(c);
    }
  }

  const Source& source_;
  std::vector<Block> blocks_;
  std::string head_;
  std::size_t head_line_ = 0;
};

TEST(Tidy, Functions_FitOnAScreen) {
  Findings findings;
  for (const Source& source : cpp_sources()) FunctionFinder(source).report(findings);
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, FunctionFinder_WithALongFunction_ReportsIt) {
  Source source{"x.cpp", {"namespace n {", "int f(int a,", "      int b) {", "  if (a) {", "  }"}};
  for (std::size_t i = 0; i < kFunctionLinesMax; ++i) source.lines.push_back("  a += '{';  // }");
  source.lines.insert(source.lines.end(), {"}", "}  // namespace n"});
  Findings findings;
  FunctionFinder(source).report(findings);
  EXPECT_EQ(findings.str(), "\n  x.cpp:2: a function of 75 lines");
}

TEST(Tidy, Files_StayUnderTheSizeLimit) {
  Findings findings;
  for (const std::string& path : all_files()) {
    if (fs::file_size(root() / path) > kFileBytesMax) findings.add(path, 0, "is over 8 MiB");
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, Files_AreNoSymbolicLinks) {
  Findings findings;
  for (const std::string& path : all_files()) {
    const bool link = fs::is_symlink(root() / path);
    if (link)
      findings.add(path, 0, "is a symbolic link: archives and copies may make a text of it");
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, Headers_HavePragmaOnceAndNoHeavyIncludes) {
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!ends_with(source.path, ".h")) continue;
    const auto once = std::find(source.lines.begin(), source.lines.end(), "#pragma once");
    const bool frames = starts_with(source.path, "worker/backend/cpu/target_");  // a unit's code
    if (once == source.lines.end() && !frames) {
      findings.add(source.path, 0, "has no #pragma once");
    }
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i], true);
      const bool heavy = name == "nlohmann/json.hpp" || starts_with(name, "boost/beast") ||
                         starts_with(name, "CLI/") || starts_with(name, "spdlog/");
      if (heavy) findings.add(source.path, i + 1, name + " belongs in a .cpp file");
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

// Goal: no text becomes JSON without bounds on its depth, members and values. Method: the library's
// parsers may be named only in the file that measures first, and where a reader bounds itself.
TEST(Tidy, JsonTexts_AreParsedOnlyByTheBoundedReader) {
  const std::map<std::string, std::string> allowed = {
      {"shared/base/json_text.cpp", "the bounded reader itself"},
      {"shared/grammar/json_tree.cpp", "measures first, then builds a tree of its own"}};
  const std::vector<std::string> parsers = {
      "json::parse(",     "json::accept(",       "json::sax_parse(",  "json::from_cbor(",
      "json::from_bson(", "json::from_msgpack(", "json::from_ubjson("};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (starts_with(source.path, "tests/") || allowed.contains(source.path)) continue;
    const std::vector<std::string> code = code_lines(source);
    for (std::size_t i = 0; i < code.size(); ++i) {
      for (const std::string& parser : parsers) {
        if (code[i].find(parser) == std::string::npos) continue;
        findings.add(source.path, i + 1, parser + "…: call shared/base/json_text.h instead");
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, Texts_ContainNoForbiddenWords) {
  // Built from halves, so that this file does not find itself.
  const std::vector<std::string> words = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                          std::string("/wo") + "rk/", std::string("XX") + "X:"};
  const std::vector<std::string> endings = {".cpp",  ".h",     ".inc", ".c",  ".md",
                                            ".txt",  ".cmake", ".sql", ".sh", ".js",
                                            ".html", ".css",   ".json"};
  Findings findings;
  for (const std::string& path : all_files()) {
    const bool script = starts_with(path, "ops/") && fs::path(path).extension().empty();
    const bool text = std::any_of(endings.begin(), endings.end(),
                                  [&](const std::string& e) { return ends_with(path, e); });
    // Test data is verbatim from other projects.
    if ((!text && !script) || starts_with(path, "tests/data/")) continue;
    const Source source = read_source(path);
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const std::string& word : words) {
        if (source.lines[i].find(word) != std::string::npos) findings.add(path, i + 1, word);
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

/// One rule of includes: files under `module` may not include paths that begin with `banned`.
struct Ban {
  std::string module;
  std::string banned;
};

TEST(Tidy, Modules_IncludeOnlyDownwards) {
  const std::vector<Ban> bans = {{"control/", "worker/"},
                                 {"worker/", "control/"},
                                 {"shared/", "control/"},
                                 {"shared/", "worker/"},
                                 {"shared/", "ops/"},
                                 {"control/", "ops/"},
                                 {"worker/", "ops/"},
                                 {"worker/backend/", "worker/engine/"},
                                 {"worker/model/", "worker/engine/"},
                                 {"worker/backend/", "worker/link/"},
                                 {"worker/model/", "worker/link/"},
                                 {"worker/engine/", "worker/link/"},
                                 {"control/store/", "control/daemon/"}};
  // The backend runs the program that the model module builds: plain structs of one header.
  const std::set<std::string> program = {"worker/model/program.h"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      for (const Ban& ban : bans) {
        if (starts_with(source.path, ban.module) && starts_with(name, ban.banned)) {
          findings.add(source.path, i + 1, "may not include " + name);
        }
      }
      if (starts_with(source.path, "worker/backend/") && starts_with(name, "worker/model/") &&
          program.count(name) == 0) {
        findings.add(source.path, i + 1, "of worker/model only program.h, not " + name);
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, Core_IncludesOnlyBaseAndPlainMessages) {
  // Only structs, their bounds, and a text that is part of one of them: no sockets, no frames.
  static const std::set<std::string> plain = {"shared/wire/messages.h", "shared/wire/bounds.h",
                                              "shared/wire/cached_tokens.h",
                                              "shared/sampling/parameters.h"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!starts_with(source.path, "control/core/")) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      const bool allowed = name.empty() || starts_with(name, "shared/base/") ||
                           starts_with(name, "shared/domain/") ||
                           starts_with(name, "control/core/") || plain.count(name) != 0;
      if (!allowed) findings.add(source.path, i + 1, "may not include " + name);
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

// The core's decisions must replay: no clock, random device, thread, file or socket in it.
TEST(Tidy, Core_ReadsNoClockAndNoRandomness) {
  static const std::regex impure(
      R"(_clock::now|\brand\s*\(|\bsrand\s*\(|random_device|\btime\s*\(|gettimeofday|)"
      R"(clock_gettime|std::thread|std::mutex|std::ifstream|std::ofstream|\bfopen\s*\(|)"
      R"(\bgetenv\s*\(|system_clock\(\))");
  static const std::set<std::string> headers = {
      "thread", "mutex", "fstream", "random", "ctime", "chrono", "future", "condition_variable"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!starts_with(source.path, "control/core/")) continue;
    const std::vector<std::string> code = code_lines(source);
    for (std::size_t i = 0; i < code.size(); ++i) {
      std::smatch match;
      if (std::regex_search(code[i], match, impure))
        findings.add(source.path, i + 1, match[0].str());
      const std::string name = included(source.lines[i], true);
      if (headers.count(name) != 0) findings.add(source.path, i + 1, "includes " + name);
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

}  // namespace
}  // namespace holdfast::tidy::tidy_test
