#pragma once
// Reads a model folder in the form of Hugging Face's libraries (config.json, *.safetensors,
// tokenizer.json) as a gguf::File, so that all code that takes a GGUF file takes a folder.

#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

/// The part of a model that the caller reads.
enum class Contents : std::uint8_t {
  kAll,
  kShapes,  // for headers: weights in another order than GGUF's have a size and no bytes
};

/// Opens a GGUF file, the first part of a split one, or a folder as the GGUF file that a converter
/// would make of it: the same names, shapes, types, values and metadata keys. Vectors are F32, as
/// are routers and the tables of positions and token types. Other matrices keep their type and are
/// in the mapping, except those that GGUF orders otherwise (rows of heads, experts, transposed
/// ones): these are made while they are held (shared/gguf/made.h). Errors: as gguf::File::open;
/// kFileInvalid names the file of the folder and what is wrong in it; kUnsupported for a family, a
/// feature or a type of weights that no engine here runs.
Result<std::shared_ptr<const gguf::File>> open_model(const std::string& path,
                                                     Contents contents = Contents::kAll);

/// Returns what open_model left out of a folder, for users: "left out: the vision encoder, 437
/// tensors". Empty for a GGUF file.
std::vector<std::string> notes_of(const gguf::File& file);

/// Returns the format of a folder's quantised weights, for users: "GPTQ of 4 bits in groups of
/// 128". Empty for plain weights, for those that GGUF has code for code, and for a GGUF file.
std::string format_of(const gguf::File& file);

/// Returns the row with heads in halves of row `r` with heads in pairs ((p, i) becomes (i, p));
/// `head_rows` is even.
inline std::uint64_t row_in_halves(std::uint64_t r, std::uint64_t head_rows) {
  const std::uint64_t in_head = r % head_rows;
  return r - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}
/// Returns the inverse of row_in_halves.
inline std::uint64_t row_in_pairs(std::uint64_t r, std::uint64_t head_rows) {
  const std::uint64_t in_head = r % head_rows;
  const std::uint64_t half = head_rows / 2;
  return r - in_head + 2 * (in_head % half) + in_head / half;
}

/// Returns true if `path` is a folder (which open_model then reads as one).
bool is_folder(const std::string& path);

/// Returns the paths that open_model reads, in a fixed order: the files of a folder; a file itself,
/// and the other parts by name if it is a first part, whether they exist or not. kIo, kFileInvalid
/// (an index that names files outside of the folder).
Result<std::vector<std::string>> files_of(const std::string& path);

}  // namespace holdfast::huggingface
