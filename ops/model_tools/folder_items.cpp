#include "ops/model_tools/folder_items.h"

#include <algorithm>
#include <cstring>

#include "shared/gguf/parse.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/folder.h"

namespace holdfast::cli {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;
using huggingface::Change;

constexpr std::uint64_t kChunkBytes = 8u << 20;

bool is_plain(TensorType type) {
  return gguf::type_traits(type)->block_elements == 1;
}

class Planner {
 public:
  Planner(const gguf::File& file, const huggingface::Family& family, std::uint64_t heads,
          std::uint64_t kv_heads)
      : file_(file), family_(family), heads_(heads), kv_heads_(kv_heads) {}

  Result<FolderItems> run() {
    for (const TensorInfo& tensor : file_.tensors()) {
      if (tensor.name.starts_with("rope_f")) continue;  // their numbers are in config.json
      const auto named = huggingface::to_huggingface(family_, tensor.name);
      if (!named) {
        return Error{Errc::kUnsupported, "convert " + std::string(file_.name()) + ": tensor " +
                                             tensor.name + " has no name in a " +
                                             family_.model_type + " folder"};
      }
      if (tensor.elements() == 0) return invalid(tensor, "has no elements");
      if (!is_plain(tensor.type)) ++out_.quantised;
      HOLDFAST_CHECKED(add(tensor, *named));
    }
    return std::move(out_);
  }

 private:
  Error invalid(const TensorInfo& tensor, const std::string& why) const {
    return {Errc::kFileInvalid,
            "convert " + std::string(file_.name()) + ": tensor " + tensor.name + " " + why};
  }

  static FolderItem item_of(const TensorInfo& tensor, const std::string& name) {
    FolderItem item;
    item.name = name;
    for (std::uint32_t d = tensor.n_dims; d-- > 0;) item.shape.push_back(tensor.dims[d]);
    item.type = is_plain(tensor.type) ? tensor.type : TensorType::kF32;
    item.columns = tensor.dims[0];
    item.rows = tensor.elements() / tensor.dims[0];
    const TensorInfo* from = &tensor;
    item.source = [from](std::uint64_t r) { return FolderItem::RowSource{from, r}; };
    return item;
  }

  Result<void> refuse_read_only(const TensorInfo& tensor, Change change) const {
    if (change != Change::kMxfp4 && change != Change::kMxfp4Scales &&
        change != Change::kTransposeEach && change != Change::kBiases) {
      return {};
    }
    return Error{Errc::kUnsupported, "convert " + std::string(file_.name()) + ": tensor " +
                                         tensor.name + ": experts of this family can be read " +
                                         "from a folder, but are not written to one"};
  }

  Result<void> add(const TensorInfo& tensor, const huggingface::Named& named) {
    HOLDFAST_CHECKED(refuse_read_only(tensor, named.change));
    if (named.parts > 1) return add_parts(tensor, named);
    if (named.name.find('#') != std::string::npos) return add_experts(tensor, named);
    FolderItem item = item_of(tensor, named.name);
    const TensorInfo* from = &tensor;
    switch (named.change) {
      case Change::kPlusOne:
        item.plus_one = true;
        item.type = TensorType::kF32;
        break;
      case Change::kVector:
        item.shape.insert(item.shape.begin(), 1);
        break;
      case Change::kTranspose:
        if (tensor.n_dims != 2) return invalid(tensor, "is no matrix");
        item.turned = true;
        std::swap(item.shape[0], item.shape[1]);
        std::swap(item.rows, item.columns);
        break;
      case Change::kPermuteQ:
      case Change::kPermuteK: {
        if (tensor.n_dims == 1) std::swap(item.rows, item.columns);  // a row for each element
        const std::uint64_t heads = named.change == Change::kPermuteQ ? heads_ : kv_heads_;
        if (heads == 0 || item.rows % (2 * heads) != 0) {
          return invalid(tensor, "has " + std::to_string(item.rows) + " rows, expected " +
                                     std::to_string(heads) + " heads of an even size");
        }
        const std::uint64_t head_rows = item.rows / heads;
        item.source = [from, head_rows](std::uint64_t r) {
          return FolderItem::RowSource{from, huggingface::row_in_pairs(r, head_rows)};
        };
        break;
      }
      case Change::kMxfp4:  // refused above
      case Change::kMxfp4Scales:
      case Change::kTransposeEach:
      case Change::kBiases:
      case Change::kStateRows:
      case Change::kStateColumns:
      case Change::kStateConv:
      case Change::kStateRate:
      case Change::kNone:
      case Change::kFloat32:
        break;
    }
    out_.items.push_back(std::move(item));
    return {};
  }

  /// Adds GGUF's one tensor of experts as the folder's many.
  Result<void> add_experts(const TensorInfo& tensor, const huggingface::Named& named) {
    if (tensor.n_dims != 3) return invalid(tensor, "is no stack of matrices");
    const TensorInfo* from = &tensor;
    for (std::uint64_t e = 0; e < tensor.dims[2]; ++e) {
      std::string name = named.name;
      name.replace(name.find('#'), 1, std::to_string(e));
      FolderItem item = item_of(tensor, name);
      item.shape.erase(item.shape.begin());
      item.rows = tensor.dims[1];
      const std::uint64_t first = e * item.rows;
      item.source = [from, first](std::uint64_t r) {
        return FolderItem::RowSource{from, first + r};
      };
      out_.items.push_back(std::move(item));
    }
    return {};
  }

  /// Adds GGUF's two tensors as the folder's one, at the position of the first part.
  Result<void> add_parts(const TensorInfo& tensor, const huggingface::Named& named) {
    HOLDFAST_TRY(const std::vector<const TensorInfo*> all, parts_of(tensor, named));
    if (named.part != 0) return {};
    if (tensor.n_dims < 2) return invalid(tensor, "is no matrix");
    FolderItem item = item_of(tensor, named.name);
    const bool plain = std::all_of(all.begin(), all.end(), [&](const TensorInfo* part) {
      return part->type == all[0]->type && is_plain(part->type);
    });
    if (!plain) item.type = TensorType::kF32;
    const std::uint64_t each = tensor.dims[1];
    item.shape[item.shape.size() - 2] = all.size() * each;
    item.rows *= all.size();
    item.source = [all, each](std::uint64_t r) {
      const std::uint64_t in_expert = r % (all.size() * each);
      return FolderItem::RowSource{all[in_expert / each],
                                   r / (all.size() * each) * each + in_expert % each};
    };
    out_.items.push_back(std::move(item));
    return {};
  }

  /// All parts of the folder's tensor, which must be of one shape.
  Result<std::vector<const TensorInfo*>> parts_of(const TensorInfo& tensor,
                                                  const huggingface::Named& named) {
    std::vector<const TensorInfo*> all(named.parts, nullptr);
    for (const TensorInfo& other : file_.tensors()) {
      const auto its = huggingface::to_huggingface(family_, other.name);
      if (its && its->name == named.name) all[its->part] = &other;
    }
    for (const TensorInfo* part : all) {
      if (part == nullptr) return invalid(tensor, "is there without its other half");
      const bool same =
          part->n_dims == tensor.n_dims && std::equal(part->dims, part->dims + 4, tensor.dims);
      if (!same) return invalid(*part, "has not the shape of its other half");
    }
    return all;
  }

  const gguf::File& file_;
  const huggingface::Family& family_;
  std::uint64_t heads_;
  std::uint64_t kv_heads_;
  FolderItems out_;
};

/// Writes row `r` of the item, in the item's type, to `out`.
Result<void> read_row(const FolderItem& item, std::uint64_t r, std::byte* out) {
  const FolderItem::RowSource source = item.source(r);
  const TensorInfo& t = *source.tensor;
  const std::uint64_t row_bytes = *gguf::row_bytes(t.type, item.columns);
  const std::byte* from = t.data.data() + source.row * row_bytes;
  if (t.type == item.type && !item.plus_one) {
    std::memcpy(out, from, row_bytes);
    return {};
  }
  auto* floats = reinterpret_cast<float*>(out);
  HOLDFAST_CHECKED(gguf::dequantize_row(t.type, from, floats, item.columns));
  for (std::uint64_t c = 0; item.plus_one && c < item.columns; ++c) floats[c] -= 1;
  return {};
}

/// Writes a matrix transposed, a row at a time. Models with such matrices are small.
Result<void> write_turned(const FolderItem& item,
                          const std::function<Result<void>(ByteSpan)>& sink) {
  const TensorInfo& t = *item.source(0).tensor;
  const std::uint64_t size = *gguf::row_bytes(item.type, 1);
  std::vector<float> floats;
  const std::byte* from = t.data.data();
  if (t.type != item.type) {
    floats.resize(t.elements());
    HOLDFAST_CHECKED(gguf::dequantize_row(t.type, from, floats.data(), floats.size()));
    from = reinterpret_cast<const std::byte*>(floats.data());
  }
  std::vector<std::byte> row(item.columns * size);
  for (std::uint64_t r = 0; r < item.rows; ++r) {
    for (std::uint64_t c = 0; c < item.columns; ++c) {
      std::memcpy(row.data() + c * size, from + (c * item.rows + r) * size, size);
    }
    HOLDFAST_CHECKED(sink(row));
  }
  return {};
}

}  // namespace

std::uint64_t FolderItem::bytes() const {
  return rows * columns * *gguf::row_bytes(type, 1);
}

Result<FolderItems> folder_items(const gguf::File& file, const huggingface::Family& family,
                                 std::uint64_t heads, std::uint64_t kv_heads) {
  return Planner(file, family, heads, kv_heads).run();
}

Result<void> write_item(const FolderItem& item, const std::function<Result<void>(ByteSpan)>& sink) {
  if (item.turned) return write_turned(item, sink);
  const std::uint64_t row_bytes = item.columns * *gguf::row_bytes(item.type, 1);
  const std::uint64_t step = std::max<std::uint64_t>(kChunkBytes / row_bytes, 1);
  std::vector<std::byte> chunk(std::min(step, item.rows) * row_bytes);
  for (std::uint64_t first = 0; first < item.rows; first += step) {
    const std::uint64_t n = std::min(step, item.rows - first);
    for (std::uint64_t i = 0; i < n; ++i) {
      HOLDFAST_CHECKED(read_row(item, first + i, chunk.data() + i * row_bytes));
    }
    HOLDFAST_CHECKED(sink(ByteSpan(chunk).first(n * row_bytes)));
  }
  return {};
}

}  // namespace holdfast::cli
