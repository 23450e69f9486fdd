#include "shared/huggingface/layer_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shared/gguf/parse.h"
#include "shared/gguf/quants.h"

namespace holdfast::huggingface {
namespace {

std::string join(const Dtypes& names) {
  std::string out;
  std::size_t left = names.size();
  for (const std::string_view name : names) {
    out += name;
    if (--left > 0) out += left == 1 ? " or " : ", ";
  }
  return out;
}

}  // namespace

Error LayerName::invalid(std::string_view part, const std::string& why) const {
  std::string name = gguf::quoted(layer);  // cut if it is long; the part is always whole
  name.insert(name.size() - 1, "." + std::string(part));
  return {Errc::kFileInvalid, "read model " + where + ": tensor " + name + " " + why};
}

Error LayerName::unsupported(std::string_view part, const std::string& why) const {
  return {Errc::kUnsupported, invalid(part, why).what};
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "[";
  for (const std::uint64_t n : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(n);
  return out + "]";
}

const StoredTensor* LayerTensors::find(std::string_view part) const {
  const auto at = parts_.find(part);
  return at == parts_.end() ? nullptr : &at->second;
}

Result<const StoredTensor*> LayerTensors::need(std::string_view part, const char* meaning,
                                               const Dtypes& dtypes) const {
  const StoredTensor* stored = find(part);
  if (stored == nullptr) {
    return name_.invalid(part, std::string("is missing, expected ") + meaning +
                                   " of the quantised layer; download the folder's files again");
  }
  if (std::find(dtypes.begin(), dtypes.end(), stored->dtype) == dtypes.end()) {
    return name_.unsupported(
        part, "is of type " + stored->dtype + ", expected " + join(dtypes) + " for " + meaning);
  }
  if (stored->data.empty()) return name_.invalid(part, "has no elements");
  return stored;
}

Result<const StoredTensor*> LayerTensors::matrix(std::string_view part, const char* meaning,
                                                 const Dtypes& dtypes) const {
  HOLDFAST_TRY(const StoredTensor* stored, need(part, meaning, dtypes));
  if (stored->shape.size() == 2) return stored;
  return name_.invalid(
      part, "is " + shape_text(stored->shape) + ", expected two dimensions for " + meaning);
}

Result<void> LayerTensors::expect(std::string_view part, const std::vector<std::uint64_t>& shape,
                                  const std::string& meaning) const {
  const StoredTensor* stored = find(part);
  CHECK(stored != nullptr);
  if (stored->shape == shape) return {};
  return name_.invalid(
      part, "is " + shape_text(stored->shape) + ", expected " + shape_text(shape) + ": " + meaning);
}

Result<float> LayerTensors::one_float(std::string_view part, const char* meaning) const {
  HOLDFAST_TRY(const StoredTensor* stored, need(part, meaning, float_dtypes()));
  if (stored->data.size() != dtype_bytes(stored->dtype)) {
    return name_.invalid(
        part, "is " + shape_text(stored->shape) + ", expected one element for " + meaning);
  }
  const float value = FloatsOf(*stored)[0];
  if (std::isfinite(value) && value != 0) return value;
  return name_.invalid(part, "is " + std::to_string(value) + ", expected a number other than 0");
}

FloatsOf::FloatsOf(const StoredTensor& stored)
    : at_(stored.data.data()), bytes_(dtype_bytes(stored.dtype)), half_(stored.dtype == "F16") {
  CHECK(bytes_ > 0);
}

float FloatsOf::operator[](std::uint64_t i) const {
  if (bytes_ == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, at_ + i * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t value = 0;
  std::memcpy(&value, at_ + i * sizeof value, sizeof value);
  return half_ ? gguf::half_to_float(value) : gguf::bf16_to_float(value);
}

std::uint32_t word_at(const std::byte* at, std::uint64_t i) {
  std::uint32_t word = 0;
  std::memcpy(&word, at + i * sizeof word, sizeof word);
  return word;
}

}  // namespace holdfast::huggingface
