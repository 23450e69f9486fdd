#pragma once
// File types ("q4_k_m") and the tensor types that they mean: which tensors get more bits, and what
// a row that does not fill blocks of 256 falls back to. The choices are those of llama.cpp's
// quantizer (format facts of src/llama-quant.cpp, 2026), so that files are comparable.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::cli {

/// A file type: its name, its number in files, and the type of most matrices.
struct QuantMix {
  std::string_view name;    // "q4_k_m"
  gguf::TensorType base;    // of most matrices
  std::uint32_t file_type;  // general.file_type
};

/// Finds a mix by its name, case-insensitively; nullopt for an unknown name.
std::optional<QuantMix> find_quant_mix(std::string_view name);
/// "f32, f16, …", in a fixed order, for help and errors.
std::string quant_mix_names();

/// Properties of the model that the choice depends on, besides the tensor.
struct MixModel {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  bool tied_embeddings = false;
  std::int64_t experts = 0;  // 0: dense
};

/// True for vectors, norms, routers and position tables: small, and left alone by every quantizer.
bool stays_unquantized(std::string_view tensor, const std::vector<std::uint64_t>& dims);

/// The type of one tensor in a model of `model`'s shape if its rows divided into any blocks; F32
/// for a tensor that stays unquantized. Pure.
gguf::TensorType preferred_type(const QuantMix& mix, const MixModel& model, std::string_view tensor,
                                const std::vector<std::uint64_t>& dims);

/// The same, but a type whose blocks the rows divide into. Pure.
gguf::TensorType mixed_type(const QuantMix& mix, const MixModel& model, std::string_view tensor,
                            const std::vector<std::uint64_t>& dims);

}  // namespace holdfast::cli
