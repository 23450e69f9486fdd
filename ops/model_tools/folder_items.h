#pragma once
// The tensors of a folder to be written, as rows of the tensors of a GGUF file. Internal to
// `convert`.

#include <functional>
#include <string>
#include <vector>

#include "shared/gguf/gguf.h"
#include "shared/huggingface/families.h"

namespace holdfast::cli {

/// One tensor of a *.safetensors file. Row r is row `source(r).row` of `source(r).tensor`; with
/// `turned` it is column r of the one source tensor. `plus_one`: the source has 1 more in each
/// element.
struct FolderItem {
  struct RowSource {
    const gguf::TensorInfo* tensor;
    std::uint64_t row;
  };
  std::string name;
  std::vector<std::uint64_t> shape;                // the last one is contiguous
  gguf::TensorType type = gguf::TensorType::kF32;  // as written: F32, F16 or BF16
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::function<RowSource(std::uint64_t)> source;
  bool plus_one = false;
  bool turned = false;
  std::uint64_t bytes() const;
};

/// The tensors to write, and how many of them lose their quantisation.
struct FolderItems {
  std::vector<FolderItem> items;  // in the file's order
  std::uint64_t quantised = 0;    // tensors that become F32
};

/// The tensors of a folder with the model of `file`. `heads` are heads of queries, `kv_heads` of
/// keys. kUnsupported: a tensor has no name in a folder of the family; kFileInvalid: tensors that
/// do not fit together.
Result<FolderItems> folder_items(const gguf::File& file, const huggingface::Family& family,
                                 std::uint64_t heads, std::uint64_t kv_heads);

/// Passes all rows to `sink` in order, some megabytes at a time. Memory: those megabytes, and a
/// `turned` tensor as a whole.
Result<void> write_item(const FolderItem& item, const std::function<Result<void>(ByteSpan)>& sink);

}  // namespace holdfast::cli
