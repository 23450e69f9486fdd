#pragma once
// A GGUF model in several files, as gguf-split writes it: "NAME-00001-of-00003.gguf" and so on. The
// first has the keys, each some of the tensors; split.no (from 0), split.count and
// split.tensors.count describe the parts.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

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

/// Opens the parts that belong to `first`, opened from `path`, as one file without keys of the
/// split. kFileInvalid: not the first part, another name than gguf-split gives, parts of different
/// models. kIo: a part is missing.
Result<std::shared_ptr<const gguf::File>> open_parts(const std::string& path,
                                                     std::shared_ptr<const gguf::File> first);

}  // namespace holdfast::huggingface
