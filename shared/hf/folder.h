#pragma once
// A model folder as Hugging Face's libraries write it (config.json,
// *.safetensors, tokenizer.json) in the shape of a gguf::File, so that
// everything that takes a GGUF file takes a folder.

#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::hf {

enum class Contents : std::uint8_t {
  kAll,
  kShapes,  // for reading headers: weights that lie in no file as GGUF orders them have a size and
            // no bytes
};

/// A GGUF file, the first part of one that was split, or a folder as the GGUF file that a converter
/// would make of it: the same names, shapes, types, values and metadata keys. Vectors are F32, as
/// are routers and the tables of positions and token types; other matrices keep
/// their type and lie in the mapping, but for those that GGUF orders otherwise
/// (rows of heads, experts, transposed ones): these are put together while they
/// are held (shared/gguf/made.h). Errors: as gguf::File::open; kFileInvalid names
/// the file of the folder and what is wrong in it; kUnsupported for a family, a
/// feature or a type of weights that no engine of ours runs.
Result<std::shared_ptr<const gguf::File>> open_model(const std::string& path,
                                                     Contents contents = Contents::kAll);

/// What open_model left out of a folder, for a user to see: "left out: the vision encoder, 437
/// tensors". Empty for a GGUF file.
std::vector<std::string> notes_of(const gguf::File& file);

/// Where row `r` of a matrix of heads in pairs lies where heads are in halves ((p, i) becomes
/// (i, p)); `head_rows` is even.
inline std::uint64_t row_in_halves(std::uint64_t r, std::uint64_t head_rows) {
  const std::uint64_t in_head = r % head_rows;
  return r - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}
/// The inverse.
inline std::uint64_t row_in_pairs(std::uint64_t r, std::uint64_t head_rows) {
  const std::uint64_t in_head = r % head_rows;
  const std::uint64_t half = head_rows / 2;
  return r - in_head + 2 * (in_head % half) + in_head / half;
}

/// True if `path` is a folder (which open_model then reads as one).
bool is_folder(const std::string& path);

/// The files of a folder that open_model reads, in a fixed order, as paths; of a file itself, and
/// by its name the other parts of a first one, there or not. kIo, kFileInvalid (an index that names
/// files outside of the folder).
Result<std::vector<std::string>> files_of(const std::string& path);

}  // namespace holdfast::hf
