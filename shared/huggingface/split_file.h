#pragma once
// A GGUF model in several files, as gguf-split writes it: "NAME-00001-of-00003.gguf" and so on. The
// first has the keys, each some of the tensors; split.no (from 0), split.count and
// split.tensors.count describe the parts.

#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

/// Opens the parts that belong to `first`, opened from `path`, as one file without keys of the
/// split. kFileInvalid: not the first part, another name than gguf-split gives, parts of different
/// models. kIo: a part is missing.
Result<std::shared_ptr<const gguf::File>> open_parts(const std::string& path,
                                                     std::shared_ptr<const gguf::File> first);

}  // namespace holdfast::huggingface
