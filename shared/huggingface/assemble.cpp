#include "shared/huggingface/assemble.h"

#include <algorithm>
#include <cstring>

#include "shared/gguf/parse.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/coded_matrix.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;

constexpr std::uint64_t kVectorMax = 16u << 20;  // elements; copied as float32 when opened

TensorType type_of(std::string_view dtype) {
  if (dtype == "F32") return TensorType::kF32;
  return dtype == "F16" ? TensorType::kF16 : TensorType::kBF16;
}

/// Returns a vector as float32, with 1 added in the weights' own precision if `plus_one`.
std::vector<std::byte> to_f32(const StoredTensor& stored, std::uint64_t n, bool plus_one) {
  std::vector<std::byte> out(n * sizeof(float));
  floats_of(stored, out.data());
  auto* values = reinterpret_cast<float*>(out.data());
  for (std::uint64_t i = 0; plus_one && i < n; ++i) {
    values[i] += 1;
    if (stored.dtype == "F16") values[i] = gguf::half_to_float(gguf::float_to_half(values[i]));
  }
  return out;
}

/// Transposes [inputs][outputs] to [outputs][inputs], in squares that fit into a cache.
template <class T>
void transpose(const std::byte* in, std::uint64_t rows, std::uint64_t columns, std::byte* out) {
  constexpr std::uint64_t kSquare = 64;
  for (std::uint64_t r0 = 0; r0 < rows; r0 += kSquare) {
    for (std::uint64_t c0 = 0; c0 < columns; c0 += kSquare) {
      for (std::uint64_t c = c0; c < std::min(columns, c0 + kSquare); ++c) {
        for (std::uint64_t r = r0; r < std::min(rows, r0 + kSquare); ++r) {
          std::memcpy(out + (c * rows + r) * sizeof(T), in + (r * columns + c) * sizeof(T),
                      sizeof(T));
        }
      }
    }
  }
}

TensorInfo info_of(const std::string& name, const StoredTensor& stored) {
  TensorInfo info;
  info.name = name;
  info.type = stored.coded ? stored.coded->form().type : type_of(stored.dtype);
  info.n_dims = static_cast<std::uint32_t>(stored.shape.size());
  std::copy(stored.shape.rbegin(), stored.shape.rend(), info.dims);
  info.data = stored.data;
  return info;
}

}  // namespace

void floats_of(const StoredTensor& stored, std::byte* out) {
  const std::uint64_t n = stored.data.size() / dtype_bytes(stored.dtype);
  CHECK(gguf::dequantize_row(type_of(stored.dtype), stored.data.data(),
                             reinterpret_cast<float*>(out), n)
            .has_value());
}

void permute_rows(ByteSpan data, std::uint64_t rows, std::uint64_t heads, std::byte* out) {
  const std::uint64_t row_bytes = data.size() / rows;
  const std::uint64_t head_rows = rows / heads;
  for (std::uint64_t r = 0; r < rows; ++r) {
    std::memcpy(out + r * row_bytes, data.data() + row_in_halves(r, head_rows) * row_bytes,
                row_bytes);
  }
}

Error Assembler::invalid(const std::string& tensor, const std::string& why) const {
  return {Errc::kFileInvalid,
          "read model " + where_ + ": tensor " + gguf::quoted(tensor) + " " + why};
}

Result<void> Assembler::check(const std::string& name, const StoredTensor& stored,
                              bool as_bytes) const {
  if (stored.coded) return {};  // its reader has checked it
  if (as_bytes ? stored.dtype != "U8" : dtype_bytes(stored.dtype) == 0) {
    return Error{Errc::kUnsupported, "read model " + where_ + ": tensor " + gguf::quoted(name) +
                                         " is of type " + stored.dtype + ", expected " +
                                         (as_bytes ? "U8" : "F32, F16 or BF16")};
  }
  if (stored.shape.empty()) return invalid(name, "is a scalar");
  if (stored.data.empty()) return invalid(name, "has no elements");
  if (stored.shape.size() == 1 && stored.shape[0] > kVectorMax) {
    return invalid(name, "is a vector of " + std::to_string(stored.shape[0]) +
                             " elements, expected at most " + std::to_string(kVectorMax));
  }
  return {};
}

bool Assembler::leaves_out(const std::string& name) {
  if (name.ends_with("rotary_emb.inv_freq")) return true;  // every engine computes it
  const LeftOut* rule = left_out(family_, name, sizes_.layers);
  if (rule != nullptr && rule->what != nullptr) ++left_out_[rule->what];
  return rule != nullptr;
}

Result<void> Assembler::take(const std::string& name, const StoredTensor& stored) {
  if (leaves_out(name)) return {};
  const std::vector<Named> all = to_gguf(family_, name);
  if (all.empty()) {
    return Error{Errc::kUnsupported, "read model " + where_ + ": tensor " + gguf::quoted(name) +
                                         " is no part of a " + family_.model_type +
                                         " model as we know it"};
  }
  if (all[0].name == "output.weight" && sizes_.tied) return {};
  const Change change = all[0].change;
  HOLDFAST_CHECKED(check(name, stored, change == Change::kMxfp4 || change == Change::kMxfp4Scales));
  for (const Named& named : all) {
    HOLDFAST_CHECKED(add_source(name, stored, named, change == Change::kMxfp4Scales));
  }
  return {};
}

Result<void> Assembler::add_source(const std::string& name, const StoredTensor& stored,
                                   const Named& named, bool is_scale) {
  if (named.expert >= sizes_.experts) {
    return invalid(name, "is of expert " + std::to_string(named.expert) + ", expected " +
                             std::to_string(sizes_.experts) + " experts, counted from 0");
  }
  if (is_scale) {
    scales_.try_emplace(named.name, SourceTensor{name, stored, named});
    return {};
  }
  const auto [at, added] =
      sources_[named.name].try_emplace(named.expert, SourceTensor{name, stored, named});
  if (added) return {};
  return invalid(name, "is there twice: " + gguf::quoted(at->second.name) + " says the same (" +
                           named.name + " in GGUF)");
}

Result<Assembled> Assembler::finish() {
  for (const auto& [name, sources] : sources_) {
    if (sources.begin()->first >= 0) {
      HOLDFAST_CHECKED(stacked(name, sources));
    } else {
      HOLDFAST_CHECKED(whole(name, sources.begin()->second));
    }
  }
  for (const auto& [name, source] : scales_) {
    if (sources_.contains(name)) continue;
    return invalid(source.name, "is there without the codes that its scales are for");
  }
  add_factors("rope_freqs.weight", sizes_.rope_factors);
  add_factors("rope_factors_long.weight", sizes_.long_factors);
  add_factors("rope_factors_short.weight", sizes_.short_factors);
  for (const auto& [what, n] : left_out_) {
    out_.notes.push_back("left out: " + what + ", " + std::to_string(n) +
                         (n == 1 ? " tensor" : " tensors"));
  }
  return std::move(out_);
}

Result<void> Assembler::whole(const std::string& name, const SourceTensor& source) {
  const StoredTensor& stored = source.stored;
  const Change change = source.named.change;
  if (change == Change::kMxfp4) return mxfp4(name, source);
  TensorInfo info = info_of(name, stored);
  if (stored.coded) return coded(source, std::move(info));
  if (change >= Change::kStateRows) return of_states(source, std::move(info));
  if (change == Change::kTransposeEach) return turned_each(source, std::move(info));
  if (change == Change::kBiases) return biases(source, std::move(info));
  if (change == Change::kTranspose) return turned(source, std::move(info));
  if (source.named.parts > 1) return part_of(source, std::move(info));
  return in_order(source, std::move(info));
}

/// Adds a tensor whose elements keep their order, but for heads that are permuted.
Result<void> Assembler::in_order(const SourceTensor& source, TensorInfo info) {
  const StoredTensor& stored = source.stored;
  const Change change = source.named.change;
  if (change == Change::kVector && info.n_dims == 2) {
    if (stored.shape[0] != 1) {
      return invalid(source.name, "is " + shape_text(stored.shape) + ", expected one row");
    }
    info.n_dims = 1;
  }
  widen_vector(stored, change == Change::kPlusOne, info);
  if (change == Change::kPermuteQ || change == Change::kPermuteK) {
    return permuted(source, std::move(info));
  }
  if (change == Change::kFloat32 && info.type != TensorType::kF32) {
    info.type = TensorType::kF32;
    return add_made(std::move(info), info.elements() * sizeof(float),
                    [stored](std::byte* out) -> Result<void> {
                      floats_of(stored, out);
                      return {};
                    });
  }
  out_.tensors.push_back(std::move(info));
  return {};
}

/// Makes the elements of a vector float32; other tensors stay as they are.
void Assembler::widen_vector(const StoredTensor& stored, bool plus_one, TensorInfo& info) {
  const bool is_unchanged = info.type == TensorType::kF32 && !plus_one;
  if (info.n_dims != 1 || is_unchanged) return;
  out_.vectors.push_back(to_f32(stored, info.dims[0], plus_one));
  info.data = out_.vectors.back();
  info.type = TensorType::kF32;
}

/// Returns the heads whose rows are permuted. kFileInvalid: the rows are not whole heads.
Result<std::uint64_t> Assembler::heads_of(const SourceTensor& source) const {
  const bool q = source.named.change == Change::kPermuteQ;
  const auto heads = static_cast<std::uint64_t>(q ? sizes_.heads : sizes_.kv_heads);
  const std::uint64_t rows = source.stored.shape.front();
  if (rows == heads * static_cast<std::uint64_t>(sizes_.head_dim)) return heads;
  return invalid(source.name, "has " + std::to_string(rows) + " rows, expected " +
                                  std::to_string(heads) + " heads of " +
                                  std::to_string(sizes_.head_dim));
}

Result<void> Assembler::permuted(const SourceTensor& source, TensorInfo info) {
  HOLDFAST_TRY(const std::uint64_t heads, heads_of(source));
  const std::uint64_t rows = source.stored.shape.front();
  const ByteSpan from = info.data;
  if (info.n_dims > 1) {
    return add_made(std::move(info), from.size(), [=](std::byte* out) -> Result<void> {
      permute_rows(from, rows, heads, out);
      return {};
    });
  }
  std::vector<std::byte> bytes(from.size());
  permute_rows(from, rows, heads, bytes.data());
  out_.vectors.push_back(std::move(bytes));
  info.data = out_.vectors.back();
  out_.tensors.push_back(std::move(info));
  return {};
}

Result<void> Assembler::turned(const SourceTensor& source, TensorInfo info) {
  if (info.n_dims != 2) {
    return invalid(source.name,
                   "is " + shape_text(source.stored.shape) + ", expected [inputs, outputs]");
  }
  const std::uint64_t rows = source.stored.shape[0], columns = source.stored.shape[1];
  info.dims[0] = rows;
  info.dims[1] = columns;
  const ByteSpan from = info.data;
  const bool four = info.type == TensorType::kF32;
  return add_made(std::move(info), from.size(), [=](std::byte* out) -> Result<void> {
    if (four) transpose<std::uint32_t>(from.data(), rows, columns, out);
    if (!four) transpose<std::uint16_t>(from.data(), rows, columns, out);
    return {};
  });
}

/// Adds the upper or the lower half of the rows; with three dimensions that of each expert's.
Result<void> Assembler::part_of(const SourceTensor& source, TensorInfo info) {
  const std::uint64_t parts = source.named.parts;
  if (info.n_dims < 2 || info.dims[1] % parts != 0) {
    return invalid(source.name, "is " + shape_text(source.stored.shape) +
                                    ", expected the rows of two matrices one above the other");
  }
  if (info.n_dims == 3 && info.dims[2] != static_cast<std::uint64_t>(sizes_.experts)) {
    return invalid(source.name, "is " + shape_text(source.stored.shape) + ", expected " +
                                    std::to_string(sizes_.experts) + " experts");
  }
  info.dims[1] /= parts;
  const std::uint64_t each = info.data.size() / info.dims[2] / parts;
  const ByteSpan from = info.data.subspan(source.named.part * each);
  if (info.n_dims == 2) {  // unchanged in the file
    info.data = from.first(each);
    out_.tensors.push_back(std::move(info));
    return {};
  }
  const std::uint64_t experts = info.dims[2];
  return add_made(std::move(info), experts * each, [=](std::byte* out) -> Result<void> {
    for (std::uint64_t e = 0; e < experts; ++e) {
      std::memcpy(out + e * each, from.data() + e * each * parts, each);
    }
    return {};
  });
}

Result<void> Assembler::stacked(const std::string& name, const SourceTensors& sources) {
  const SourceTensor& first = sources.begin()->second;
  std::int64_t next = 0;
  std::vector<StoredTensor> parts;
  for (const auto& [expert, source] : sources) {
    if (expert != next) break;
    if (source.stored.shape != first.stored.shape || source.stored.dtype != first.stored.dtype) {
      return invalid(source.name, "is " + source.stored.dtype + " " +
                                      shape_text(source.stored.shape) + ", expected " +
                                      first.stored.dtype + " " + shape_text(first.stored.shape) +
                                      " like " + gguf::quoted(first.name));
    }
    parts.push_back(source.stored);
    ++next;
  }
  if (next != sizes_.experts) {
    std::string missing = to_huggingface(family_, name)->name;  // it was found by this rule
    missing.replace(missing.find('#'), 1, std::to_string(next));
    return invalid(missing,
                   "is missing, expected experts 0 to " + std::to_string(sizes_.experts - 1));
  }
  if (first.stored.shape.size() != 2) {
    return invalid(first.name, "is " + shape_text(first.stored.shape) + ", expected a matrix");
  }
  TensorInfo info = info_of(name, first.stored);
  info.n_dims = 3;
  info.dims[2] = parts.size();
  const std::uint64_t each = parts[0].data.size();
  return add_made(std::move(info), parts.size() * each, [=](std::byte* out) -> Result<void> {
    for (const StoredTensor& part : parts) {
      if (part.coded) HOLDFAST_CHECKED(read_all(*part.coded, out));
      if (!part.coded) std::memcpy(out, part.data.data(), each);
      out += each;
    }
    return {};
  });
}

Result<void> Assembler::add_made(TensorInfo info, std::uint64_t bytes, gguf::MadeBytes::Make make) {
  if (contents_ == Contents::kShapes) {
    info.data = ByteSpan(static_cast<const std::byte*>(nullptr), bytes);
  } else {
    HOLDFAST_TRY(auto made, gguf::MadeBytes::create(bytes, std::move(make)));
    info.data = made->span();
    info.made = made.get();
    out_.made.push_back(std::move(made));
  }
  out_.tensors.push_back(std::move(info));
  return {};
}

void Assembler::add_factors(const char* name, const std::vector<float>& factors) {
  if (factors.empty()) return;
  std::vector<std::byte> bytes(factors.size() * sizeof(float));
  std::memcpy(bytes.data(), factors.data(), bytes.size());
  TensorInfo info;
  info.name = name;
  info.n_dims = 1;
  info.dims[0] = factors.size();
  out_.vectors.push_back(std::move(bytes));
  info.data = out_.vectors.back();
  out_.tensors.push_back(std::move(info));
}

}  // namespace holdfast::huggingface
