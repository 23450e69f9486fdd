#pragma once
// A model's content in chunks, each with its SHA-256: a machine that fetches the model from another
// one refuses a wrong chunk at once, not only the whole file in the end. The list is made while the
// whole model is hashed, so it is as trusted as that hash.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::model_index {

/// Bytes of a chunk; the last one of a file is shorter. One wrong bit costs so much again, and a
/// machine that fetches holds two of them in memory.
inline constexpr std::int64_t kChunkBytes = 4 << 20;
/// Most files and chunks of a model: a tebibyte.
inline constexpr std::size_t kChunkFilesMax = 10'000;
inline constexpr std::int64_t kChunksMax = 262'144;

/// A file of a model, with the hashes of its chunks.
struct ChunkedFile {
  std::string name;  // below the model's folder, or the file's own: "model-00001-of-00002.gguf"
  std::int64_t bytes = 0;
  std::string hashes;  // Sha256::kBytes each
  std::int64_t chunks() const { return (bytes + kChunkBytes - 1) / kChunkBytes; }
  /// Bytes of one chunk.
  std::int64_t chunk_bytes(std::int64_t chunk) const;
  /// True if these bytes are the chunk's.
  bool is_chunk(std::int64_t chunk, std::string_view content) const;
};

/// The files of a model, in the order of huggingface::files_of().
struct ChunkList {
  std::string sha;      // of the whole, as huggingface::sha256_of()
  std::string name;     // of the file, or of the folder
  bool folder = false;  // a folder in Hugging Face's form
  std::vector<ChunkedFile> files;
  std::int64_t bytes() const;
};

/// Reads a model once and returns its list; `sha` in it is what was read. `go_on` is called with
/// the bytes read so far; false ends it with kCancelled. Errors as huggingface::sha256_of();
/// kUnsupported beyond the bounds above.
Result<ChunkList> make_chunk_list(const std::string& path,
                                  const std::function<bool(std::int64_t bytes)>& go_on);

/// A list as a JSON text without hashes, and the hashes of all files, one after the other.
struct ChunkListText {
  std::string document;
  std::string hashes;
};
/// Writes a list as such a text.
ChunkListText to_text(const ChunkList& list);
/// Reads such a text, which another machine may have made: kInvalidRequest for names that lead out
/// of a folder, sizes without their hashes and lists beyond the bounds.
Result<ChunkList> parse_chunk_list(std::string_view document, std::string_view hashes);

/// Writes a list to a file, and reads it. kIo; kFileInvalid for another content.
Result<void> write_chunk_list(const std::string& file, const ChunkList& list);
Result<ChunkList> read_chunk_list(const std::string& file);

/// Reads `bytes` bytes from `offset` of the model's file number `file`. kInvalidRequest where the
/// model has no such bytes; kIo.
Result<std::string> read_range(const std::string& path, std::int64_t file, std::int64_t offset,
                               std::int64_t bytes);

}  // namespace holdfast::model_index
