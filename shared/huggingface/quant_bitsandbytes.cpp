// bitsandbytes: NF4 and FP4 (a table of 16 values times the largest magnitude of a block, which may
// be quantised itself), and INT8 with a scale for each row. Sources of the layout: the papers
// (Dettmers et al., arXiv:2305.14314 for NF4 and nested magnitudes, arXiv:2208.07339 for INT8), the
// pages "4-bit quantization" and "8-bit quantizers" of bitsandbytes for the tensors:
//   4 bits: w[i] = quant_map[code i] * absmax[i / blocksize], i over all weights row by row, the
//           first code of a byte in its high nibble;
//           nested: absmax[b] = nested_quant_map[absmax code b] * nested_absmax[b / nested
//           blocksize] + nested_offset
//   8 bits: w[row][column] = weight * SCB[row] / 127
// The sizes of 4 bits are JSON in a tensor: weight.quant_state.bitsandbytes__nf4.

#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/gguf/parse.h"
#include "shared/huggingface/json_file.h"
#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorType;
using nlohmann::json;

constexpr std::uint64_t kTable = 16;         // values of a quant_map
constexpr std::uint64_t kNestedTable = 256;  // of a nested one
constexpr std::uint64_t kStateBytesMax = 4096;
constexpr const char* kStates[] = {"weight.quant_state.bitsandbytes__nf4",
                                   "weight.quant_state.bitsandbytes__fp4"};

/// The magnitudes of blocks: floats, or codes with a table and magnitudes of their own.
struct Magnitudes {
  StoredTensor stored;
  bool nested = false;
  FloatsOf table, outer;
  std::uint64_t block = 256;  // of a nested one
  float offset = 0;

  float operator[](std::uint64_t b) const {
    if (!nested) return FloatsOf(stored)[b];
    const auto code = static_cast<std::uint8_t>(stored.data[b]);
    return table[code] * outer[b / block] + offset;
  }
};

/// 4 bits as halves, each to 2^-11 of its value.
class FourBitMatrix final : public CodedMatrix {
 public:
  FourBitMatrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns, ByteSpan codes,
                const FloatsOf& table, std::uint64_t block, const Magnitudes& magnitudes)
      : CodedMatrix(name, {TensorType::kF16, rows, columns}),
        codes_(codes),
        table_(table),
        block_(block),
        magnitudes_(magnitudes) {}

  Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const override {
    std::vector<float> values(form().columns);
    float table[kTable];
    for (std::uint64_t i = 0; i < kTable; ++i) table[i] = table_[i];
    for (std::uint64_t r = first; r < first + n; ++r, out += row_bytes()) {
      const std::uint64_t from = r * values.size(), to = from + values.size();
      for (std::uint64_t i = from; i < to;) {
        const float most = magnitudes_[i / block_];
        const std::uint64_t end = std::min(to, (i / block_ + 1) * block_);
        for (; i < end; ++i) {
          const auto pair = static_cast<std::uint8_t>(codes_[i / 2]);
          values[i - from] = table[i % 2 == 0 ? pair >> 4 : pair & 15] * most;
        }
      }
      if (put_halves(values.data(), values.size(), out)) continue;
      return name().invalid("weight.absmax",
                            "or its table holds a NaN, or makes a weight larger "
                            "than 65504, in output " +
                                std::to_string(r));
    }
    return {};
  }

 private:
  ByteSpan codes_;
  FloatsOf table_;
  std::uint64_t block_;
  Magnitudes magnitudes_;
};

/// INT8 in blocks of Q8_0: exact numbers, SCB / 127 as halves (to 2^-11 of its value).
class Int8Matrix final : public GroupedMatrix {
 public:
  Int8Matrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns, ByteSpan codes,
             const FloatsOf& most)
      : GroupedMatrix(name, rows, columns, ColumnGroups::in_order(columns, columns), {-128, 127}),
        codes_(codes),
        most_(most) {}

 protected:
  const char* scale_part() const override { return "SCB"; }

  Result<void> tile(std::uint64_t first, std::uint64_t n, const std::vector<std::uint32_t>&,
                    std::int16_t* numbers, float* scales) const override {
    for (std::uint64_t i = 0; i < n; ++i) scales[i] = most_[first + i] / 127;
    const std::byte* from = codes_.data() + first * form().columns;
    for (std::uint64_t i = 0; i < n * form().columns; ++i) {
      numbers[i] = static_cast<std::int8_t>(from[i]);
    }
    return {};
  }

 private:
  ByteSpan codes_;
  FloatsOf most_;
};

/// The JSON of a layer's sizes.
struct State {
  std::uint64_t rows = 0, columns = 0;
  std::uint64_t block = 64;
  bool nested = false;
  std::uint64_t nested_block = 256;
  float offset = 0;
};

bool is_size(const json& value) {
  return value.is_number_unsigned() && value > 0 && value <= (std::uint64_t{1} << 40);
}

Result<State> read_state(const LayerTensors& layer, const char* part) {
  HOLDFAST_TRY(const StoredTensor* stored, layer.need(part, "the sizes", {"U8"}));
  if (stored->data.size() > kStateBytesMax) {
    return layer.name().invalid(part, "has " + std::to_string(stored->data.size()) +
                                          " bytes, expected at most " +
                                          std::to_string(kStateBytesMax));
  }
  const std::string_view text(reinterpret_cast<const char*>(stored->data.data()),
                              stored->data.size());
  HOLDFAST_TRY(const json in, parse_object(text, layer.name().layer + "." + part));
  State out;
  const json shape = in.value("shape", json());
  if (!shape.is_array() || shape.size() != 2 || !is_size(shape[0]) || !is_size(shape[1])) {
    return layer.name().invalid(
        part, "has the shape " + gguf::quoted(shape.dump()) + ", expected [outputs, inputs]");
  }
  out.rows = shape[0].get<std::uint64_t>();
  out.columns = shape[1].get<std::uint64_t>();
  const json block = in.value("blocksize", json());
  const json nested = in.value("nested_blocksize", json(256U));
  const json offset = in.value("nested_offset", json(0.0));
  if (!is_size(block) || !is_size(nested) || !offset.is_number() ||
      !std::isfinite(offset.get<float>())) {
    return layer.name().invalid(part,
                                "has no blocksize, nested_blocksize or nested_offset that "
                                "are numbers");
  }
  out.block = block.get<std::uint64_t>();
  out.nested_block = nested.get<std::uint64_t>();
  out.offset = offset.get<float>();
  out.nested = layer.find("weight.nested_absmax") != nullptr;
  return out;
}

Result<Magnitudes> read_magnitudes(const LayerTensors& layer, const State& state) {
  const std::uint64_t blocks = (state.rows * state.columns + state.block - 1) / state.block;
  Magnitudes out;
  HOLDFAST_TRY(const StoredTensor* stored,
               layer.need("weight.absmax", "the magnitudes of blocks",
                          state.nested ? Dtypes{"U8"} : float_dtypes()));
  HOLDFAST_CHECKED(layer.expect("weight.absmax", {blocks},
                                "one for each block of " + std::to_string(state.block)));
  out.stored = *stored;
  if (!state.nested) return out;
  HOLDFAST_TRY(const StoredTensor* outer,
               layer.need("weight.nested_absmax", "the magnitudes of magnitudes", float_dtypes()));
  HOLDFAST_TRY(const StoredTensor* table,
               layer.need("weight.nested_quant_map", "their table", float_dtypes()));
  HOLDFAST_CHECKED(layer.expect("weight.nested_absmax",
                                {(blocks + state.nested_block - 1) / state.nested_block},
                                "one for " + std::to_string(state.nested_block) + " blocks"));
  HOLDFAST_CHECKED(layer.expect("weight.nested_quant_map", {kNestedTable}, "a value of each code"));
  out.nested = true;
  out.table = FloatsOf(*table);
  out.outer = FloatsOf(*outer);
  out.block = state.nested_block;
  out.offset = state.offset;
  return out;
}

Result<std::shared_ptr<const CodedMatrix>> four_bits(const LayerTensors& layer, const char* part) {
  HOLDFAST_TRY(const State state, read_state(layer, part));
  // The bytes may be stored as any type (bnb_4bit_quant_storage).
  HOLDFAST_TRY(const StoredTensor* codes,
               layer.need("weight", "the codes", {"U8", "I8", "F16", "BF16", "F32"}));
  HOLDFAST_TRY(const StoredTensor* table,
               layer.need("weight.quant_map", "the values of codes", float_dtypes()));
  HOLDFAST_CHECKED(layer.expect("weight.quant_map", {kTable}, "a value of each code"));
  const auto weights = checked_mul(state.rows, state.columns);
  if (!weights || *weights % 2 != 0 || codes->data.size() != *weights / 2) {
    return layer.name().invalid("weight", "has " + std::to_string(codes->data.size()) +
                                              " bytes, expected half as many as the " +
                                              shape_text({state.rows, state.columns}) +
                                              " weights of its quant_state");
  }
  HOLDFAST_TRY(const Magnitudes magnitudes, read_magnitudes(layer, state));
  return std::shared_ptr<const CodedMatrix>(
      std::make_shared<FourBitMatrix>(layer.name(), state.rows, state.columns, codes->data,
                                      FloatsOf(*table), state.block, magnitudes));
}

class BitsAndBytesReader final : public QuantisedReader {
 public:
  explicit BitsAndBytesReader(std::string format) : format_(std::move(format)) {}

  std::string format() const override { return format_; }
  std::vector<std::string_view> parts() const override {
    return {kStates[0],
            kStates[1],
            "weight.absmax",
            "weight.quant_map",
            "weight.nested_absmax",
            "weight.nested_quant_map",
            "SCB",
            "weight_format",
            "weight"};
  }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    for (const char* part : kStates) {
      if (layer.find(part) != nullptr) return four_bits(layer, part);
    }
    if (layer.find("weight.absmax") != nullptr) {
      HOLDFAST_CHECKED(layer.need(kStates[0], "the sizes", {"U8"}));
    }
    const StoredTensor* weight = layer.find("weight");
    const bool scaled = layer.find("SCB") != nullptr;
    if (weight != nullptr && dtype_bytes(weight->dtype) > 0 && !scaled) {
      return std::shared_ptr<const CodedMatrix>();
    }
    return int8(layer);
  }

 private:
  static Result<std::shared_ptr<const CodedMatrix>> int8(const LayerTensors& layer) {
    HOLDFAST_TRY(const StoredTensor* weight, layer.matrix("weight", "the numbers", {"I8"}));
    HOLDFAST_TRY(const StoredTensor* most,
                 layer.need("SCB", "the largest magnitude of each output", float_dtypes()));
    HOLDFAST_CHECKED(layer.expect("SCB", {weight->shape[0]}, "a magnitude for each output"));
    if (const StoredTensor* order = layer.find("weight_format");
        order != nullptr && (order->data.empty() || order->data[0] != std::byte{0})) {
      return layer.name().unsupported("weight_format", "is not 0, expected rows in order (row)");
    }
    return std::shared_ptr<const CodedMatrix>(std::make_shared<Int8Matrix>(
        layer.name(), weight->shape[0], weight->shape[1], weight->data, FloatsOf(*most)));
  }

  std::string format_;
};

}  // namespace

Result<std::unique_ptr<const QuantisedReader>> bitsandbytes_reader(const SchemeConfig& config) {
  HOLDFAST_TRY(const bool eight, config.flag("load_in_8bit", false));
  HOLDFAST_TRY(const bool four, config.flag("load_in_4bit", false));
  HOLDFAST_TRY(const std::string type, config.text("bnb_4bit_quant_type", "fp4"));
  if (eight == four) return config.unsupported("load_in_4bit", "one of 4 and 8 bits");
  if (four && type != "nf4" && type != "fp4") {
    return config.unsupported("bnb_4bit_quant_type", "nf4 or fp4");
  }
  HOLDFAST_TRY(const bool nested, config.flag("bnb_4bit_use_double_quant", false));
  const std::string format = eight
                                 ? "bitsandbytes' INT8"
                                 : std::string("bitsandbytes' ") + (type == "nf4" ? "NF4" : "FP4") +
                                       (nested ? " with nested scales" : "");
  return std::unique_ptr<const QuantisedReader>(std::make_unique<BitsAndBytesReader>(format));
}

}  // namespace holdfast::huggingface
