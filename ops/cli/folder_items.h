#pragma once
// The tensors of a folder that is written, as rows of the tensors of a GGUF file. Internal to
// `convert`.

#include <functional>
#include <string>
#include <vector>

#include "shared/gguf/gguf.h"
#include "shared/hf/families.h"

namespace holdfast::cli {

/// One tensor of a *.safetensors file. Row r is row `place(r).row` of `place(r).tensor`; with
/// `turned` it is column r of the one tensor that there is.
struct FolderItem {
  struct Place {
    const gguf::TensorInfo* tensor;
    std::uint64_t row;
  };
  std::string name;
  std::vector<std::uint64_t> shape;                // the last one is contiguous
  gguf::TensorType type = gguf::TensorType::kF32;  // as written: F32, F16 or BF16
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::function<Place(std::uint64_t)> place;
  bool plus_one = false;
  bool turned = false;
  std::uint64_t bytes() const;
};

struct FolderItems {
  std::vector<FolderItem> items;  // in the file's order
  std::uint64_t quantised = 0;    // tensors that become F32
};

/// What the folder consists of. `heads` are those of queries and of keys. kUnsupported: a tensor
/// has no name in a folder of the family; kFileInvalid: tensors that do not fit together.
Result<FolderItems> folder_items(const gguf::File& file, const hf::Family& family,
                                 std::uint64_t heads, std::uint64_t kv_heads);

/// All rows in order, some megabytes at a time. Memory: those, and of `turned` ones the whole.
Result<void> write_item(const FolderItem& item, const std::function<Result<void>(ByteSpan)>& sink);

}  // namespace holdfast::cli
