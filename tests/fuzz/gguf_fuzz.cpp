// Any bytes whatever, read as a model file: header, every accessor, shape, envelope, tokenizer blob
// and the first row of each tensor. Run under AddressSanitizer and UBSan; a crash, a leak or an
// allocation far beyond the input's size is a bug.
// Seeds: models of `holdfast synth tiny` and any GGUF; -max_len above the header's size.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/gguf/quants.h"
#include "shared/plan/plan.h"

namespace {

using namespace holdfast;

void read_values(const gguf::File& file) {
  for (const std::string& key : file.keys()) {
    (void)file.get_u64(key);
    (void)file.get_i64(key);
    (void)file.get_f64(key);
    (void)file.get_bool(key);
    (void)file.get_string(key);
    (void)file.get_strings(key);
    (void)file.get_floats(key);
    (void)file.get_ints(key);
    (void)file.raw_value(key);
  }
}

void read_rows(const gguf::File& file) {
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.dims[0] > 1u << 16) continue;
    std::vector<float> row(tensor.dims[0]);
    (void)gguf::dequantize_row(tensor.type, tensor.data.data(), row.data(), row.size());
    // The last byte of the data is inside the input, or ASan reports it.
    if (!tensor.data.empty() && tensor.data.back() == std::byte{0x5a}) row.clear();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file =
      gguf::File::from_bytes(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!file) {
    CHECK(!file.error().what.empty());
    return 0;
  }
  read_values(**file);
  read_rows(**file);
  (void)plan::tokenizer_blob(**file);
  const auto shape = plan::read_shape(**file);
  if (shape) {
    (void)plan::memory_envelope(*shape, {});
    const auto back = plan::shape_from_json(plan::shape_to_json(*shape));
    CHECK(back.has_value());
  }
  return 0;
}
