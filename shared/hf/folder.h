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
  kShapes,  // for reading headers: weights whose rows GGUF orders otherwise stay
            // in their own order
};

/// A GGUF file, or a folder as the GGUF file that a converter would make of it:
/// the same names, shapes, types, values and metadata keys. Vectors are F32;
/// matrices keep their type and lie in the mapping, but for those that need
/// another order of rows, which are copied. Errors: as gguf::File::open;
/// kFileInvalid names the file of the folder and what is wrong in it;
/// kUnsupported for a family, a feature or a type of weights that no engine of
/// ours runs.
Result<std::shared_ptr<const gguf::File>> open_model(const std::string& path,
                                                     Contents contents = Contents::kAll);

/// Rows of a matrix in heads from halves to pairs ((p, i) becomes (i, p)) or back. `rows` is a
/// multiple of 2 x heads (not checked), rows are of equal size.
std::vector<std::byte> permute_rows(ByteSpan data, std::uint64_t rows, std::uint64_t heads,
                                    bool to_pairs);

/// True if `path` is a folder (which open_model then reads as one).
bool is_folder(const std::string& path);

/// The files of a folder that open_model reads, in a fixed order, as paths; of
/// a file itself alone. kIo, kFileInvalid (an index that names files outside of
/// the folder).
Result<std::vector<std::string>> files_of(const std::string& path);

}  // namespace holdfast::hf
