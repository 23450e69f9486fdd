// Experts in gpt-oss's folders: all of a layer in one tensor, with the rows of gate and up
// interleaved. Sources: modeling_gpt_oss.py of transformers for the plain ones, the model card and
// OCP Microscaling 1.0 for those in MXFP4.

#include <algorithm>
#include <cstring>
#include <vector>

#include "shared/huggingface/assemble.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;

constexpr std::uint64_t kCodes = 32;      // of a block
constexpr std::uint64_t kCodeBytes = 16;  // two neighbours in a byte, the first in the low nibble
constexpr std::uint64_t kBlockBytes = 1 + kCodeBytes;

/// Writes a block of GGUF: the exponent, then codes i and i + 16 in a byte.
void put_block(std::uint8_t exponent, const std::uint8_t* codes, std::uint8_t* out) {
  const auto code = [codes](std::uint64_t k) { return codes[k / 2] >> (k % 2 * 4) & 15; };
  out[0] = exponent;
  for (std::uint64_t i = 0; i < kCodeBytes; ++i) {
    out[1 + i] = static_cast<std::uint8_t>(code(i) | code(i + 16) << 4);
  }
}

/// Transposes [inputs][parts * outputs] to [outputs][inputs] of one part, in runs of outputs that
/// share cache lines. The numbers of a file need not be aligned.
template <class T>
void take_columns(const std::byte* in, std::uint64_t inputs, std::uint64_t outputs,
                  std::uint64_t part, std::uint64_t parts, std::byte* out) {
  constexpr std::uint64_t kRun = 32;
  for (std::uint64_t first = 0; first < outputs; first += kRun) {
    const std::uint64_t end = std::min(outputs, first + kRun);
    for (std::uint64_t i = 0; i < inputs; ++i) {
      for (std::uint64_t o = first; o < end; ++o) {
        std::memcpy(out + (o * inputs + i) * sizeof(T),
                    in + ((i * outputs + o) * parts + part) * sizeof(T), sizeof(T));
      }
    }
  }
}

}  // namespace

Error Assembler::unlike(const SourceTensor& source, const char* expected) const {
  return invalid(source.name, "is " + shape_text(source.stored.shape) + ", expected " + expected +
                                  " for " + std::to_string(sizes_.experts) + " experts");
}

Result<void> Assembler::mxfp4(const std::string& name, const SourceTensor& source) {
  const std::vector<std::uint64_t>& shape = source.stored.shape;
  const std::uint64_t part = source.named.part, parts = source.named.parts;
  const auto experts = static_cast<std::uint64_t>(sizes_.experts);
  if (shape.size() != 4 || shape[0] != experts || shape[1] % parts != 0 || shape[3] != kCodeBytes) {
    return unlike(source, "[experts, rows, blocks, 16]");
  }
  const auto scales = scales_.find(name);
  if (scales == scales_.end()) return invalid(source.name, "is there without its scales");
  if (scales->second.stored.shape != std::vector(shape.begin(), shape.end() - 1)) {
    return unlike(scales->second, "a scale for each block");
  }
  const std::uint64_t rows = shape[1] / parts, blocks = shape[2];
  TensorInfo info;
  info.name = name;
  info.type = TensorType::kMXFP4;
  info.n_dims = 3;
  info.dims[0] = blocks * kCodes;
  info.dims[1] = rows;
  info.dims[2] = experts;
  const auto* codes = reinterpret_cast<const std::uint8_t*>(source.stored.data.data());
  const auto* exponents = reinterpret_cast<const std::uint8_t*>(scales->second.stored.data.data());
  return add_made(std::move(info), experts * rows * blocks * kBlockBytes,
                  [=](std::byte* out) -> Result<void> {
                    auto* to = reinterpret_cast<std::uint8_t*>(out);
                    for (std::uint64_t row = 0; row < experts * rows;
                         ++row) {  // those of one expert are adjacent
                      const std::uint64_t first = (row * parts + part) * blocks;
                      for (std::uint64_t b = first; b < first + blocks; ++b, to += kBlockBytes) {
                        put_block(exponents[b], codes + b * kCodeBytes, to);
                      }
                    }
                    return {};
                  });
}

Result<void> Assembler::turned_each(const SourceTensor& source, TensorInfo info) {
  const std::vector<std::uint64_t>& shape = source.stored.shape;
  const std::uint64_t part = source.named.part, parts = source.named.parts;
  const auto experts = static_cast<std::uint64_t>(sizes_.experts);
  if (shape.size() != 3 || shape[0] != experts || shape[2] % parts != 0) {
    return unlike(source, "[experts, inputs, outputs]");
  }
  const std::uint64_t inputs = shape[1], outputs = shape[2] / parts;
  info.dims[0] = inputs;
  info.dims[1] = outputs;
  const ByteSpan from = info.data;
  const std::uint64_t bytes = from.size() / parts, expert = bytes / experts;
  const bool four = info.type == TensorType::kF32;
  return add_made(std::move(info), bytes, [=](std::byte* out) -> Result<void> {
    const std::byte* in = from.data();
    for (std::uint64_t e = 0; e < experts; ++e, in += expert * parts, out += expert) {
      if (four) take_columns<std::uint32_t>(in, inputs, outputs, part, parts, out);
      if (!four) take_columns<std::uint16_t>(in, inputs, outputs, part, parts, out);
    }
    return {};
  });
}

Result<void> Assembler::biases(const SourceTensor& source, TensorInfo info) {
  const std::vector<std::uint64_t>& shape = source.stored.shape;
  const std::uint64_t part = source.named.part, parts = source.named.parts;
  const auto experts = static_cast<std::uint64_t>(sizes_.experts);
  if (shape.size() != 2 || shape[0] != experts || shape[1] % parts != 0) {
    return unlike(source, "[experts, rows]");
  }
  info.dims[0] = shape[1] / parts;
  info.type = TensorType::kF32;
  const StoredTensor stored = source.stored;
  const std::uint64_t n = experts * info.dims[0];
  return add_made(std::move(info), n * sizeof(float), [=](std::byte* out) -> Result<void> {
    std::vector<float> all(n * parts);
    floats_of(stored, reinterpret_cast<std::byte*>(all.data()));
    auto* to = reinterpret_cast<float*>(out);
    for (std::uint64_t i = 0; i < n; ++i) to[i] = all[i * parts + part];
    return {};
  });
}

}  // namespace holdfast::huggingface
