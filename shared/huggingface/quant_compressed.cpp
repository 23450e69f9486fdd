// compressed-tensors: whole numbers or small floats with scales by matrix, channel, group or block.
// Sources of the layout: the README of compressed-tensors and the fields of its
// quantization_config (config_groups: num_bits, type, symmetric, strategy, group_size, actorder,
// block_structure; format; ignore):
//   whole numbers: w = weight_scale * (q - weight_zero_point)
//     pack-quantized: weight_packed has q + 2^(bits - 1) without gaps, low bits first in words,
//       along the inputs; weight_zero_point the same along the outputs; weight_shape the sizes
//     int-quantized, naive-quantized: weight has q as bytes
//   floats: E4M3 in weight (quant_fp8.cpp), E2M1 in weight_packed (quant_fp4.cpp)
// Which layers are quantised is said by their tensors; a layer's group of config_groups is the one
// that its tensors fit, so that its targets and the ignore list need not be read.

#include <nlohmann/json.hpp>
#include <optional>

#include "shared/gguf/parse.h"
#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::size_t kGroupsMax = 256;
constexpr std::string_view kFormats[] = {
    "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision"};

/// The weights' part of a group of config_groups.
struct Weights {
  unsigned bits = 8;
  bool whole = true;  // type int; else float
  bool symmetric = true;
  bool act_order = false;  // a layer may have weight_g_idx
  std::string strategy;
  std::uint64_t group_size = 0;
  std::uint64_t block_rows = 0, block_columns = 0;
};

/// The sizes and the tensors of a layer of whole numbers.
struct IntLayer {
  std::uint64_t rows = 0, columns = 0;
  unsigned bits = 8;
  bool packed = false;
  bool packed_zeros = false;
  ByteSpan codes, zeros;  // no zeros: 0
  FloatsOf scales;
  bool one_scale = false;  // of all rows
};

class IntMatrix final : public GroupedMatrix {
 public:
  IntMatrix(const LayerName& name, const IntLayer& layer, const ColumnGroups& groups,
            const NumberRange& range)
      : GroupedMatrix(name, layer.rows, layer.columns, groups, range), layer_(layer) {}

 protected:
  const char* scale_part() const override { return "weight_scale"; }

  Result<void> tile(std::uint64_t first, std::uint64_t n,
                    const std::vector<std::uint32_t>& group_of, std::int16_t* numbers,
                    float* scales) const override {
    const std::uint64_t count = groups().count;
    std::vector<int> zeros(count);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t row = first + i;
      for (std::uint64_t g = 0; g < count; ++g) {
        zeros[g] = zero(row, g);
        scales[i * count + g] = layer_.scales[layer_.one_scale ? 0 : row * count + g];
      }
      std::int16_t* to = numbers + i * layer_.columns;
      for (std::uint64_t k = 0; k < layer_.columns; ++k) {
        to[k] = static_cast<std::int16_t>(code(row, k) - zeros[group_of[k]]);
      }
    }
    return {};
  }

 private:
  int middle() const { return 1 << (layer_.bits - 1); }

  int code(std::uint64_t row, std::uint64_t k) const {
    if (!layer_.packed) return static_cast<std::int8_t>(layer_.codes[row * layer_.columns + k]);
    const std::byte* words = layer_.codes.data() + row * (layer_.codes.size() / layer_.rows);
    return static_cast<int>(code_at(words, k, layer_.bits)) - middle();
  }

  int zero(std::uint64_t row, std::uint64_t g) const {
    if (layer_.zeros.empty()) return 0;
    const std::uint64_t count = groups().count;
    if (!layer_.packed_zeros) {
      return static_cast<std::int8_t>(layer_.zeros[layer_.one_scale ? 0 : row * count + g]);
    }
    const std::uint64_t bit = row * layer_.bits;  // 4 or 8 bits: in one word
    const std::uint32_t word = word_at(layer_.zeros.data(), bit / 32 * count + g);
    const std::uint32_t mask = (1u << layer_.bits) - 1;
    return static_cast<int>(word >> bit % 32 & mask) - middle();
  }

  IntLayer layer_;
};

std::uint64_t parts_of(std::uint64_t n, std::uint64_t each) {
  return (n + each - 1) / each;
}

class CompressedReader final : public QuantisedReader {
 public:
  CompressedReader(std::string format, std::vector<Weights> groups)
      : format_(std::move(format)), groups_(std::move(groups)) {}

  std::string format() const override {
    const Weights& first = groups_[0];
    std::string out = "compressed-tensors, " + format_ + ": " + (first.whole ? "int" : "float") +
                      " of " + std::to_string(first.bits) + " bits";
    if (first.group_size > 0) out += " in groups of " + std::to_string(first.group_size);
    return out + (groups_.size() > 1 ? ", and others" : "");
  }
  std::vector<std::string_view> parts() const override {
    return {"weight",       "weight_packed", "weight_scale",       "weight_zero_point",
            "weight_shape", "weight_g_idx",  "weight_global_scale"};
  }
  std::vector<std::string_view> unused_parts() const override {
    return {"input_scale",
            "input_zero_point",
            "input_global_scale",
            "output_scale",
            "output_zero_point",
            "q_scale",
            "k_scale",
            "v_scale"};
  }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    const StoredTensor* packed = layer.find("weight_packed");
    if (packed != nullptr && packed->dtype == "U8") return float4(layer);
    if (packed != nullptr) return ints(layer, "weight_packed");
    const StoredTensor* weight = layer.find("weight");
    if (weight != nullptr && weight->dtype == "I8") return ints(layer, "weight");
    if (weight != nullptr && weight->dtype == "F8_E4M3") return float8(layer);
    HOLDFAST_CHECKED(layer.need("weight", "the weights", {"F32", "F16", "BF16", "I8", "F8_E4M3"}));
    if (layer.find("weight_scale") == nullptr) return std::shared_ptr<const CodedMatrix>();
    return layer.name().unsupported("weight", "is of type " + weight->dtype +
                                                  " and has scales, expected I8, F8_E4M3 or "
                                                  "weight_packed; save the model compressed");
  }

 private:
  static Result<std::shared_ptr<const CodedMatrix>> float4(const LayerTensors& layer) {
    const Fp4Parts parts = {"weight_packed", "weight_scale", "weight_global_scale", true};
    const StoredTensor* scales = layer.find("weight_scale");
    const bool exponents = scales != nullptr && scales->dtype != "F8_E4M3";
    return exponents ? mxfp4_matrix(layer, parts) : nvfp4_matrix(layer, parts);
  }

  Result<std::shared_ptr<const CodedMatrix>> float8(const LayerTensors& layer) const {
    Result<std::shared_ptr<const CodedMatrix>> last = no_group(layer, "weight");
    for (const Weights& group : groups_) {
      if (group.whole || group.bits != 8) continue;
      Fp8Scales scales;
      scales.block_rows = group.block_rows;
      scales.block_columns = group.block_columns;
      if (group.group_size > 0) scales = {"weight_scale", 1, group.group_size};
      last = fp8_matrix(layer, scales);
      if (last.has_value()) return last;
    }
    return last;
  }

  Result<std::shared_ptr<const CodedMatrix>> ints(const LayerTensors& layer,
                                                  const char* part) const {
    Result<std::shared_ptr<const CodedMatrix>> last = no_group(layer, part);
    for (const Weights& group : groups_) {
      if (!group.whole) continue;
      last = ints_of(layer, part, group);
      if (last.has_value()) return last;
    }
    return last;
  }

  static Error no_group(const LayerTensors& layer, const char* part) {
    return layer.name().unsupported(
        part, "is of type " + layer.find(part)->dtype +
                  ", but no group of quantization_config.config_groups has such weights");
  }

  static Result<std::shared_ptr<const CodedMatrix>> ints_of(const LayerTensors& layer,
                                                            const char* part,
                                                            const Weights& group) {
    IntLayer out;
    out.bits = group.bits;
    out.packed = std::string_view(part) == "weight_packed";
    HOLDFAST_TRY(const StoredTensor* codes,
                 layer.matrix(part, "the codes", {out.packed ? "I32" : "I8"}));
    out.codes = codes->data;
    out.rows = codes->shape[0];
    out.columns = codes->shape[1];
    if (out.packed) {
      HOLDFAST_TRY(out.columns, packed_columns(layer, *codes, group.bits));
    }
    const bool by_group = group.strategy == "group" || group.strategy == "tensor_group";
    out.one_scale = group.strategy == "tensor";
    ColumnGroups groups =
        ColumnGroups::in_order(out.columns, by_group ? group.group_size : out.columns);
    HOLDFAST_TRY(const StoredTensor* scales,
                 layer.need("weight_scale", "the scales", float_dtypes()));
    out.scales = FloatsOf(*scales);
    if (out.one_scale) {
      HOLDFAST_CHECKED(layer.one_float("weight_scale", "the scale"));
    } else {
      HOLDFAST_CHECKED(
          layer.expect("weight_scale", {out.rows, groups.count},
                       "a scale for each output" + std::string(by_group ? " and group" : "")));
    }
    HOLDFAST_CHECKED(read_zeros(layer, groups.count, out));
    HOLDFAST_CHECKED(read_order(layer, group, out.columns, groups));
    const int middle = 1 << (group.bits - 1);
    const NumberRange range = group.symmetric ? NumberRange{-middle, middle - 1}
                                              : NumberRange{1 - 2 * middle, 2 * middle - 1};
    return std::shared_ptr<const CodedMatrix>(
        std::make_shared<IntMatrix>(layer.name(), out, groups, range));
  }

  /// Returns the columns that weight_shape says; checks that the codes have them.
  static Result<std::uint64_t> packed_columns(const LayerTensors& layer, const StoredTensor& codes,
                                              unsigned bits) {
    HOLDFAST_TRY(const StoredTensor* sizes,
                 layer.need("weight_shape", "the sizes", {"I64", "I32"}));
    HOLDFAST_CHECKED(layer.expect("weight_shape", {2}, "outputs and inputs"));
    std::uint64_t shape[2];
    for (std::uint64_t i = 0; i < 2; ++i) {
      const bool wide = sizes->dtype == "I64";
      shape[i] = word_at(sizes->data.data(), wide ? 2 * i : i);
      if (wide && word_at(sizes->data.data(), 2 * i + 1) != 0) shape[i] = 0;
    }
    const std::uint64_t words = shape[1] / 32 * bits + parts_of(shape[1] % 32 * bits, 32);
    if (shape[1] > 0 && codes.shape == std::vector<std::uint64_t>{shape[0], words}) return shape[1];
    return layer.name().invalid(
        "weight_packed", "is " + shape_text(codes.shape) + ", expected the words of codes of " +
                             std::to_string(bits) + " bits for " +
                             shape_text({shape[0], shape[1]}) + ", the sizes in weight_shape");
  }

  /// Finds the zero points: packed along the outputs, or as bytes like the scales.
  static Result<void> read_zeros(const LayerTensors& layer, std::uint64_t count, IntLayer& out) {
    const StoredTensor* zeros = layer.find("weight_zero_point");
    if (zeros == nullptr) return {};
    HOLDFAST_CHECKED(layer.need("weight_zero_point", "the zero points", {"I32", "I8"}));
    out.zeros = zeros->data;
    out.packed_zeros = zeros->dtype == "I32";
    if (out.packed_zeros) {
      if (!out.packed || out.one_scale) {
        return layer.name().unsupported("weight_zero_point", "is of type I32, expected I8");
      }
      return layer.expect("weight_zero_point", {parts_of(out.rows * out.bits, 32), count},
                          "codes of all outputs for each group");
    }
    if (out.one_scale) {
      if (zeros->data.size() == 1) return {};
      return layer.name().invalid("weight_zero_point",
                                  "is " + shape_text(zeros->shape) + ", expected one zero point");
    }
    return layer.expect("weight_zero_point", {out.rows, count}, "one for each scale");
  }

  static Result<void> read_order(const LayerTensors& layer, const Weights& group,
                                 std::uint64_t columns, ColumnGroups& groups) {
    if (layer.find("weight_g_idx") == nullptr) return {};
    HOLDFAST_TRY(const StoredTensor* index,
                 layer.need("weight_g_idx", "the group of each input", {"I32"}));
    HOLDFAST_CHECKED(layer.expect("weight_g_idx", {columns}, "a group for each input"));
    groups.index = index->data.data();
    groups.index_part = "weight_g_idx";
    groups.ordered = !group.act_order;
    groups.may_be_unset = true;
    return {};
  }

  std::string format_;
  std::vector<Weights> groups_;
};

Result<void> read_strategy(const SchemeConfig& config, Weights& out) {
  HOLDFAST_TRY(out.strategy, config.text("strategy", "tensor"));
  HOLDFAST_TRY(const std::int64_t each, config.whole("group_size", 0));
  if (out.strategy == "group" || out.strategy == "tensor_group") {
    if (each <= 0) return config.unsupported("group_size", "the size of groups");
    out.group_size = static_cast<std::uint64_t>(each);
    return {};
  }
  if (out.strategy == "block") {
    const json block = config.object().value("block_structure", json());
    const auto is_size = [](const json& n) { return n.is_number_unsigned() && n > 0; };
    if (!block.is_array() || block.size() != 2 || !is_size(block[0]) || !is_size(block[1])) {
      return config.unsupported("block_structure", "[rows, columns] of a block");
    }
    out.block_rows = std::min<std::uint64_t>(block[0].get<std::uint64_t>(), 1u << 30);
    out.block_columns = std::min<std::uint64_t>(block[1].get<std::uint64_t>(), 1u << 30);
    if (!out.whole) return {};
  }
  if (out.strategy == "tensor" || out.strategy == "channel") return {};
  return config.unsupported(
      "strategy", out.whole ? "tensor, channel or group" : "tensor, channel, group or block");
}

Result<Weights> read_weights(const SchemeConfig& config) {
  Weights out;
  HOLDFAST_TRY(const std::int64_t bits, config.whole("num_bits", 8));
  if (bits != 4 && bits != 8) return config.unsupported("num_bits", "4 or 8");
  out.bits = static_cast<unsigned>(bits);
  HOLDFAST_TRY(const std::string type, config.text("type", "int"));
  if (type != "int" && type != "float") return config.unsupported("type", "int or float");
  out.whole = type == "int";
  HOLDFAST_TRY(out.symmetric, config.flag("symmetric", true));
  if (config.has("actorder")) {
    const json& order = config.object().at("actorder");
    out.act_order = order == "group" || order == true;
  }
  HOLDFAST_CHECKED(read_strategy(config, out));
  return out;
}

/// Refuses options that change weights in ways that no reader here undoes.
Result<void> refuse_options(const SchemeConfig& config) {
  if (config.has("sparsity_config")) {
    const json& sparsity = config.object().at("sparsity_config");
    const json format = sparsity.is_object() ? sparsity.value("format", json("dense")) : json();
    if (format != "dense") return config.unsupported("sparsity_config", "the format dense");
  }
  if (config.has("transform_config")) {
    const json& transform = config.object().at("transform_config");
    const bool none =
        transform.is_object() &&
        (transform.empty() || transform.value("config_groups", json(1)) == json::object());
    if (!none) return config.unsupported("transform_config", "none: weights without rotations");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const QuantisedReader>> compressed_tensors_reader(
    const SchemeConfig& config) {
  HOLDFAST_TRY(const std::string format, config.text("format", ""));
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats)) {
    std::string names;
    for (const std::string_view name : kFormats)
      names += (names.empty() ? "" : ", ") + std::string(name);
    return config.unsupported("format", "one of " + names);
  }
  HOLDFAST_CHECKED(refuse_options(config));
  const json groups = config.object().value("config_groups", json());
  if (!groups.is_object() || groups.size() > kGroupsMax) {
    return config.unsupported("config_groups", "an object of at most 256 groups");
  }
  std::vector<Weights> out;
  for (const auto& [name, group] : groups.items()) {
    const json weights = group.is_object() ? group.value("weights", json()) : json();
    if (weights.is_null()) continue;
    const std::string where = config.where() + ".config_groups." + name + ".weights";
    if (!weights.is_object()) {
      return Error{Errc::kFileInvalid, "read " + where + " is no object"};
    }
    HOLDFAST_TRY(Weights one, read_weights(SchemeConfig(weights, where)));
    out.push_back(std::move(one));
  }
  if (out.empty()) return config.unsupported("config_groups", "a group with weights");
  return std::unique_ptr<const QuantisedReader>(
      std::make_unique<CompressedReader>(format, std::move(out)));
}

}  // namespace holdfast::huggingface
