#pragma once

// The source tree as text, for the rules that a compiler does not check.

#include <filesystem>
#include <string>
#include <vector>

namespace holdfast::tidy {

struct Source {
  std::string path;  // from the root, "control/core/machine.h"
  std::vector<std::string> lines;
};

/// The root of the checkout.
const std::filesystem::path& root();

/// Paths of all files of the checkout from its root, without builds and states.
const std::vector<std::string>& all_files();

/// All .cpp, .h and .inc files.
const std::vector<Source>& cpp_sources();

/// All .cl files: the kernels of devices.
const std::vector<Source>& cl_sources();

Source read_source(const std::string& path);
bool ends_with(const std::string& text, const std::string& end);
bool starts_with(const std::string& text, const std::string& begin);

/// The width of a UTF-8 line in code points.
std::size_t columns(const std::string& line);

/// Returns what stands between the quotes of `#include "…"` (ours) or, if asked for, `<…>`, else
/// empty.
std::string included(const std::string& line, bool system = false);

/// All lines without comments of both kinds and without what stands in literals, raw ones too.
std::vector<std::string> code_lines(const Source& source);

/// Findings of one rule, "path:line: what", so that all of them are printed and not only the first.
class Findings {
 public:
  /// Line 0: the file as a whole.
  void add(const std::string& path, std::size_t line, const std::string& what);
  std::string str() const;
  bool empty() const { return list_.empty(); }

 private:
  std::vector<std::string> list_;
};

}  // namespace holdfast::tidy
