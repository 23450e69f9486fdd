// Floats of 4 bits (E2M1), two in a byte, the first in the low nibble. Sources of the layouts: OCP
// Microscaling 1.0 for MXFP4, NVIDIA's page "Introducing NVFP4" for blocks of 16 with a scale of
// E4M3 and one of the whole matrix, the documents of TensorRT Model Optimizer (weight_scale,
// weight_scale_2, hf_quant_config.json) and of compressed-tensors (weight_packed, weight_scale,
// weight_global_scale, which divides) for the tensors.

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorType;

constexpr std::uint64_t kNvBlock = 16;
constexpr std::uint64_t kMxBlock = 32;

std::uint8_t byte_at(ByteSpan bytes, std::uint64_t i) {
  return static_cast<std::uint8_t>(bytes[i]);
}

/// NVFP4 as halves, each to 2^-11 of its value: GGUF's NVFP4 has no scale of the whole matrix.
class Nvfp4Matrix final : public CodedMatrix {
 public:
  Nvfp4Matrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns, ByteSpan codes,
              ByteSpan scales, float global, const Fp4Parts& parts)
      : CodedMatrix(name, {TensorType::kF16, rows, columns}),
        codes_(codes),
        scales_(scales),
        global_(global),
        parts_(parts) {}

  Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const override {
    std::vector<float> values(form().columns);
    for (std::uint64_t r = first; r < first + n; ++r, out += row_bytes()) {
      const std::uint64_t blocks = values.size() / kNvBlock;
      for (std::uint64_t b = r * blocks; b < (r + 1) * blocks; ++b) {
        const float stored = e4m3_value(byte_at(scales_, b));
        const float scale = parts_.divides ? stored / global_ : stored * global_;
        float* to = values.data() + b % blocks * kNvBlock;
        for (std::uint64_t i = 0; i < kNvBlock; ++i) {
          const std::uint8_t pair = byte_at(codes_, (b * kNvBlock + i) / 2);
          to[i] = e2m1_value(i % 2 == 0 ? pair & 15 : pair >> 4) * scale;
        }
      }
      if (put_halves(values.data(), values.size(), out)) continue;
      return name().invalid(parts_.scales,
                            "holds a NaN, or makes a weight larger than 65504, in "
                            "output " +
                                std::to_string(r));
    }
    return {};
  }

 private:
  ByteSpan codes_, scales_;
  float global_;
  Fp4Parts parts_;
};

/// MXFP4 in GGUF's blocks: the exponent, then codes i and i + 16 in a byte. Exact.
class Mxfp4Matrix final : public CodedMatrix {
 public:
  Mxfp4Matrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns, ByteSpan codes,
              ByteSpan scales, const Fp4Parts& parts)
      : CodedMatrix(name, {TensorType::kMXFP4, rows, columns}),
        codes_(codes),
        scales_(scales),
        parts_(parts) {}

  Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const override {
    const std::uint64_t blocks = form().columns / kMxBlock;
    auto* to = reinterpret_cast<std::uint8_t*>(out);
    for (std::uint64_t b = first * blocks; b < (first + n) * blocks; ++b) {
      *to++ = byte_at(scales_, b);
      if (to[-1] == 255) {
        return name().invalid(parts_.scales, "holds a NaN (255) in output " +
                                                 std::to_string(b / blocks) +
                                                 ", expected an exponent of 0 to 254");
      }
      const auto code = [&](std::uint64_t i) {
        return byte_at(codes_, (b * kMxBlock + i) / 2) >> (i % 2 * 4) & 15;
      };
      for (std::uint64_t i = 0; i < kMxBlock / 2; ++i) {
        *to++ = static_cast<std::uint8_t>(code(i) | code(i + kMxBlock / 2) << 4);
      }
    }
    return {};
  }

 private:
  ByteSpan codes_, scales_;
  Fp4Parts parts_;
};

/// Checks codes and scales of blocks. Returns the columns.
Result<std::uint64_t> columns_of(const LayerTensors& layer, const Fp4Parts& parts,
                                 std::uint64_t block, const Dtypes& scale_dtypes) {
  HOLDFAST_TRY(const StoredTensor* codes, layer.matrix(parts.codes, "the codes", {"U8"}));
  HOLDFAST_TRY(const StoredTensor* scales, layer.matrix(parts.scales, "the scales", scale_dtypes));
  (void)scales;
  const std::uint64_t columns = codes->shape[1] * 2;
  if (columns % block != 0) {
    return layer.name().invalid(parts.codes, "is " + shape_text(codes->shape) +
                                                 ", expected rows of whole blocks of " +
                                                 std::to_string(block / 2) + " bytes");
  }
  HOLDFAST_CHECKED(layer.expect(parts.scales, {codes->shape[0], columns / block},
                                "a scale for each block of " + std::to_string(block)));
  return columns;
}

class ModelOptReader final : public QuantisedReader {
 public:
  explicit ModelOptReader(std::string algorithm) : algorithm_(std::move(algorithm)) {}

  std::string format() const override { return "ModelOpt's " + algorithm_; }
  std::vector<std::string_view> parts() const override {
    return {"weight", "weight_scale", "weight_scale_2"};
  }
  std::vector<std::string_view> unused_parts() const override {
    return {"input_scale", "output_scale", "q_scale", "k_scale", "v_scale"};
  }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    const StoredTensor* weight = layer.find("weight");
    if (weight != nullptr && weight->dtype == "U8") return nvfp4_matrix(layer, Fp4Parts{});
    return fp8_matrix(layer, Fp8Scales{});
  }

 private:
  std::string algorithm_;
};

}  // namespace

Result<std::shared_ptr<const CodedMatrix>> nvfp4_matrix(const LayerTensors& layer,
                                                        const Fp4Parts& parts) {
  HOLDFAST_TRY(const std::uint64_t columns, columns_of(layer, parts, kNvBlock, {"F8_E4M3"}));
  HOLDFAST_TRY(const float global, layer.one_float(parts.global, "the scale of the whole matrix"));
  const StoredTensor& codes = *layer.find(parts.codes);
  return std::shared_ptr<const CodedMatrix>(
      std::make_shared<Nvfp4Matrix>(layer.name(), codes.shape[0], columns, codes.data,
                                    layer.find(parts.scales)->data, global, parts));
}

Result<std::shared_ptr<const CodedMatrix>> mxfp4_matrix(const LayerTensors& layer,
                                                        const Fp4Parts& parts) {
  HOLDFAST_TRY(const std::uint64_t columns, columns_of(layer, parts, kMxBlock, {"U8", "F8_E8M0"}));
  const StoredTensor& codes = *layer.find(parts.codes);
  return std::shared_ptr<const CodedMatrix>(std::make_shared<Mxfp4Matrix>(
      layer.name(), codes.shape[0], columns, codes.data, layer.find(parts.scales)->data, parts));
}

Result<std::unique_ptr<const QuantisedReader>> modelopt_reader(const SchemeConfig& config) {
  HOLDFAST_TRY(const std::string algorithm, config.text("quant_algo", ""));
  if (algorithm != "FP8" && algorithm != "NVFP4") {
    return config.unsupported("quant_algo", "FP8 or NVFP4");
  }
  HOLDFAST_TRY(const std::int64_t block, config.whole("group_size", kNvBlock));
  if (algorithm == "NVFP4" && block != kNvBlock) return config.unsupported("group_size", "16");
  return std::unique_ptr<const QuantisedReader>(std::make_unique<ModelOptReader>(algorithm));
}

}  // namespace holdfast::huggingface
