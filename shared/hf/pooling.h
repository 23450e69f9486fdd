#pragma once
// How a folder of sentence-transformers says that one vector is made of a text's: modules.json and
// the Pooling module's config.json. Source: sentence_transformers/models/Pooling.py and
// SentenceTransformer.py of sentence-transformers.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/gguf/writer.h"

namespace holdfast::hf {

/// The files that pooling is read from, in their order, relative to the folder; none where there is
/// no modules.json.
Result<std::vector<std::string>> pooling_files(const std::string& folder);

/// ARCH.pooling_type, where there is a modules.json. kFileInvalid; kUnsupported: a way of pooling
/// or a further layer that no engine of ours computes. (Vectors are brought to length 1 by the
/// engine, with a Normalize module or without.)
Result<void> pooling_to_keys(const std::string& folder, const std::string& architecture,
                             gguf::Writer& writer);

struct FolderFileText {
  std::string path;  // relative to the folder
  std::string text;
};
/// The inverse: nothing where the header names no pooling.
std::vector<FolderFileText> keys_to_pooling(const gguf::File& file);

}  // namespace holdfast::hf
