#include "worker/backend/cpu/latent.h"

#include <cstring>

namespace holdfast::cpu {

void LatentAttention::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kNormLatent) return norm_latent(op, worker);
  if (op.kind == model::OpKind::kLatentQuery) return make_query(op, worker);
  if (op.kind == model::OpKind::kLatentHeads) return store_and_split_heads(op, worker);
  values(op, worker);
}

/// y = w[i] h, in work items over both matrices.
void LatentAttention::norm_latent(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, buffers_.residual, worker);
  const FloatRows& query = shape_.q_latent > 0 ? buffers_.mixer_input : buffers_.attention_out;
  products_into(op, h, {query, buffers_.gate}, worker);
}

/// The rows of q, from what kNormLatent computed for them.
void LatentAttention::make_query(const PackedOp& op, int worker) {
  const Share share = rows_of_worker(worker);
  const std::int64_t n = shape_.q_latent, end = round_up(n, kSpan);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    float* row = buffers_.mixer_input.row(i);
    std::memset(row + n, 0, float_bytes(end - n));
    kernels_.rmsnorm(row, op.norm, n, norm_eps(), row);
  }
  pool_.barrier();
  PackedOp plain = op;  // the norm is done
  plain.norm = nullptr;
  const Operand x =
      operand(plain, buffers_.mixer_input, batch_.rows(), batch_.decode_heavy_rows(), worker);
  products_into(op, x, {buffers_.attention_out}, worker);
}

/// Writes row `i` of head `head`'s own operand: `n` numbers, and their encoding for its product.
void LatentAttention::put_head_row(const PackedOp& op, std::int64_t head, std::int64_t i,
                                   const float* from, std::int64_t n) {
  const std::int64_t at = head * batch_.rows() + i;
  float* row = buffers_.head_input.row(at);
  std::memcpy(row, from, float_bytes(n));
  std::memset(row + n, 0, float_bytes(round_up(n, kSpan) - n));
  if (op.encoding.floats > 0) {
    encode_row(op, i >= batch_.decode_heavy_rows(), row,
               buffers_.head_encoded + at * encoded_stride(op));
  }
}

/// The product of a head: its matrix of op.matrix[0] times its own rows.
MatmulArgs LatentAttention::head_product(const PackedOp& op, std::int64_t head, int worker) const {
  const std::int64_t rows = batch_.rows();
  const std::int64_t bytes = encoded_stride(op);
  Operand x;
  x.x = buffers_.head_input.row(head * rows);
  x.x_stride = buffers_.head_input.stride;
  x.q = op.encoding.floats > 0 ? buffers_.head_encoded + head * rows * bytes : nullptr;
  x.q_stride = bytes;
  x.rows = rows;
  x.int8 = op.encoding.int8;
  MatmulArgs args = product(op.matrix[0], x, worker);
  const std::int64_t each = op.matrix[0].panels / shape_.heads;
  args.p0 = head * each;
  args.p1 = args.p0 + each;
  return args;
}

/// Stores a token's latent numbers and its rotated part into the pages, as key and as value.
void LatentAttention::store_latent(const PackedOp& op, const Token& token, const float* from,
                                   float* row) {
  std::memset(row, 0, float_bytes(buffers_.head_pad));
  std::memcpy(row, from, float_bytes(shape_.latent));
  kernels_.rmsnorm(row, op.norm, shape_.latent, norm_eps(), row);
  std::memcpy(row + shape_.latent, from + shape_.latent, float_bytes(shape_.rope_dims));
  rotate(op.heads.rope, row + shape_.latent, token.position);
  store(op, 1, 0, token, row);
  store(op, 2, 0, token, row);
}

void LatentAttention::store_and_split_heads(const PackedOp& op, int worker) {
  const std::int64_t plain = shape_.head_key - shape_.rope_dims;
  const Share share = rows_of_worker(worker);
  float* row = scratch_of(worker).latent;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    store_latent(op, batch_.token(i), buffers_.gate.row(i), row);
    const float* query = buffers_.attention_out.row(i);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      put_head_row(op, h, i, query + h * shape_.head_key, plain);
    }
  }
  pool_.barrier();
  for_items(shape_.heads, 1, op, worker, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t h = first; h < last; ++h) latent_head(op, h, worker);
  });
}

/// Computes a head's latent numbers and adds its rotated part.
void LatentAttention::latent_head(const PackedOp& op, std::int64_t head, int worker) {
  const std::int64_t pad = buffers_.head_pad;
  MatmulArgs args = head_product(op, head, worker);
  args.y = buffers_.query.at + head * pad;
  args.y_stride = buffers_.query.stride;
  multiply(args, batch_.decode_heavy_rows());
  const std::int64_t plain = shape_.head_key - shape_.rope_dims;
  for (std::int64_t i = 0; i < batch_.rows(); ++i) {
    float* to = args.y + i * args.y_stride + shape_.latent;
    std::memset(to, 0, float_bytes(pad - shape_.latent));
    std::memcpy(to, buffers_.attention_out.row(i) + head * shape_.head_key + plain,
                float_bytes(shape_.rope_dims));
    rotate(op.heads.query_rope, to, batch_.token(i).position);
  }
}

void LatentAttention::values(const PackedOp& op, int worker) {
  const std::int64_t n = shape_.heads * shape_.head_value;
  const Share share = rows_of_worker(worker);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      put_head_row(op, h, i, buffers_.attention_out.row(i) + h * shape_.head_dim, shape_.latent);
    }
  }
  clear_ends(buffers_.mixer_input, share.first, share.last - share.first, n);
  pool_.barrier();
  for_items(shape_.heads, 1, op, worker, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t h = first; h < last; ++h) head_values(op, h, worker);
  });
}

void LatentAttention::head_values(const PackedOp& op, std::int64_t head, int worker) {
  MatmulArgs args = head_product(op, head, worker);
  args.y = scratch_of(worker).tile;
  args.y_stride = buffers_.tile_cols;
  multiply(args, batch_.decode_heavy_rows());
  for (std::int64_t i = 0; i < args.rows; ++i) {
    std::memcpy(buffers_.mixer_input.row(i) + head * shape_.head_value, args.y + i * args.y_stride,
                float_bytes(shape_.head_value));
  }
}

}  // namespace holdfast::cpu
