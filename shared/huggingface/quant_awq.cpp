// AWQ: codes of 4 bits with a scale and a zero point for each group of inputs. Sources of the
// layout: the paper (Lin et al., arXiv:2306.00978) for the numbers, AutoAWQ's documents for the
// tensors (qweight, qzeros, scales) of its version "gemm":
//   w[output][input] = scales[g][output] * (q - zero[g][output]), g = input / group_size
// A word has the codes of eight outputs: nibble i is that of output 0, 2, 4, 6, 1, 3, 5, 7.

#include "shared/huggingface/quantised.h"

namespace holdfast::huggingface {
namespace {

constexpr std::uint64_t kInWord = 8;
constexpr NumberRange kNumbers{-15, 15};

/// Returns the shift of an output's nibble in its word.
unsigned shift_of(std::uint64_t output) {
  constexpr unsigned kNibble[kInWord] = {0, 4, 1, 5, 2, 6, 3, 7};
  return 4 * kNibble[output % kInWord];
}

struct Parts {
  ByteSpan codes, zeros;
  FloatsOf scales;
};

class AwqMatrix final : public GroupedMatrix {
 public:
  AwqMatrix(const LayerName& name, std::uint64_t rows, std::uint64_t columns,
            const ColumnGroups& groups, const Parts& parts)
      : GroupedMatrix(name, rows, columns, groups, kNumbers), parts_(parts) {}

 protected:
  const char* scale_part() const override { return "scales"; }

  Result<void> tile(std::uint64_t first, std::uint64_t n,
                    const std::vector<std::uint32_t>& group_of, std::int16_t* numbers,
                    float* scales) const override {
    const std::uint64_t rows = form().rows, count = groups().count;
    std::vector<int> zeros(n * count);
    for (std::uint64_t g = 0; g < count; ++g) {
      for (std::uint64_t i = 0; i < n; ++i) {
        zeros[i * count + g] = code(parts_.zeros, g, first + i);
        scales[i * count + g] = parts_.scales[g * rows + first + i];
      }
    }
    for (std::uint64_t k = 0; k < form().columns; ++k) {
      for (std::uint64_t i = 0; i < n; ++i) {
        const int number = code(parts_.codes, k, first + i) - zeros[i * count + group_of[k]];
        numbers[i * form().columns + k] = static_cast<std::int16_t>(number);
      }
    }
    return {};
  }

 private:
  /// Returns the code of an output in row `r` of qweight or qzeros.
  int code(ByteSpan words, std::uint64_t r, std::uint64_t output) const {
    const std::uint32_t word = word_at(words.data(), (r * form().rows + output) / kInWord);
    return static_cast<int>(word >> shift_of(output) & 15);
  }

  Parts parts_;
};

class AwqReader final : public QuantisedReader {
 public:
  explicit AwqReader(std::int64_t group_size) : group_size_(group_size) {}

  std::string format() const override {
    const std::string groups =
        group_size_ > 0 ? " in groups of " + std::to_string(group_size_) : std::string();
    return "AWQ of 4 bits" + groups;
  }
  std::vector<std::string_view> parts() const override { return {"qweight", "qzeros", "scales"}; }

  Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const override {
    HOLDFAST_TRY(const StoredTensor* codes, layer.matrix("qweight", "the codes", {"I32", "U32"}));
    HOLDFAST_TRY(const StoredTensor* zeros,
                 layer.matrix("qzeros", "the zero points", {"I32", "U32"}));
    HOLDFAST_TRY(const StoredTensor* scales, layer.matrix("scales", "the scales", float_dtypes()));
    const std::uint64_t rows = codes->shape[1] * kInWord, columns = codes->shape[0];
    const ColumnGroups groups = ColumnGroups::in_order(
        columns, group_size_ > 0 ? static_cast<std::uint64_t>(group_size_) : columns);
    HOLDFAST_CHECKED(layer.expect("qzeros", {groups.count, rows / kInWord},
                                  "a code for each group and output, eight in a word"));
    HOLDFAST_CHECKED(
        layer.expect("scales", {groups.count, rows}, "a scale for each group and output"));
    return std::shared_ptr<const CodedMatrix>(std::make_shared<AwqMatrix>(
        layer.name(), rows, columns, groups, Parts{codes->data, zeros->data, FloatsOf(*scales)}));
  }

 private:
  std::int64_t group_size_;
};

}  // namespace

Result<std::unique_ptr<const QuantisedReader>> awq_reader(const SchemeConfig& config) {
  HOLDFAST_TRY(const std::int64_t w_bit, config.whole("w_bit", 4));
  HOLDFAST_TRY(const std::int64_t bits, config.whole("bits", w_bit));
  if (bits != 4) return config.unsupported("bits", "4");
  HOLDFAST_TRY(const std::string version, config.text("version", "gemm"));
  if (version != "gemm" && version != "GEMM") return config.unsupported("version", "gemm");
  HOLDFAST_TRY(const bool zeros, config.flag("zero_point", true));
  if (!zeros) return config.unsupported("zero_point", "true");
  HOLDFAST_TRY(const std::int64_t q_group_size, config.whole("q_group_size", 128));
  HOLDFAST_TRY(const std::int64_t group_size, config.whole("group_size", q_group_size));
  if (group_size == 0) return config.unsupported("group_size", "-1 or a size of groups");
  return std::unique_ptr<const QuantisedReader>(std::make_unique<AwqReader>(group_size));
}

}  // namespace holdfast::huggingface
