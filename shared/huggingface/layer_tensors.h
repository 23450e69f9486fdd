#pragma once
// The tensors of one quantised layer, by the ends of their names, with checks of their types and
// shapes. Internal to shared/huggingface.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/huggingface/safetensors.h"

namespace holdfast::huggingface {

/// A layer's name for errors: "read model WHERE: tensor "LAYER.PART" …".
struct LayerName {
  std::string where;
  std::string layer;

  /// Returns kFileInvalid about a tensor of the layer; `why` goes on after its name.
  Error invalid(std::string_view part, const std::string& why) const;
  /// Returns kUnsupported about a tensor of the layer.
  Error unsupported(std::string_view part, const std::string& why) const;
};

/// Names of types in safetensors files.
using Dtypes = std::vector<std::string_view>;
/// Returns the types of plain floats.
inline Dtypes float_dtypes() {
  return {"F32", "F16", "BF16"};
}

/// The tensors of one layer.
class LayerTensors {
 public:
  explicit LayerTensors(LayerName name) : name_(std::move(name)) {}

  const LayerName& name() const { return name_; }
  /// Adds a tensor. False: the layer has one of this name.
  bool add(std::string_view part, const StoredTensor& stored) {
    return parts_.emplace(part, stored).second;
  }
  /// Returns a tensor, or nullptr.
  const StoredTensor* find(std::string_view part) const;
  /// Returns a tensor that must be there, of one of these types and with elements. `meaning` says
  /// in errors what it has: "the codes". kFileInvalid; kUnsupported: another type.
  Result<const StoredTensor*> need(std::string_view part, const char* meaning,
                                   const Dtypes& dtypes) const;
  /// Does the same with two dimensions.
  Result<const StoredTensor*> matrix(std::string_view part, const char* meaning,
                                     const Dtypes& dtypes) const;
  /// Checks a shape. kFileInvalid with both.
  Result<void> expect(std::string_view part, const std::vector<std::uint64_t>& shape,
                      const std::string& meaning) const;
  /// Returns the only element of a tensor of one float. kFileInvalid: more elements, a NaN, an
  /// infinity or a zero.
  Result<float> one_float(std::string_view part, const char* meaning) const;

 private:
  LayerName name_;
  std::map<std::string, StoredTensor, std::less<>> parts_;
};

/// Returns "[2, 3]".
std::string shape_text(const std::vector<std::uint64_t>& shape);

/// The elements of a tensor of F32, F16 or BF16 as floats. The bytes need no alignment.
class FloatsOf {
 public:
  FloatsOf() = default;
  /// Refers to the bytes of `stored`; its type is one of float_dtypes() (CHECKed).
  explicit FloatsOf(const StoredTensor& stored);
  /// Returns element `i`, which the tensor has (not checked).
  float operator[](std::uint64_t i) const;

 private:
  const std::byte* at_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool half_ = false;
};

/// Returns word `i` of a tensor of 32-bit numbers at any address.
std::uint32_t word_at(const std::byte* at, std::uint64_t i);

}  // namespace holdfast::huggingface
