#pragma once
// Names of the parts of a GGUF model in several files, as gguf-split gives them.

#include <optional>
#include <string>

namespace holdfast::gguf {

/// The name of a part: "…-00002-of-00003.gguf" is number 2 of 3.
struct PartName {
  std::string stem;  // the text before "-00002-of-…"
  int number = 0;
  int count = 0;
  /// Returns the path of another part.
  std::string of(int n) const;
};
/// Returns nullopt for any other name.
std::optional<PartName> part_name(const std::string& path);

}  // namespace holdfast::gguf
