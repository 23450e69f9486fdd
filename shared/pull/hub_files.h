#pragma once
// Which files of a repository are the model that is wanted. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::pull {

/// A file as the hub lists it.
struct HubFile {
  std::string path;  // in the repository
  std::int64_t bytes = -1;
  std::string sha256;    // of large files
  std::string git_sha1;  // of the others
};

/// The files of one model.
struct HubChoice {
  std::vector<HubFile> files;
  std::string model;  // the file to load; empty: the folder
};

/// Chooses by `variant`, a quantization ("Q4_K_M") or a file; empty: Q4_K_M, else the usual next
/// one, or the only one. All parts of a split file are taken. Without GGUF files the folder in
/// Hugging Face's form is taken: its tensors, configuration and tokenizer. kNotFound names what
/// there is; kFileInvalid: parts are missing; kUnsupported: there is no model.
Result<HubChoice> choose_files(const std::vector<HubFile>& all, std::string_view variant);

}  // namespace holdfast::pull
