#pragma once
// The models of a machine by what is in them: files and folders below a node's roots, with the
// SHA-256 of their content. A daemon on another machine names a model by its hash, as paths mean
// nothing there.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/huggingface/stamp.h"

namespace holdfast::model_index {

/// A model that was found.
struct Entry {
  std::string sha;   // as huggingface::sha256_of
  std::string path;  // absolute
  huggingface::Stamp stamp;
};

/// Finds the models below `roots`: GGUF files (of a file in parts the first part stands for all)
/// and folders with config.json. Files whose stamp is that of an entry of `before` are not read
/// again; `begin` is called before one is. What cannot be read is left out. Reads every new file
/// once, about a second for each two GB.
std::vector<Entry> scan(const std::vector<std::string>& roots, const std::vector<Entry>& before,
                        const std::function<void(const std::string& path)>& begin);

/// Writes the index to a file (0600), whole or not at all. kIo.
Result<void> write(const std::string& file, const std::vector<Entry>& entries);
/// Reads an index. Empty where there is no file, or none of this form.
std::vector<Entry> read(const std::string& file);
/// Finds a model by its hash; the first of several copies that is there.
std::optional<Entry> find(const std::vector<Entry>& entries, const std::string& sha);

}  // namespace holdfast::model_index
