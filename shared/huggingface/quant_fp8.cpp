// FP8: weights as floats of 8 bits (E4M3) with one scale for all, for each row, or for each block.
// Sources of the layout: OCP 8-bit Floating Point Specification 1.0 for the numbers, the model card
// of DeepSeek-V3 and the page "Fine-grained FP8" of transformers for weight_scale_inv and
// weight_block_size, OCP Microscaling 1.0 for scales that are powers of two (E8M0):
//   w[row][column] = weight[row][column] * scale[row / block rows][column / block columns]
// The name weight_scale_inv means the inverse of the quantiser's factor: it multiplies here too.

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shared/gguf/quants.h"
#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorType;

const std::array<float, 256>& e4m3_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = e4m3_value(static_cast<std::uint8_t>(i));
    return out;
  }();
  return table;
}

bool are_exponents(const StoredTensor& scales) {
  return scales.dtype == "F8_E8M0" || scales.dtype == "U8";
}

/// Which scale a row and a column have: scale[row / rows * stride + column / columns].
struct ScaleGrid {
  std::uint64_t rows = 1;     // of a scale
  std::uint64_t columns = 1;  // of a scale
  std::uint64_t stride = 0;   // scales in a row of the grid; 0: all rows have the same
};

/// E4M3 times a power of two is exact as bfloat16; times another scale it is rounded to a half, to
/// 2^-11 of its value.
class Fp8Matrix final : public CodedMatrix {
 public:
  Fp8Matrix(const LayerName& name, const MatrixForm& form, ByteSpan codes,
            const StoredTensor& scales, const char* scale_part, const ScaleGrid& grid)
      : CodedMatrix(name, form),
        codes_(codes),
        scales_(scales),
        scale_part_(scale_part),
        grid_(grid) {}

  Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const override {
    std::vector<float> values(form().columns);
    for (std::uint64_t r = first; r < first + n; ++r, out += row_bytes()) {
      HOLDFAST_CHECKED(read_row(r, values));
      if (put(values, out)) continue;
      return name().invalid("weight",
                            "holds a code of no number, or a weight larger than 65504, "
                            "in output " +
                                std::to_string(r));
    }
    return {};
  }

 private:
  float scale(std::uint64_t i) const {
    if (!are_exponents(scales_)) return FloatsOf(scales_)[i];
    const auto exponent = static_cast<int>(scales_.data[i]);
    return exponent == 255 ? NAN : std::ldexp(1.0f, exponent - 127);
  }

  Result<void> read_row(std::uint64_t r, std::vector<float>& values) const {
    const auto* codes = codes_.data() + r * form().columns;
    const std::uint64_t row = r / grid_.rows * grid_.stride;
    for (std::uint64_t k = 0; k < values.size();) {
      const std::uint64_t at = row + k / grid_.columns;
      const float s = scale(at);
      if (!std::isfinite(s)) {
        return name().invalid(scale_part_, "holds a NaN or infinity at element " +
                                               std::to_string(at) + ", expected a scale");
      }
      const std::uint64_t end =
          std::min<std::uint64_t>((k / grid_.columns + 1) * grid_.columns, values.size());
      for (; k < end; ++k) values[k] = e4m3_table()[static_cast<std::size_t>(codes[k])] * s;
    }
    return {};
  }

  bool put(const std::vector<float>& values, std::byte* out) const {
    if (form().type == TensorType::kF16) return put_halves(values.data(), values.size(), out);
    bool good = true;
    for (const float value : values) {
      good = good && std::isfinite(value);
      const std::uint16_t brief = gguf::float_to_bf16(value);
      std::memcpy(out, &brief, sizeof brief);
      out += sizeof brief;
    }
    return good;
  }

  ByteSpan codes_;
  StoredTensor scales_;
  const char* scale_part_;
  ScaleGrid grid_;
};

std::uint64_t parts_of(std::uint64_t n, std::uint64_t each) {
  return (n + each - 1) / each;
}

/// Finds the grid of a layer's scales. kFileInvalid: another shape.
Result<ScaleGrid> grid_of(const LayerTensors& layer, const Fp8Scales& scales, std::uint64_t rows,
                          std::uint64_t columns) {
  const std::vector<std::uint64_t>& shape = layer.find(scales.part)->shape;
  if (scales.block_rows > 0) {
    const std::uint64_t each =
        scales.block_columns > 0 ? scales.block_columns : columns;  // of a block
    const std::vector<std::uint64_t> expected = {parts_of(rows, scales.block_rows),
                                                 parts_of(columns, each)};
    HOLDFAST_CHECKED(layer.expect(scales.part, expected,
                                  "a scale for each block of " + std::to_string(scales.block_rows) +
                                      " rows and " + std::to_string(each) + " columns"));
    return ScaleGrid{scales.block_rows, each, expected[1]};
  }
  std::uint64_t n = 1;
  for (const std::uint64_t d : shape) n *= d;  // those of a checked tensor
  const bool of_rows = n == rows && !shape.empty() && shape[0] == rows;
  if (n == 1) return ScaleGrid{1, columns, 0};
  if (of_rows) return ScaleGrid{1, columns, 1};
  return layer.name().invalid(scales.part, "is " + shape_text(shape) +
                                               ", expected one scale, or [" + std::to_string(rows) +
                                               ", 1]: one for each output");
}

class Fp8Reader final : public QuantisedReader {
 public:
  Fp8Reader(std::uint64_t rows, std::uint64_t columns) : rows_(rows), columns_(columns) {}

  std::string format() const override {
    if (rows_ == 0) return "FP8 (E4M3)";
    return "FP8 (E4M3) in blocks of " + std::to_string(rows_) + " by " + std::to_string(columns_);
  }
  std::vector<std::string_view> parts() const override {
    return {"weight", "weight_scale_inv", "weight_scale"};
  }
  std::vector<std::string_view> unused_parts() const override {
    return {"input_scale", "activation_scale", "output_scale", "q_scale", "k_scale", "v_scale"};
  }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    const bool inverse = layer.find("weight_scale_inv") != nullptr;
    return fp8_matrix(layer, {inverse ? "weight_scale_inv" : "weight_scale", rows_, columns_});
  }

 private:
  std::uint64_t rows_, columns_;
};

}  // namespace

Result<std::shared_ptr<const CodedMatrix>> fp8_matrix(const LayerTensors& layer,
                                                      const Fp8Scales& scales) {
  const StoredTensor* weight = layer.find("weight");
  if (weight != nullptr && dtype_bytes(weight->dtype) > 0 && layer.find(scales.part) == nullptr) {
    return std::shared_ptr<const CodedMatrix>();
  }
  HOLDFAST_TRY(weight, layer.matrix("weight", "the weights", {"F8_E4M3"}));
  HOLDFAST_TRY(const StoredTensor* scale,
               layer.need(scales.part, "the scales", {"F32", "F16", "BF16", "F8_E8M0", "U8"}));
  const TensorType type = are_exponents(*scale) ? TensorType::kBF16 : TensorType::kF16;
  const MatrixForm form{type, weight->shape[0], weight->shape[1]};
  HOLDFAST_TRY(const ScaleGrid grid, grid_of(layer, scales, form.rows, form.columns));
  return std::shared_ptr<const CodedMatrix>(
      std::make_shared<Fp8Matrix>(layer.name(), form, weight->data, *scale, scales.part, grid));
}

Result<std::unique_ptr<const QuantisedReader>> fp8_reader(const SchemeConfig& config) {
  HOLDFAST_TRY(const std::string numbers, config.text("fmt", "e4m3"));
  if (numbers != "e4m3") return config.unsupported("fmt", "e4m3");
  std::uint64_t sizes[2] = {0, 0};
  if (config.has("weight_block_size")) {
    const nlohmann::json& block = config.object().at("weight_block_size");
    const bool pair = block.is_array() && block.size() == 2;
    for (std::size_t i = 0; i < 2; ++i) {
      const bool good = pair && block[i].is_number_unsigned() && block[i] > 0 &&
                        block[i] <= (std::uint64_t{1} << 30);
      if (!good) return config.unsupported("weight_block_size", "[rows, columns] of a block");
      sizes[i] = block[i].get<std::uint64_t>();
    }
  }
  return std::unique_ptr<const QuantisedReader>(std::make_unique<Fp8Reader>(sizes[0], sizes[1]));
}

}  // namespace holdfast::huggingface
