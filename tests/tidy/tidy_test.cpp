// Goal: the rules of the house that a compiler does not check stay true: nothing on disk is left
// out of the tests, lines and functions stay readable, rooms include only what they may, the pure
// core stays pure, and no words slip in that do not belong in the repository. Method: reads the
// source tree as text. Every finding of a rule is listed, not only the first.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kColumnsMax = 100;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::uintmax_t kFileBytesMax = 8u << 20;

struct Source {
  std::string path;  // from the root, "control/core/machine.h"
  std::vector<std::string> lines;
};

const fs::path& root() {
  static const fs::path path = HOLDFAST_SOURCE_DIR;
  return path;
}

bool is_ignored_dir(const std::string& name) {
  return name == ".git" || name == "node_modules" || name.rfind("build", 0) == 0 ||
         name.rfind("holdfast-state", 0) == 0;
}

/// Every file of the repository, from the root.
const std::vector<std::string>& all_files() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> out;
    for (auto it = fs::recursive_directory_iterator(root()); it != fs::end(it); ++it) {
      if (it->is_directory() && is_ignored_dir(it->path().filename().string())) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        out.push_back(fs::relative(it->path(), root()).string());
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }();
  return files;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool starts_with(const std::string& text, const std::string& begin) {
  return text.rfind(begin, 0) == 0;
}

Source read_source(const std::string& path) {
  Source source{path, {}};
  std::ifstream file(root() / path);
  for (std::string line; std::getline(file, line);) source.lines.push_back(line);
  return source;
}

bool is_cpp(const std::string& path) {
  return ends_with(path, ".cpp") || ends_with(path, ".h") || ends_with(path, ".inc");
}

const std::vector<Source>& cpp_sources() {
  static const std::vector<Source> sources = [] {
    std::vector<Source> out;
    for (const std::string& path : all_files()) {
      if (is_cpp(path)) out.push_back(read_source(path));
    }
    return out;
  }();
  return sources;
}

/// Findings of one rule, "path:line: what".
class Findings {
 public:
  void add(const std::string& path, std::size_t line, const std::string& what) {
    list_.push_back(path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what);
  }
  std::string str() const {
    std::string out;
    for (const std::string& finding : list_) out += "\n  " + finding;
    return out;
  }
  bool empty() const { return list_.empty(); }

 private:
  std::vector<std::string> list_;
};

std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// What stands between the quotes of `#include "…"` (ours) or, if asked for, `<…>`, else empty.
std::string included(const std::string& line, bool system = false) {
  const std::string begin = system ? "#include <" : "#include \"";
  if (!starts_with(line, begin)) return "";
  const std::size_t close = line.find(system ? '>' : '"', begin.size());
  return close == std::string::npos ? "" : line.substr(begin.size(), close - begin.size());
}

/// End of the literal that starts at line[i]: a string, a raw string or a character.
std::size_t end_of_literal(const std::string& line, std::size_t i) {
  if (line[i] == '"' && i > 0 && line[i - 1] == 'R') {
    const std::size_t end = line.find(")\"", i);
    return end == std::string::npos ? line.size() : end + 1;
  }
  const char quote = line[i];
  for (++i; i < line.size() && line[i] != quote; ++i) {
    if (line[i] == '\\') ++i;
  }
  return i;
}

/// The line without its // comment and without what stands in literals.
std::string code_of(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool separator = line[i] == '\'' && i > 0 && std::isalnum(line[i - 1]) != 0;  // 1'000
    if (line.compare(i, 2, "//") == 0) break;
    if (line[i] == '"' || (line[i] == '\'' && !separator)) {
      i = end_of_literal(line, i);
    } else {
      out.push_back(line[i]);
    }
  }
  return out;
}

TEST(Tidy, EveryTestFileIsBuiltAndRun) {
  const Source cmake = read_source("tests/CMakeLists.txt");
  std::set<std::string> rooms;
  for (const std::string& line : cmake.lines) {
    const std::string begin = "set(HOLDFAST_ROOMS ";
    if (!starts_with(line, begin)) continue;
    std::istringstream words(line.substr(begin.size(), line.find(')') - begin.size()));
    for (std::string room; words >> room;) rooms.insert(room);
  }
  ASSERT_FALSE(rooms.empty()) << "tests/CMakeLists.txt names no rooms";
  std::ifstream manifest(HOLDFAST_BUILD_DIR "/generated/tests.txt");
  std::set<std::string> built;
  for (std::string line; std::getline(manifest, line);) built.insert(line);
  ASSERT_FALSE(built.empty()) << "the build has no list of its tests (generated/tests.txt)";
  Findings findings;
  for (const std::string& path : all_files()) {
    if (!ends_with(path, "_test.cpp")) continue;
    const fs::path p(path);
    const std::string room = p.parent_path().filename().string();
    if (p.parent_path().parent_path() != "tests" || rooms.count(room) == 0) {
      findings.add(path, 0, "is in no room of tests/CMakeLists.txt, so nobody runs it");
    } else if (built.count((fs::path(HOLDFAST_SOURCE_DIR) / path).string()) == 0) {
      findings.add(path, 0, "is not in this build; configure again");
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, LinesFitInAHundredColumns) {
  Findings findings;
  for (const Source& source : cpp_sources()) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::size_t width = columns(source.lines[i]);
      if (width > kColumnsMax) findings.add(source.path, i + 1, std::to_string(width) + " columns");
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

/// Finds the functions of a file by its braces: a block that has a ')' in its head and stands only
/// inside namespaces and types.
class FunctionFinder {
 public:
  explicit FunctionFinder(const Source& source) : source_(source) {}
  void report(Findings& findings) {
    for (std::size_t i = 0; i < source_.lines.size(); ++i) {
      if (starts_with(source_.lines[i], "#")) continue;
      for (const char c : code_of(source_.lines[i])) take(c, i, findings);
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

TEST(Tidy, FunctionsFitOnAScreen) {
  Findings findings;
  for (const Source& source : cpp_sources()) FunctionFinder(source).report(findings);
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, TheFunctionFinderFindsLongFunctions) {
  Source source{"x.cpp", {"namespace n {", "int f(int a,", "      int b) {", "  if (a) {", "  }"}};
  for (std::size_t i = 0; i < kFunctionLinesMax; ++i) source.lines.push_back("  a += '{';  // }");
  source.lines.insert(source.lines.end(), {"}", "}  // namespace n"});
  Findings findings;
  FunctionFinder(source).report(findings);
  EXPECT_EQ(findings.str(), "\n  x.cpp:2: a function of 75 lines");
}

TEST(Tidy, NoFileIsLarge) {
  Findings findings;
  for (const std::string& path : all_files()) {
    if (fs::file_size(root() / path) > kFileBytesMax) findings.add(path, 0, "is over 8 MiB");
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, HeadersHavePragmaOnceAndNoHeavyIncludes) {
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!ends_with(source.path, ".h")) continue;
    const auto once = std::find(source.lines.begin(), source.lines.end(), "#pragma once");
    if (once == source.lines.end()) findings.add(source.path, 0, "has no #pragma once");
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
// own doors may be named in the one file that measures first, and where a reader bounds itself.
TEST(Tidy, JsonTextsHaveOneDoor) {
  const std::map<std::string, std::string> allowed = {
      {"shared/base/json_text.cpp", "the door"},
      {"shared/grammar/json_tree.cpp", "measures first, then builds a tree of its own"}};
  const std::vector<std::string> doors = {
      "json::parse(",     "json::accept(",       "json::sax_parse(",  "json::from_cbor(",
      "json::from_bson(", "json::from_msgpack(", "json::from_ubjson("};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (starts_with(source.path, "tests/") || allowed.contains(source.path)) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      for (const std::string& door : doors) {
        if (code_of(source.lines[i]).find(door) == std::string::npos) continue;
        findings.add(source.path, i + 1, door + "…: shared/base/json_text.h is the door");
      }
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

TEST(Tidy, NoWordsThatDoNotBelongHere) {
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
    // Data comes from others, word for word.
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

/// One rule of who may include whom: files under `room` may not include what starts with `banned`.
struct Ban {
  std::string room;
  std::string banned;
};

TEST(Tidy, RoomsIncludeOnlyDownwards) {
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
                                 {"control/store/", "control/link/"}};
  // The backend runs the program that the model room writes down: plain structs of one header.
  const std::set<std::string> program = {"worker/model/program.h"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      for (const Ban& ban : bans) {
        if (starts_with(source.path, ban.room) && starts_with(name, ban.banned)) {
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

TEST(Tidy, CoreIncludesOnlyBaseAndPlainMessages) {
  // Structs, and a text that is part of one of them: no sockets, no frames.
  static const std::set<std::string> plain = {"shared/wire/messages.h",
                                              "shared/wire/cached_tokens.h"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!starts_with(source.path, "control/core/")) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string name = included(source.lines[i]);
      const bool allowed = name.empty() || starts_with(name, "shared/base/") ||
                           starts_with(name, "control/core/") || plain.count(name) != 0;
      if (!allowed) findings.add(source.path, i + 1, "may not include " + name);
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

// The core's decisions must replay: no clock, random device, thread, file or socket in it.
TEST(Tidy, CoreReadsNoClockAndNoChance) {
  static const std::regex impure(
      R"(_clock::now|\brand\s*\(|\bsrand\s*\(|random_device|\btime\s*\(|gettimeofday|)"
      R"(clock_gettime|std::thread|std::mutex|std::ifstream|std::ofstream|\bfopen\s*\(|)"
      R"(\bgetenv\s*\(|system_clock\(\))");
  static const std::set<std::string> headers = {
      "thread", "mutex", "fstream", "random", "ctime", "chrono", "future", "condition_variable"};
  Findings findings;
  for (const Source& source : cpp_sources()) {
    if (!starts_with(source.path, "control/core/")) continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string code = code_of(source.lines[i]);
      std::smatch match;
      if (std::regex_search(code, match, impure)) findings.add(source.path, i + 1, match[0].str());
      const std::string name = included(source.lines[i], true);
      if (headers.count(name) != 0) findings.add(source.path, i + 1, "includes " + name);
    }
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
}

}  // namespace
