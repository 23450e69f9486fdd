#pragma once
// A GGUF model in several files, as gguf-split writes it: "NAME-00001-of-00003.gguf" and so on. The
// first has the keys, each some of the tensors; split.no (from 0), split.count and
// split.tensors.count say how they belong together.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::hf {

/// What a name says of a part: "…-00002-of-00003.gguf" is number 2 of 3.
struct PartName {
  std::string stem;  // what stands before "-00002-of-…"
  int number = 0;
  int count = 0;
  /// The path of another part.
  std::string of(int n) const;
};
/// nullopt for any other name.
std::optional<PartName> part_name(const std::string& path);

/// The parts that belong to `first`, opened from `path`, as one file without keys of the split.
/// kFileInvalid: not the first part, another name than gguf-split gives, parts of unlike models.
/// kIo: a part is missing.
Result<std::shared_ptr<const gguf::File>> open_parts(const std::string& path,
                                                     std::shared_ptr<const gguf::File> first);

}  // namespace holdfast::hf
