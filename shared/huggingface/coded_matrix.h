#pragma once
// Matrices that a folder stores as codes and scales (GPTQ, AWQ, FP8, …). Each is made, by rows, in
// the type of GGUF that holds its numbers exactly, or else as halves, so that a load needs the
// memory of one tensor and not of all.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/huggingface/layer_tensors.h"

namespace holdfast::huggingface {

/// The type and the sizes of a matrix.
struct MatrixForm {
  gguf::TensorType type = gguf::TensorType::kF16;
  std::uint64_t rows = 0;     // outputs of the layer
  std::uint64_t columns = 0;  // its inputs, adjacent in memory
};

/// A matrix in one of GGUF's types, made from the tensors that store it. Immutable, safe from any
/// thread; the mappings of the files must outlive it.
class CodedMatrix {
 public:
  virtual ~CodedMatrix() = default;
  CodedMatrix(const CodedMatrix&) = delete;
  CodedMatrix& operator=(const CodedMatrix&) = delete;

  const MatrixForm& form() const { return form_; }
  /// Returns the bytes of a row in the form's type.
  std::uint64_t row_bytes() const { return row_bytes_; }
  /// Writes `n` rows from `first` on, the same bytes each time. kFileInvalid: a scale that is no
  /// number or too large, a group that is not there.
  virtual Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const = 0;

 protected:
  /// CHECKs that the columns are whole blocks of the type.
  CodedMatrix(LayerName name, const MatrixForm& form);
  const LayerName& name() const { return name_; }

 private:
  LayerName name_;
  MatrixForm form_;
  std::uint64_t row_bytes_ = 0;
};

/// Writes all rows, on several threads if there are many. kFileInvalid as CodedMatrix::read.
Result<void> read_all(const CodedMatrix& matrix, std::byte* out);

/// The groups of columns that share a scale: `columns` in order, or by an index of the file.
struct ColumnGroups {
  std::uint64_t columns = 0;  // of a group, all but the last one
  std::uint64_t count = 0;
  const std::byte* index = nullptr;  // int32 for each column; nullptr: in order
  const char* index_part = "g_idx";
  bool ordered = true;        // the index is in order too
  bool may_be_unset = false;  // an index that begins with -1 is none

  /// Groups of `each` of all columns, in order.
  static ColumnGroups in_order(std::uint64_t columns, std::uint64_t each) {
    return {each, (columns + each - 1) / each};
  }
};

/// The whole numbers that a scheme's codes less their zero points can be.
struct NumberRange {
  int least = 0;
  int most = 0;
};

/// A matrix of whole numbers with a scale for each group of columns: w = scale x number. Its type
/// is Q4_0 or Q8_0 where the numbers fit those, else F16: the blocks hold the numbers exactly and
/// the scales as halves (exact for F16, from 2^-14 on for BF16, to 2^-11 of its value for F32), F16
/// each weight to 2^-11 of its value.
class GroupedMatrix : public CodedMatrix {
 public:
  Result<void> read(std::uint64_t first, std::uint64_t n, std::byte* out) const final;

 protected:
  GroupedMatrix(LayerName name, std::uint64_t rows, std::uint64_t columns,
                const ColumnGroups& groups, const NumberRange& range);
  /// Writes numbers[n][columns] and scales[n][groups] of at most kTile rows. `group_of` has the
  /// group of each column.
  virtual Result<void> tile(std::uint64_t first, std::uint64_t n,
                            const std::vector<std::uint32_t>& group_of, std::int16_t* numbers,
                            float* scales) const = 0;
  const ColumnGroups& groups() const { return groups_; }
  /// The part of the layer that errors about scales name.
  virtual const char* scale_part() const = 0;

  /// Rows that lie in one cache line of a file that has them as columns.
  static constexpr std::uint64_t kTile = 16;

 private:
  Result<std::vector<std::uint32_t>> read_groups() const;
  Result<void> put_row(std::uint64_t row, const std::int16_t* numbers, const float* scales,
                       const std::vector<std::uint32_t>& group_of, std::byte* out) const;
  Result<void> put_blocks(std::uint64_t row, const std::int16_t* numbers, const float* scales,
                          std::byte* out) const;

  ColumnGroups groups_;
};

/// Reads code `i` of a stream of codes without gaps, low bits first in words of 32 bits.
std::uint32_t code_at(const std::byte* words, std::uint64_t i, unsigned bits);

/// Writes a row of floats as halves. False: one of them is no number, or above the largest half.
bool put_halves(const float* values, std::uint64_t n, std::byte* out);

/// Returns the value of a float of 4 exponent and 3 mantissa bits (E4M3 of OCP's 8-bit floats: no
/// infinity, NaN is 0x7f and 0xff).
float e4m3_value(std::uint8_t code);
/// Returns the value of a float of 2 exponent bits and 1 mantissa bit (E2M1 of OCP Microscaling);
/// `code` is below 16.
float e2m1_value(std::uint8_t code);

}  // namespace holdfast::huggingface
