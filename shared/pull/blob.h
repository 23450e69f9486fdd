#pragma once
// Blobs: files that clients send by their hash, before a model is made of them. The gateway
// receives them, the fetcher stores them. They talk over a socket of the fetcher's, one question a
// connection; a line is a JSON object:
//
//   {"verb": "find", "digest": "sha256:HEX"}                  how long the blob is
//   {"verb": "store", "digest": "sha256:HEX", "bytes": N}     the bytes follow, then the end; N
//                                                             may be absent
//
// The answer to either is one line: {"bytes": N}, or {"error": {"code", "message"}}, which may come
// before the end of the bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/pull/job.h"

namespace holdfast::pull {

/// The socket's name below STATE/run.
inline constexpr const char* kBlobSocket = "blobs.sock";
/// Most bytes of a question or an answer.
inline constexpr std::size_t kBlobLineBytesMax = 4'096;
/// The folder of blobs, below that of models.
inline constexpr std::string_view kBlobFolder = "blobs";

/// Returns the 64 digits of "sha256:HEX" or "sha256-HEX"; nullopt for another text.
std::optional<std::string> digest_digits(std::string_view digest);

/// Returns a blob's name below the folder of blobs: "sha256-HEX".
std::string blob_name(std::string_view digits);

/// A blob under the name that it has in a model.
struct NamedBlob {
  std::string name;
  std::string digits;  // of its SHA-256
};

/// Files of which a model is made, from blobs.
struct BlobModel {
  std::vector<PullFile> files;  // without URL; paths are below `folder`
  std::string folder;           // below that of models
  std::string model;            // the file to load, below `folder`; empty: the folder
  std::string source;           // names this set of files: "blobs:HEX"
};

/// Arranges blobs as a model: one file is loaded where it lies; several get their names in a folder
/// of their own. kInvalidRequest for a name that is no plain relative path, and for more than
/// 2,000 files; errors of choose_files().
Result<BlobModel> model_of_blobs(std::vector<NamedBlob> blobs);

/// True for a source that model_of_blobs() made.
bool is_blob_source(std::string_view source);

}  // namespace holdfast::pull
