// GPTQ: whole numbers with a scale and a zero point for each group of inputs. Sources of the
// layout: the paper (Frantar et al., arXiv:2210.17323) for the numbers, the documents of AutoGPTQ
// and GPTQModel for the tensors (qweight, qzeros, scales, g_idx) and quantization_config:
//   w[output][input] = scales[g][output] * (q - zero[g][output]), g = g_idx[input]
// Codes of 32 neighbours fill `bits` words without gaps, low bits first: qweight along the inputs,
// qzeros along the outputs. checkpoint_format gptq stores zero points less 1, gptq_v2 as they are.

#include <nlohmann/json.hpp>

#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

struct Options {
  unsigned bits = 4;
  std::int64_t group_size = -1;  // -1: one group
  bool act_order = false;
  bool symmetric = true;
  std::uint32_t zero_offset = 1;
};

constexpr std::uint64_t kRun = 32;  // codes that fill whole words

/// Returns the numbers that codes less zero points can be.
NumberRange range_of(const Options& options) {
  const int codes = 1 << options.bits, middle = codes / 2;
  if (options.symmetric) return {-middle, middle - 1};
  const int offset = static_cast<int>(options.zero_offset);
  return {-(codes - 1 + offset), codes - 1 - offset};
}

struct Parts {
  ByteSpan codes, zeros;
  FloatsOf scales;
};

class GptqMatrix final : public GroupedMatrix {
 public:
  GptqMatrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns,
             const ColumnGroups& groups, const Options& options, const Parts& parts)
      : GroupedMatrix(name, rows, columns, groups, range_of(options)),
        options_(options),
        parts_(parts) {}

 protected:
  const char* scale_part() const override { return "scales"; }

  Result<void> tile(std::uint64_t first, std::uint64_t n,
                    const std::vector<std::uint32_t>& group_of, std::int16_t* numbers,
                    float* scales) const override {
    const std::uint64_t rows = form().rows, count = groups().count;
    const std::uint64_t zero_bytes = rows * options_.bits / 8;  // of a group
    std::vector<std::int16_t> zeros(n * count);
    for (std::uint64_t g = 0; g < count; ++g) {
      const std::byte* row = parts_.zeros.data() + g * zero_bytes;
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint32_t zero = code_at(row, first + i, options_.bits) + options_.zero_offset;
        zeros[i * count + g] = static_cast<std::int16_t>(zero);
        scales[i * count + g] = parts_.scales[g * rows + first + i];
      }
    }
    // Outputs are adjacent in the file: those of a tile are in the same cache lines.
    for (std::uint64_t k = 0; k < form().columns; k += kRun) {
      for (std::uint64_t i = 0; i < n; ++i) {
        unpack(first + i, k, group_of.data(), zeros.data() + i * count,
               numbers + i * form().columns);
      }
    }
    return {};
  }

 private:
  /// Writes the numbers of a run of inputs from `k` on.
  void unpack(std::uint64_t row, std::uint64_t k, const std::uint32_t* group_of,
              const std::int16_t* zeros, std::int16_t* numbers) const {
    const unsigned bits = options_.bits;
    const std::uint64_t end = std::min(k + kRun, form().columns);
    std::uint32_t words[kRun + 1] = {};
    const std::uint64_t first = k * bits / 32, last = end * bits / 32;
    for (std::uint64_t w = first; w < last; ++w) {
      words[w - first] = word_at(parts_.codes.data(), w * form().rows + row);
    }
    const auto* run = reinterpret_cast<const std::byte*>(words);
    for (std::uint64_t i = k; i < end; ++i) {
      const auto code = static_cast<std::int16_t>(code_at(run, i - k, bits));
      numbers[i] = static_cast<std::int16_t>(code - zeros[group_of[i]]);
    }
  }

  Options options_;
  Parts parts_;
};

class GptqReader final : public QuantisedReader {
 public:
  explicit GptqReader(const Options& options) : options_(options) {}

  std::string format() const override {
    std::string out = "GPTQ of " + std::to_string(options_.bits) + " bits";
    if (options_.group_size > 0) out += " in groups of " + std::to_string(options_.group_size);
    return out + (options_.act_order ? " with act-order" : "");
  }
  std::vector<std::string_view> parts() const override {
    return {"qweight", "qzeros", "scales", "g_idx"};
  }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    const std::uint64_t bits = options_.bits;
    HOLDFAST_TRY(const StoredTensor* codes, layer.matrix("qweight", "the codes", {"I32", "U32"}));
    HOLDFAST_TRY(const StoredTensor* zeros,
                 layer.matrix("qzeros", "the zero points", {"I32", "U32"}));
    HOLDFAST_TRY(const StoredTensor* scales, layer.matrix("scales", "the scales", float_dtypes()));
    const std::uint64_t rows = codes->shape[1], columns = codes->shape[0] * 32 / bits;
    if (codes->shape[0] * 32 % bits != 0 || rows * bits % 32 != 0) {
      return layer.name().invalid(
          "qweight", "is " + shape_text(codes->shape) + ", expected whole words of codes of " +
                         std::to_string(bits) + " bits for inputs and outputs");
    }
    HOLDFAST_TRY(const ColumnGroups groups, groups_of(layer, columns));
    HOLDFAST_CHECKED(layer.expect("qzeros", {groups.count, rows * bits / 32},
                                  "a code for each group and output"));
    HOLDFAST_CHECKED(
        layer.expect("scales", {groups.count, rows}, "a scale for each group and output"));
    return std::shared_ptr<const CodedMatrix>(
        std::make_shared<GptqMatrix>(layer.name(), rows, columns, groups, options_,
                                     Parts{codes->data, zeros->data, FloatsOf(*scales)}));
  }

 private:
  Result<ColumnGroups> groups_of(const LayerTensors& layer, std::uint64_t columns) const {
    const std::uint64_t each =
        options_.group_size > 0 ? static_cast<std::uint64_t>(options_.group_size) : columns;
    ColumnGroups groups = ColumnGroups::in_order(columns, each);
    groups.ordered = !options_.act_order;
    if (options_.act_order || layer.find("g_idx") != nullptr) {
      HOLDFAST_TRY(const StoredTensor* index,
                   layer.need("g_idx", "the group of each input", {"I32"}));
      HOLDFAST_CHECKED(layer.expect("g_idx", {columns}, "a group for each input"));
      groups.index = index->data.data();
    }
    return groups;
  }

  Options options_;
};

/// Refuses options of single layers; those that only name layers without codes change nothing.
Result<void> refuse_dynamic(const SchemeConfig& config) {
  if (!config.has("dynamic")) return {};
  const nlohmann::json& dynamic = config.object().at("dynamic");
  bool plain = dynamic.is_object();
  for (auto at = dynamic.begin(); plain && at != dynamic.end(); ++at) {
    plain = at.key().starts_with("-:");
  }
  if (plain) return {};
  return config.unsupported("dynamic", "the same bits and groups for all layers");
}

}  // namespace

Result<std::unique_ptr<const QuantisedReader>> gptq_reader(const SchemeConfig& config) {
  Options options;
  HOLDFAST_TRY(const std::int64_t bits, config.whole("bits", 4));
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return config.unsupported("bits", "2, 3, 4 or 8");
  }
  options.bits = static_cast<unsigned>(bits);
  HOLDFAST_TRY(options.group_size, config.whole("group_size", -1));
  if (options.group_size == 0) return config.unsupported("group_size", "-1 or a size of groups");
  HOLDFAST_TRY(options.act_order, config.flag("desc_act", false));
  HOLDFAST_TRY(options.symmetric, config.flag("sym", false));
  HOLDFAST_TRY(const std::string format, config.text("checkpoint_format", "gptq"));
  if (format != "gptq" && format != "gptq_v2") {
    return config.unsupported("checkpoint_format", "gptq or gptq_v2");
  }
  HOLDFAST_TRY(const bool marlin, config.flag("is_marlin_format", false));
  if (marlin) return config.unsupported("is_marlin_format", "false: the layout of GPTQ itself");
  HOLDFAST_CHECKED(refuse_dynamic(config));
  options.zero_offset = format == "gptq" ? 1 : 0;
  return std::unique_ptr<const QuantisedReader>(std::make_unique<GptqReader>(options));
}

}  // namespace holdfast::huggingface
