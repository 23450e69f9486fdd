// Tensors of recurrent layers. A folder has the heads of values that share a head of keys side by
// side; GGUF has them by turns: the i-th has the i-th head of keys, modulo their number.

#include <cmath>
#include <cstring>

#include "shared/hf/assemble.h"

namespace holdfast::hf {

using gguf::TensorInfo;
using gguf::TensorType;

namespace {

bool by_columns(Change change) {
  return change == Change::kStateColumns;
}

}  // namespace

/// Where row (or column) `i` of GGUF's comes from, of a tensor whose first `before` are no values'.
std::uint64_t Assembler::StateRows::from(std::uint64_t i) const {
  if (i < before) return i;
  const std::uint64_t head = (i - before) / each, at = (i - before) % each;
  return before + (head % groups * (heads / groups) + head / groups) * each + at;
}

Result<Assembler::StateRows> Assembler::state_rows(const Piece& piece) const {
  const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  StateRows out{.heads = u(sizes_.state_heads), .groups = u(sizes_.state_groups)};
  const std::vector<std::uint64_t>& shape = piece.stored.shape;
  const std::uint64_t n = by_columns(piece.named.change) ? shape.back() : shape.front();
  const std::uint64_t keys = 2 * out.groups * u(sizes_.state_key);
  const std::uint64_t values = out.heads * u(sizes_.state_value);
  if (n == keys + values) out.before = keys;
  out.each = (n - out.before) / out.heads;
  if (n == out.heads || n == values || n == keys + values) return out;
  return invalid(piece.name, "is " + shape_text(shape) + ", expected " + std::to_string(out.heads) +
                                 " heads of " + std::to_string(sizes_.state_value) +
                                 (by_columns(piece.named.change) ? " columns" : " rows"));
}

Result<void> Assembler::of_states(const Piece& piece, TensorInfo info) {
  HF_TRY(const StateRows rows, state_rows(piece));
  const Change change = piece.named.change;
  if (info.n_dims == 1 || change == Change::kStateConv) return state_floats(piece, info, rows);
  if (info.n_dims != 2) {
    return invalid(piece.name, "is " + shape_text(piece.stored.shape) + ", expected a matrix");
  }
  if (rows.heads == rows.groups) {  // lies in the file as it is
    out_.tensors.push_back(std::move(info));
    return {};
  }
  const ByteSpan data = info.data;
  const std::uint64_t n = info.dims[1], row = data.size() / n;
  const std::uint64_t element = row / info.dims[0], columns = info.dims[0];
  const bool turned = by_columns(change);
  return add_made(std::move(info), data.size(), [=](std::byte* out) {
    for (std::uint64_t r = 0; r < n; ++r) {
      if (!turned) std::memcpy(out + r * row, data.data() + rows.from(r) * row, row);
      for (std::uint64_t c = 0; turned && c < columns; c += rows.each) {
        std::memcpy(out + r * row + c * element, data.data() + r * row + rows.from(c) * element,
                    rows.each * element);
      }
    }
  });
}

/// What GGUF keeps in float32: vectors, and the convolution's taps, [columns, 1, taps] in a folder.
Result<void> Assembler::state_floats(const Piece& piece, TensorInfo info, const StateRows& rows) {
  const StoredTensor& stored = piece.stored;
  const bool conv = piece.named.change == Change::kStateConv;
  if (conv ? stored.shape.size() != 3 || stored.shape[1] != 1 : stored.shape.size() != 1) {
    return invalid(piece.name, "is " + shape_text(stored.shape) + ", expected " +
                                   (conv ? "[columns, 1, taps]" : "a vector"));
  }
  const std::uint64_t each = conv ? stored.shape[2] : 1, n = stored.shape[0];
  std::vector<float> plain(n * each);
  floats_of(stored, reinterpret_cast<std::byte*>(plain.data()));
  std::vector<std::byte> bytes(plain.size() * sizeof(float));
  for (std::uint64_t r = 0; r < n; ++r) {
    float* from = plain.data() + rows.from(r) * each;
    // A_log of the folder: the decay's rate is -exp of it.
    if (piece.named.change == Change::kStateRate) *from = -std::exp(*from);
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

}  // namespace holdfast::hf
