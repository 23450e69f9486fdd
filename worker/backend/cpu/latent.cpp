// Latent attention (DeepSeek-V2, arXiv 2405.04434): pages hold few numbers of each token, which all
// heads share. A matrix for each head takes queries to latent numbers, another takes attention's
// output back; in between it is attention with one head of keys, whose values are the keys.

#include <cstring>

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

/// y = w[i] h, in work items over both matrices.
void CpuExecutor::norm_latent(const PackedOp& op, int worker) {
  const Operand h = token_operand(op, x_, x_stride_, worker);
  const FloatRows query = shape_.q_latent > 0 ? FloatRows{m_, m_stride_} : FloatRows{a_, a_stride_};
  products_into(op, h, {query, {z_, a_stride_}}, worker);
}

/// The rows of q, from what kNormLatent computed for them.
void CpuExecutor::latent_query(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  const Share share = share_of(rows, worker, pool_.size());
  const std::int64_t n = shape_.q_latent, end = round_up(n, kSpan);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    float* row = m_ + i * m_stride_;
    std::memset(row + n, 0, static_cast<std::size_t>(end - n) * sizeof(float));
    kernels_.rmsnorm(row, op.norm, n, static_cast<float>(shape_.norm_eps), row);
  }
  pool_.barrier();
  PackedOp plain = op;  // the norm is done
  plain.norm = nullptr;
  const Operand x = operand(plain, m_, m_stride_, rows, decode_heavy_rows_, worker);
  products_into(op, x, {{a_, a_stride_}}, worker);
}

/// Computes all products of an operation with the same rows, each into its own destination.
void CpuExecutor::products_into(const PackedOp& op, const Operand& x,
                                std::initializer_list<FloatRows> to, int worker) {
  std::int64_t panels = 0;
  for (const PackedMatrix& m : op.matrix) panels += m.panels;
  const std::int64_t per = even_item_panels(panels, pool_.size());
  MatmulArgs args = product(op.matrix[0], x, worker);
  for_items(panels, per, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    std::int64_t before = 0;  // panels of the matrices before
    const PackedMatrix* m = op.matrix;
    for (const FloatRows& rows : to) {
      args.w = m;
      args.p0 = std::clamp<std::int64_t>(p0 - before, 0, m->panels);
      args.p1 = std::clamp<std::int64_t>(p1 - before, 0, m->panels);
      before += m++->panels;
      if (args.p0 == args.p1) continue;
      args.y = rows.at + args.p0 * kLanes;
      args.y_stride = rows.stride;
      multiply(args, x.decode_heavy_rows);
    }
  });
}

/// Writes row `i` of head `head`'s own operand: `n` numbers, and their encoding for its product.
void CpuExecutor::put_head_row(const PackedOp& op, std::int64_t head, std::int64_t i,
                               const float* from, std::int64_t n) {
  const std::int64_t at = head * static_cast<std::int64_t>(tokens_.size()) + i;
  float* row = n_ + at * n_stride_;
  const std::int64_t end = round_up(n, kSpan);
  std::memcpy(row, from, static_cast<std::size_t>(n) * sizeof(float));
  std::memset(row + n, 0, static_cast<std::size_t>(end - n) * sizeof(float));
  if (op.formed > 0) {
    encode_row(op, i >= decode_heavy_rows_, row,
               n_blocks_ + at * q_stride(op.activation_format, op.formed));
  }
}

/// The product of a head: its matrix of op.matrix[0] times its own rows.
MatmulArgs CpuExecutor::head_product(const PackedOp& op, std::int64_t head, int worker) const {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  const std::int64_t bytes = q_stride(op.activation_format, op.formed);
  Operand x;
  x.x = n_ + head * rows * n_stride_;
  x.x_stride = n_stride_;
  x.q = op.formed > 0 ? n_blocks_ + head * rows * bytes : nullptr;
  x.q_stride = bytes;
  x.rows = rows;
  x.int8 = op.int8;
  MatmulArgs args = product(op.matrix[0], x, worker);
  const std::int64_t each = op.matrix[0].panels / shape_.heads;
  args.p0 = head * each;
  args.p1 = args.p0 + each;
  return args;
}

/// Stores a token's latent numbers and its rotated part into the pages, as key and as value.
void CpuExecutor::store_latent(const PackedOp& op, const Token& token, const float* from,
                               float* row) {
  const auto at = [](std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(float); };
  std::memset(row, 0, at(head_pad_));
  std::memcpy(row, from, at(shape_.latent));
  kernels_.rmsnorm(row, op.norm, shape_.latent, static_cast<float>(shape_.norm_eps), row);
  std::memcpy(row + shape_.latent, from + shape_.latent, at(shape_.rope_dims));
  rotate(op.rope, row + shape_.latent, token.position);
  store(op, 1, 0, token, row);
  store(op, 2, 0, token, row);
}

void CpuExecutor::latent_heads(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  const std::int64_t plain = shape_.head_key - shape_.rope_dims;
  const Share share = share_of(rows, worker, pool_.size());
  float* row = workers_[static_cast<std::size_t>(worker)].latent;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    store_latent(op, tokens_[static_cast<std::size_t>(i)], z_ + i * a_stride_, row);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      put_head_row(op, h, i, a_ + i * a_stride_ + h * shape_.head_key, plain);
    }
  }
  pool_.barrier();
  for_items(shape_.heads, 1, op, worker, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t h = first; h < last; ++h) latent_head(op, h, worker);
  });
}

void CpuExecutor::latent_head(const PackedOp& op, std::int64_t head, int worker) {
  MatmulArgs args = head_product(op, head, worker);
  args.y = q_ + head * head_pad_;
  args.y_stride = q_stride_;
  multiply(args, decode_heavy_rows_);
  const std::int64_t plain = shape_.head_key - shape_.rope_dims;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto r = static_cast<std::int64_t>(i);
    float* to = args.y + r * q_stride_ + shape_.latent;
    std::memset(to, 0, static_cast<std::size_t>(head_pad_ - shape_.latent) * sizeof(float));
    std::memcpy(to, a_ + r * a_stride_ + head * shape_.head_key + plain,
                static_cast<std::size_t>(shape_.rope_dims) * sizeof(float));
    rotate(op.query_rope, to, tokens_[i].position);
  }
}

void CpuExecutor::latent_values(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  const std::int64_t n = shape_.heads * shape_.head_value, end = round_up(n, kSpan);
  const Share share = share_of(rows, worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      put_head_row(op, h, i, a_ + i * a_stride_ + h * shape_.head_dim, shape_.latent);
    }
    std::memset(m_ + i * m_stride_ + n, 0, static_cast<std::size_t>(end - n) * sizeof(float));
  }
  pool_.barrier();
  for_items(shape_.heads, 1, op, worker, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t h = first; h < last; ++h) {
      MatmulArgs args = head_product(op, h, worker);
      args.y = workers_[static_cast<std::size_t>(worker)].tile;
      args.y_stride = tile_cols_;
      multiply(args, decode_heavy_rows_);
      for (std::int64_t i = 0; i < rows; ++i) {
        std::memcpy(m_ + i * m_stride_ + h * shape_.head_value, args.y + i * tile_cols_,
                    static_cast<std::size_t>(shape_.head_value) * sizeof(float));
      }
    }
  });
}

}  // namespace holdfast::cpu
