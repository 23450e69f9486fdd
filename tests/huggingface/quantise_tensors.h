#pragma once
// Quantised layers as folders store them, made here bit by bit from the definitions of their
// formats, with the numbers that the definitions give them.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface_test {

/// A plain matrix, row by row.
struct PlainMatrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;
};

/// The tensors of a layer by the ends of their names, and the weights that they stand for.
struct QuantisedLayer {
  std::map<std::string, StoredFolder::Tensor> parts;
  std::vector<float> weights;
};

/// A format with its options.
using Quantise = std::function<QuantisedLayer(const PlainMatrix& matrix)>;

/// Options of GPTQ.
struct GptqForm {
  unsigned bits = 4;
  std::size_t group = 128;  // 0: one group
  bool act_order = false;
  bool symmetric = true;
  bool v2 = false;
  std::string scale_dtype = "F16";
};
/// Returns the layer in such a format.
QuantisedLayer gptq_layer(const PlainMatrix& matrix, const GptqForm& form);

/// Returns the layer in such a format.
QuantisedLayer awq_layer(const PlainMatrix& matrix, std::size_t group);

/// Blocks of rows and columns that share a scale; 0: all.
struct Fp8Form {
  std::size_t rows = 0, columns = 0;
  std::string part = "weight_scale";
  std::vector<std::uint64_t> scale_shape = {};  // empty: that of the blocks
  std::string scale_dtype = "F32";              // F8_E8M0: powers of two
};
/// Returns the layer in such a format.
QuantisedLayer fp8_layer(const PlainMatrix& matrix, const Fp8Form& form);

/// Options of compressed-tensors' whole numbers.
struct IntForm {
  unsigned bits = 8;
  std::size_t group = 0;  // 0: one scale for each row
  bool one_scale = false;
  bool packed = false;
  bool symmetric = true;
  bool act_order = false;
  std::string scale_dtype = "BF16";
};
/// Returns the layer in such a format.
QuantisedLayer int_layer(const PlainMatrix& matrix, const IntForm& form);

/// Options of bitsandbytes' 4 bits.
struct FourBitForm {
  bool nf4 = true;
  bool nested = true;
  std::string storage = "U8";
};
/// Returns the layer in such a format.
QuantisedLayer bitsandbytes_layer(const PlainMatrix& matrix, const FourBitForm& form);
QuantisedLayer int8_scb_layer(const PlainMatrix& matrix);

/// ModelOpt's tensors, or those of compressed-tensors.
QuantisedLayer nvfp4_layer(const PlainMatrix& matrix, bool compressed_tensors);
QuantisedLayer mxfp4_layer(const PlainMatrix& matrix);

/// A tensor of floats of such a type; `values` are rounded to it.
StoredFolder::Tensor floats_tensor(const std::string& dtype, std::vector<std::uint64_t> shape,
                                   const std::vector<float>& values);
/// The value that a float of such a type has.
float rounded(float value, const std::string& dtype);

}  // namespace holdfast::huggingface_test
