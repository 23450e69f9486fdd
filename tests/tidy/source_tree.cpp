#include "tests/tidy/source_tree.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace holdfast::tidy {

namespace fs = std::filesystem;

namespace {

bool is_ignored_dir(const std::string& name) {
  return name == ".git" || name == "node_modules" || name.rfind("build", 0) == 0 ||
         name.rfind("holdfast-state", 0) == 0;
}

std::vector<Source> sources_that_end_with(const std::vector<std::string>& endings) {
  std::vector<Source> out;
  for (const std::string& path : all_files()) {
    const bool match = std::any_of(endings.begin(), endings.end(),
                                   [&](const std::string& end) { return ends_with(path, end); });
    if (match) out.push_back(read_source(path));
  }
  return out;
}

/// Returns where the string or character that starts at line[i] ends.
std::size_t end_of_literal(const std::string& line, std::size_t i) {
  const char quote = line[i];
  for (++i; i < line.size() && line[i] != quote; ++i) {
    if (line[i] == '\\') ++i;
  }
  return i;
}

/// A digit separator, 1'000, begins no literal.
bool begins_literal(const std::string& line, std::size_t i) {
  if (line[i] == '"') return true;
  return line[i] == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(line[i - 1])) == 0);
}

/// Takes the lines of a file in order and leaves out what is no code.
class CodeFilter {
 public:
  std::string filter(const std::string& line) {
    std::string out;
    std::size_t i = 0;
    while (i < line.size()) {
      if (!end_.empty()) {  // inside of a raw string or a block comment
        const std::size_t at = line.find(end_, i);
        if (at == std::string::npos) return out;
        i = at + end_.size();
        end_.clear();
      } else if (line.compare(i, 2, "//") == 0) {
        return out;
      } else if (line.compare(i, 2, "/*") == 0) {
        end_ = "*/";
        i += 2;
      } else if (begins_literal(line, i)) {
        i = skip_literal(line, i);
      } else {
        out.push_back(line[i++]);
      }
    }
    return out;
  }

 private:
  std::size_t skip_literal(const std::string& line, std::size_t i) {
    const std::size_t open = line.find('(', i);
    if (line[i] != '"' || i == 0 || line[i - 1] != 'R' || open == std::string::npos) {
      return end_of_literal(line, i) + 1;
    }
    end_ = ")" + line.substr(i + 1, open - i - 1) + "\"";
    return open + 1;
  }

  std::string end_;  // of the raw string or comment that is open, else empty
};

}  // namespace

const fs::path& root() {
  static const fs::path path = HOLDFAST_SOURCE_DIR;
  return path;
}

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

const std::vector<Source>& cpp_sources() {
  static const std::vector<Source> sources = sources_that_end_with({".cpp", ".h", ".inc"});
  return sources;
}

const std::vector<Source>& cl_sources() {
  static const std::vector<Source> sources = sources_that_end_with({".cl"});
  return sources;
}

Source read_source(const std::string& path) {
  Source source{path, {}};
  std::ifstream file(root() / path);
  for (std::string line; std::getline(file, line);) source.lines.push_back(line);
  return source;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool starts_with(const std::string& text, const std::string& begin) {
  return text.rfind(begin, 0) == 0;
}

std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string included(const std::string& line, bool system) {
  const std::string begin = system ? "#include <" : "#include \"";
  if (!starts_with(line, begin)) return "";
  const std::size_t close = line.find(system ? '>' : '"', begin.size());
  return close == std::string::npos ? "" : line.substr(begin.size(), close - begin.size());
}

std::vector<std::string> code_lines(const Source& source) {
  CodeFilter filter;
  std::vector<std::string> out;
  out.reserve(source.lines.size());
  for (const std::string& line : source.lines) out.push_back(filter.filter(line));
  return out;
}

void Findings::add(const std::string& path, std::size_t line, const std::string& what) {
  list_.push_back(path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what);
}

std::string Findings::str() const {
  std::string out;
  for (const std::string& finding : list_) out += "\n  " + finding;
  return out;
}

}  // namespace holdfast::tidy
