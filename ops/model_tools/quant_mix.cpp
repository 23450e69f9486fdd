#include "ops/model_tools/quant_mix.h"

#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include "shared/gguf/quants.h"

namespace holdfast::cli {
namespace {

using gguf::TensorType;

constexpr QuantMix kMixes[] = {
    {"f32", TensorType::kF32, 0},        {"f16", TensorType::kF16, 1},
    {"bf16", TensorType::kBF16, 32},     {"q8_0", TensorType::kQ8_0, 7},
    {"q4_0", TensorType::kQ4_0, 2},      {"q4_1", TensorType::kQ4_1, 3},
    {"q5_0", TensorType::kQ5_0, 8},      {"q5_1", TensorType::kQ5_1, 9},
    {"q2_k", TensorType::kQ2_K, 10},     {"q3_k_s", TensorType::kQ3_K, 11},
    {"q3_k_m", TensorType::kQ3_K, 12},   {"q3_k_l", TensorType::kQ3_K, 13},
    {"q4_k_s", TensorType::kQ4_K, 14},   {"q4_k_m", TensorType::kQ4_K, 15},
    {"q5_k_s", TensorType::kQ5_K, 16},   {"q5_k_m", TensorType::kQ5_K, 17},
    {"q6_k", TensorType::kQ6_K, 18},     {"iq4_nl", TensorType::kIQ4_NL, 25},
    {"iq4_xs", TensorType::kIQ4_XS, 30}, {"mxfp4_moe", TensorType::kMXFP4, 38},
};

bool is_plain(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

/// The first and last eighth of the layers and every third between get more bits.
bool use_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::int64_t layer_of(std::string_view tensor) {
  std::int64_t layer = 0;
  if (tensor.starts_with("blk.")) {
    std::from_chars(tensor.data() + 4, tensor.data() + tensor.size(), layer);
  }
  return layer;
}

TensorType output_type(const QuantMix& mix, std::uint64_t columns) {
  if (columns % gguf::type_traits(mix.base)->block_elements != 0) return TensorType::kQ8_0;
  return mix.base == TensorType::kQ8_0 ? TensorType::kQ8_0 : TensorType::kQ6_K;
}

/// Where a tensor stands.
struct Position {
  std::int64_t layer, layers;
  std::int64_t group;  // heads that share a key
};

/// Layers or models in which a tensor gets more bits.
enum class When {
  kAlways,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kMoreBits,
  kGroup
};

bool holds(When when, const Position& p) {
  switch (when) {
    case When::kAlways:
      return true;
    case When::kFirstTwo:
      return p.layer < 2;
    case When::kFirstFour:
      return p.layer < 4;
    case When::kFirstSixteenth:
      return p.layer < p.layers / 16;
    case When::kFirstEighth:
      return p.layer < p.layers / 8;
    case When::kMoreBits:
      return use_more_bits(p.layer, p.layers);
    case When::kGroup:
      return p.group >= 4;
  }
  return false;
}

struct Rule {
  std::string_view mix;
  When when;
  TensorType type;
  std::optional<TensorType> otherwise = std::nullopt;  // none: that of the mix
};

constexpr Rule kAttnV[] = {
    {"q2_k", When::kGroup, TensorType::kQ4_K, TensorType::kQ3_K},
    {"q3_k_m", When::kFirstTwo, TensorType::kQ5_K, TensorType::kQ4_K},
    {"q3_k_l", When::kAlways, TensorType::kQ5_K},
    {"iq4_nl", When::kGroup, TensorType::kQ5_K},
    {"iq4_xs", When::kGroup, TensorType::kQ5_K},
    {"q4_k_m", When::kMoreBits, TensorType::kQ6_K},
    {"q5_k_m", When::kMoreBits, TensorType::kQ6_K},
    {"q4_k_s", When::kFirstFour, TensorType::kQ5_K},
};

constexpr Rule kFfnDown[] = {
    {"q2_k", When::kAlways, TensorType::kQ3_K},
    {"q3_k_m", When::kFirstSixteenth, TensorType::kQ5_K, TensorType::kQ4_K},
    {"q3_k_l", When::kAlways, TensorType::kQ5_K},
    {"q4_k_m", When::kMoreBits, TensorType::kQ6_K},
    {"q5_k_m", When::kMoreBits, TensorType::kQ6_K},
    {"iq4_nl", When::kFirstEighth, TensorType::kQ5_K},
    {"iq4_xs", When::kFirstEighth, TensorType::kQ5_K},
    {"q4_k_s", When::kFirstEighth, TensorType::kQ5_K},
};

constexpr Rule kAttnOutput[] = {
    {"q2_k", When::kAlways, TensorType::kQ3_K},
    {"q3_k_m", When::kAlways, TensorType::kQ4_K},
    {"q3_k_l", When::kAlways, TensorType::kQ5_K},
};

TensorType type_by_rule(std::span<const Rule> rules, const QuantMix& mix,
                        const Position& position) {
  for (const Rule& rule : rules) {
    if (rule.mix != mix.name) continue;
    return holds(rule.when, position) ? rule.type : rule.otherwise.value_or(mix.base);
  }
  return mix.base;
}

TensorType attn_v_type(const QuantMix& mix, const MixModel& model, std::int64_t layer) {
  if (model.experts == 8) return TensorType::kQ8_0;  // small next to eight experts
  const std::int64_t group = model.heads / model.kv_heads;
  const TensorType type = type_by_rule(kAttnV, mix, {layer, model.layers, group});
  // The 70B shape: eight heads share this small matrix, so more bits cost nothing there.
  const bool is_70b = model.layers == 80 && model.heads != model.kv_heads;
  const bool small = type == TensorType::kQ3_K || type == TensorType::kQ4_K;
  return is_70b && small ? TensorType::kQ5_K : type;
}

/// The type of one matrix for q, k and v.
TensorType attn_qkv_type(const QuantMix& mix) {
  if (mix.name == "q3_k_m" || mix.name == "q3_k_l") return TensorType::kQ4_K;
  if (mix.name == "q4_k_m") return TensorType::kQ5_K;
  if (mix.name == "q5_k_m") return TensorType::kQ6_K;
  return mix.base;
}

TensorType ffn_down_type(const QuantMix& mix, std::int64_t layer, std::int64_t layers) {
  return type_by_rule(kFfnDown, mix, {layer, layers, 0});
}

TensorType attn_output_type(const QuantMix& mix, const MixModel& model) {
  const bool raised = mix.base == TensorType::kQ2_K || mix.base == TensorType::kQ3_K ||
                      mix.base == TensorType::kQ4_K || mix.base == TensorType::kIQ4_NL ||
                      mix.base == TensorType::kIQ4_XS;
  if (model.experts == 8 && raised) return TensorType::kQ5_K;
  return type_by_rule(kAttnOutput, mix, {});
}

/// A type of blocks of 32 for rows that no block of 256 fills; F16 if even those do not fit.
TensorType fallback(TensorType type, std::uint64_t columns) {
  if (columns % gguf::type_traits(type)->block_elements == 0) return type;
  TensorType smaller = TensorType::kF16;
  switch (type) {
    case TensorType::kIQ4_XS:
      smaller = TensorType::kIQ4_NL;
      break;
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
      smaller = TensorType::kQ4_0;
      break;
    case TensorType::kQ4_K:
      smaller = TensorType::kQ5_0;
      break;
    case TensorType::kQ5_K:
      smaller = TensorType::kQ5_1;
      break;
    case TensorType::kQ6_K:
      smaller = TensorType::kQ8_0;
      break;
    default:
      break;
  }
  const std::uint32_t block = gguf::type_traits(smaller)->block_elements;
  return columns % block == 0 ? smaller : TensorType::kF16;
}

}  // namespace

std::optional<QuantMix> find_quant_mix(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const QuantMix& mix : kMixes) {
    if (mix.name == lower) return mix;
  }
  return std::nullopt;
}

std::string quant_mix_names() {
  std::string out;
  for (const QuantMix& mix : kMixes) out += (out.empty() ? "" : ", ") + std::string(mix.name);
  return out;
}

bool stays_unquantized(std::string_view tensor, const std::vector<std::uint64_t>& dims) {
  constexpr std::string_view kParts[] = {
      "_norm.",       "ffn_gate_inp.", "position_embd.", "token_types.", "rope_freqs",
      "rope_factors", "ssm_conv1d",    "attn_rel_b",     "altup_",       "per_layer_model_proj"};
  if (dims.size() < 2 || !tensor.ends_with(".weight")) return true;
  for (const std::string_view part : kParts) {
    if (tensor.find(part) != std::string_view::npos) return true;
  }
  return false;
}

static TensorType layer_type(const QuantMix& mix, const MixModel& model, std::string_view tensor) {
  const std::int64_t layer = layer_of(tensor);
  if (tensor.ends_with("attn_v.weight")) return attn_v_type(mix, model, layer);
  if (tensor.ends_with("attn_k.weight") && model.experts == 8) return TensorType::kQ8_0;
  if (tensor.ends_with("attn_qkv.weight")) return attn_qkv_type(mix);
  if (tensor.find("ffn_down") != std::string_view::npos) {
    return ffn_down_type(mix, layer, model.layers);
  }
  if (tensor.ends_with("attn_output.weight")) return attn_output_type(mix, model);
  return mix.base;
}

TensorType preferred_type(const QuantMix& mix, const MixModel& model, std::string_view tensor,
                          const std::vector<std::uint64_t>& dims) {
  if (stays_unquantized(tensor, dims)) return TensorType::kF32;
  if (is_plain(mix.base)) return mix.base;
  CHECK(model.heads > 0 && model.kv_heads > 0);
  if (mix.base == TensorType::kMXFP4) {  // as gpt-oss is published: experts alone
    const bool experts = tensor.find("_exps.") != std::string_view::npos;
    return experts ? mix.base : TensorType::kQ8_0;
  }
  const bool is_output =
      tensor == "output.weight" || (model.tied_embeddings && tensor == "token_embd.weight");
  return is_output ? output_type(mix, dims[0]) : layer_type(mix, model, tensor);
}

TensorType mixed_type(const QuantMix& mix, const MixModel& model, std::string_view tensor,
                      const std::vector<std::uint64_t>& dims) {
  return fallback(preferred_type(mix, model, tensor, dims), dims.empty() ? 1 : dims[0]);
}

}  // namespace holdfast::cli
