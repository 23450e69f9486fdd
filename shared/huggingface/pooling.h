#pragma once
// Reads the pooling of a sentence-transformers folder: how the vectors of a text become one. Files:
// modules.json and the Pooling module's config.json. Source:
// sentence_transformers/models/Pooling.py and SentenceTransformer.py of sentence-transformers.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/gguf/writer.h"

namespace holdfast::huggingface {

/// Returns the files that define the pooling, in their order, relative to the folder; none without
/// a modules.json.
Result<std::vector<std::string>> pooling_files(const std::string& folder);

/// Writes ARCH.pooling_type, where there is a modules.json. kFileInvalid; kUnsupported: a kind of
/// pooling or a further layer that no engine here computes. (The engine scales vectors to length 1,
/// with a Normalize module or without.)
Result<void> pooling_to_keys(const std::string& folder, const std::string& architecture,
                             gguf::Writer& writer);

/// A file of a folder with its content.
struct FolderFileText {
  std::string path;  // relative to the folder
  std::string text;
};
/// Returns the files of the pooling; none where the header names no pooling.
std::vector<FolderFileText> keys_to_pooling(const gguf::File& file);

}  // namespace holdfast::huggingface
