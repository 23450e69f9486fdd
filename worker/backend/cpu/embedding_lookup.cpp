#include "worker/backend/cpu/embedding_lookup.h"

#include <cmath>
#include <cstring>

#include "shared/gguf/quants.h"

namespace holdfast::cpu {
namespace {

/// Writes `n` floats of row `i` of a table; the loader has read every row.
void read_row(const EmbeddingTable& table, std::int64_t i, std::int64_t n, float* out) {
  const std::uint8_t* row = table.rows + static_cast<std::size_t>(i) * table.row_bytes;
  const auto done = gguf::dequantize_row(table.type, row, out, static_cast<std::uint64_t>(n));
  CHECK(done.has_value());
}

}  // namespace

void EmbeddingLookup::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kEmbed) return look_up(worker);
  if (op.kind == model::OpKind::kEmbedScaleAdd) return scale_add(op, worker);
  layer_inputs(op, worker);
}

void EmbeddingLookup::look_up(int worker) {
  const EmbeddingTable& table = context_.program.embedding;
  const Share share = rows_of_worker(worker);
  float* row = scratch_of(worker).token_row;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const std::int64_t id = batch_.token(i).id;
    if (table.packed != nullptr) {
      kernels_.unpack_row(*table.packed, id, row);
    } else {
      read_row(table, id, shape_.width, row);
    }
    std::memcpy(buffers_.residual.row(i), row, float_bytes(shape_.width));
  }
}

void EmbeddingLookup::scale_add(const PackedOp& op, int worker) {
  const EmbeddingTable& positions = context_.program.positions;
  const Share share = rows_of_worker(worker);
  const std::int64_t n = round_up(shape_.width, kLanes);
  float* row = scratch_of(worker).token_row;
  std::memset(row, 0, float_bytes(n));
  for (std::int64_t i = share.first; i < share.last; ++i) {
    float* x = buffers_.residual.row(i);
    if (op.scale != 1) kernels_.scale_cap(x, op.scale, 0, n);
    if (positions.rows != nullptr) {
      read_row(positions, batch_.token(i).position, shape_.width, row);
      kernels_.add(x, row, n);
    }
    if (op.types != nullptr) kernels_.add(x, op.types, n);
  }
}

/// Computes each layer's own input: a product with the embedding, normed a layer at a time, and a
/// row of the token's own (Gemma 3n's model card: per-layer embeddings).
void EmbeddingLookup::layer_inputs(const PackedOp& op, int worker) {
  const FloatRows inputs = buffers_.layer_input;
  run_product_items(op, buffers_.residual, worker,
                    [&](const float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      std::memcpy(inputs.row(i) + p0 * kLanes, y, float_bytes(n));
                    });
  pool_.barrier();
  float* token_inputs = scratch_of(worker).token_inputs;
  const Share share = rows_of_worker(worker);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    read_row(context_.program.layer_inputs, batch_.token(i).id, shape_.layers * shape_.layer_input,
             token_inputs);
    mix_layer_inputs(op, inputs.row(i), token_inputs);
  }
}

/// Norms each layer's part of a row and adds the token's own.
void EmbeddingLookup::mix_layer_inputs(const PackedOp& op, float* row,
                                       const float* token_inputs) const {
  const std::int64_t n = shape_.layer_input, pad = round_up(n, kLanes);
  // The norm is of the product over √width, whose mean square is `width` times smaller: eps grows.
  const auto eps = static_cast<float>(shape_.norm_eps * static_cast<double>(shape_.width));
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(n)));
  const auto half = static_cast<float>(std::sqrt(0.5));
  for (std::int64_t l = 0; l < shape_.layers; ++l) {
    float* p = row + l * pad;
    kernels_.rmsnorm(p, op.inner_norm, n, eps, p);
    for (std::int64_t j = 0; j < n; ++j) p[j] = (p[j] + token_inputs[l * n + j] * root) * half;
  }
}

}  // namespace holdfast::cpu
