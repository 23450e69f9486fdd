// Tensors of recurrent layers. In a folder the value heads that share a key head are adjacent; in
// GGUF they are interleaved: the i-th has the i-th key head, modulo their number.

#include <cmath>
#include <cstring>

#include "shared/huggingface/assemble.h"

namespace holdfast::huggingface {

using gguf::TensorInfo;
using gguf::TensorType;

namespace {

bool by_columns(Change change) {
  return change == Change::kStateColumns;
}

}  // namespace

/// Returns the source of row (or column) `i` of GGUF's tensor; the first `before` ones belong to
/// queries and keys.
std::uint64_t Assembler::StateRows::from(std::uint64_t i) const {
  if (i < before) return i;
  const std::uint64_t head = (i - before) / each, at = (i - before) % each;
  return before + (head % groups * (heads / groups) + head / groups) * each + at;
}

Result<Assembler::StateRows> Assembler::state_rows(const SourceTensor& source) const {
  const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  StateRows out{.heads = u(sizes_.state_heads), .groups = u(sizes_.state_groups)};
  const std::vector<std::uint64_t>& shape = source.stored.shape;
  const std::uint64_t n = by_columns(source.named.change) ? shape.back() : shape.front();
  const std::uint64_t keys = 2 * out.groups * u(sizes_.state_key);
  const std::uint64_t values = out.heads * u(sizes_.state_value);
  if (n == keys + values) out.before = keys;
  out.each = (n - out.before) / out.heads;
  if (n == out.heads || n == values || n == keys + values) return out;
  return invalid(source.name, "is " + shape_text(shape) + ", expected " +
                                  std::to_string(out.heads) + " heads of " +
                                  std::to_string(sizes_.state_value) +
                                  (by_columns(source.named.change) ? " columns" : " rows"));
}

Result<void> Assembler::of_states(const SourceTensor& source, TensorInfo info) {
  HOLDFAST_TRY(const StateRows rows, state_rows(source));
  const Change change = source.named.change;
  if (info.n_dims == 1 || change == Change::kStateConv) return state_floats(source, info, rows);
  if (info.n_dims != 2) {
    return invalid(source.name, "is " + shape_text(source.stored.shape) + ", expected a matrix");
  }
  if (rows.heads == rows.groups) {  // unchanged in the file
    out_.tensors.push_back(std::move(info));
    return {};
  }
  const ByteSpan data = info.data;
  const std::uint64_t n = info.dims[1], row = data.size() / n;
  const std::uint64_t element = row / info.dims[0], columns = info.dims[0];
  const bool turned = by_columns(change);
  return add_made(std::move(info), data.size(), [=](std::byte* out) -> Result<void> {
    for (std::uint64_t r = 0; r < n; ++r) {
      if (!turned) std::memcpy(out + r * row, data.data() + rows.from(r) * row, row);
      for (std::uint64_t c = 0; turned && c < columns; c += rows.each) {
        std::memcpy(out + r * row + c * element, data.data() + r * row + rows.from(c) * element,
                    rows.each * element);
      }
    }
    return {};
  });
}

namespace {

bool is_column_taps(const std::vector<std::uint64_t>& shape) {
  return shape.size() == 3 && shape[1] == 1;
}

}  // namespace

/// Adds a tensor that GGUF stores in float32: a vector, or the convolution's taps, [columns, 1,
/// taps] in a folder.
Result<void> Assembler::state_floats(const SourceTensor& source, TensorInfo info,
                                     const StateRows& rows) {
  const StoredTensor& stored = source.stored;
  const bool conv = source.named.change == Change::kStateConv;
  const bool fits = conv ? is_column_taps(stored.shape) : stored.shape.size() == 1;
  if (!fits) {
    return invalid(source.name, "is " + shape_text(stored.shape) + ", expected " +
                                    (conv ? "[columns, 1, taps]" : "a vector"));
  }
  const std::uint64_t each = conv ? stored.shape[2] : 1, n = stored.shape[0];
  std::vector<float> plain(n * each);
  floats_of(stored, reinterpret_cast<std::byte*>(plain.data()));
  std::vector<std::byte> bytes(plain.size() * sizeof(float));
  for (std::uint64_t r = 0; r < n; ++r) {
    float* from = plain.data() + rows.from(r) * each;
    // The folder has A_log: the decay's rate is -exp of it.
    if (source.named.change == Change::kStateRate) *from = -std::exp(*from);
    std::memcpy(bytes.data() + r * each * sizeof(float), from, each * sizeof(float));
  }
  out_.vectors.push_back(std::move(bytes));
  info.n_dims = conv ? 2 : 1;
  info.dims[0] = conv ? each : n;
  info.dims[1] = conv ? n : 1;
  info.dims[2] = 1;
  info.type = TensorType::kF32;
  info.data = out_.vectors.back();
  out_.tensors.push_back(std::move(info));
  return {};
}

}  // namespace holdfast::huggingface
