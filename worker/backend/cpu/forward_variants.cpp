// Operations that only some architectures have: other norms and positions of norms, biases, learned
// positions, activations other than SiLU. Rows are divided among the threads; each row is computed
// by itself, so none of this depends on the batch.

#include <cmath>
#include <cstring>

#include "shared/gguf/quants.h"
#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

void CpuExecutor::norm_row(const PackedOp& op, const float* x, float* out) const {
  const auto eps = static_cast<float>(shape_.norm_eps);
  if (op.norm_kind == plan::NormKind::kRms) {
    kernels_.rmsnorm(x, op.norm, shape_.width, eps, out);
  } else {
    kernels_.layernorm(x, op.norm, op.norm_bias, shape_.width, eps, out);
  }
}

void CpuExecutor::norm_inner(const PackedOp& op, const float* x, float* out) const {
  kernels_.rmsnorm(x, op.inner_norm, shape_.width, static_cast<float>(shape_.norm_eps), out);
}

void CpuExecutor::embed_scale_add(const PackedOp& op, int worker) {
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  const std::int64_t n = round_up(shape_.width, kLanes);
  float* row = workers_[static_cast<std::size_t>(worker)].row;
  std::memset(row, 0, static_cast<std::size_t>(n) * sizeof(float));
  for (std::int64_t i = share.first; i < share.last; ++i) {
    float* x = x_ + i * x_stride_;
    if (op.scale != 1) kernels_.scale_cap(x, op.scale, 0, n);
    if (positions_.rows != nullptr) {
      const std::int64_t position = tokens_[static_cast<std::size_t>(i)].position;
      const auto done = gguf::dequantize_row(
          positions_.type,
          positions_.rows + static_cast<std::size_t>(position) * positions_.row_bytes, row,
          static_cast<std::uint64_t>(shape_.width));
      CHECK(done.has_value());  // the loader has read every row
      kernels_.add(x, row, n);
    }
    if (op.types != nullptr) kernels_.add(x, op.types, n);
  }
}

/// Computes each layer's own input: a product with the embedding, normed a layer at a time, and a
/// row of the token's own (Gemma 3n's model card: per-layer embeddings).
void CpuExecutor::layer_inputs(const PackedOp& op, int worker) {
  const auto floats = [](std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(float); };
  run_product_items(op, x_, x_stride_, worker,
                    [&](const float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      std::memcpy(p_ + i * p_stride_ + p0 * kLanes, y, floats(n));
                    });
  pool_.barrier();
  const std::int64_t n = shape_.layer_input, pad = round_up(n, kLanes);
  // The norm is of the product over √width, whose mean square is `width` times smaller: eps grows.
  const auto eps = static_cast<float>(shape_.norm_eps * static_cast<double>(shape_.width));
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(n)));
  const auto half = static_cast<float>(std::sqrt(0.5));
  float* token_inputs = workers_[static_cast<std::size_t>(worker)].inputs;
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const auto id = static_cast<std::size_t>(tokens_[static_cast<std::size_t>(i)].id);
    const auto done =
        gguf::dequantize_row(layer_inputs_.type, layer_inputs_.rows + id * layer_inputs_.row_bytes,
                             token_inputs, static_cast<std::uint64_t>(shape_.layers * n));
    CHECK(done.has_value());  // the loader has read every row
    for (std::int64_t l = 0; l < shape_.layers; ++l) {
      float* p = p_ + i * p_stride_ + l * pad;
      kernels_.rmsnorm(p, op.inner_norm, n, eps, p);
      for (std::int64_t j = 0; j < n; ++j) p[j] = (p[j] + token_inputs[l * n + j] * root) * half;
    }
  }
}

void CpuExecutor::rotate(std::int32_t rope, float* head, std::int64_t position) const {
  if (rope < 0) return;
  const RopeTable& table = rope_tables_[rope];
  kernels_.rope(
      head, {table.cos + position * table.pairs, table.sin + position * table.pairs,
             static_cast<std::int32_t>(table.pairs), shape_.rope_style == plan::RopeStyle::kNeox});
}

/// Stores a token's key (1) or value (2) of one head into its page.
void CpuExecutor::store(const PackedOp& op, int which, std::int64_t head, const Token& token,
                        const float* values) {
  const backend::Segment& segment = (*segments_)[static_cast<std::size_t>(token.segment)];
  const std::int64_t page = segment.pages[token.position / kPageTokens];
  const HeadKind& kind = kind_of(op);
  std::uint8_t* at = page_of(op, which == 2, head) + page * kind.page_bytes;
  const auto slot = static_cast<std::int32_t>(token.position % kPageTokens);
  if (which == 1) {
    kernels_.store_key(values, static_cast<std::int32_t>(kind.head_dim), slot, kv_type_, at);
  } else {
    kernels_.store_value(values, static_cast<std::int32_t>(kind.pad), slot, kv_type_, at);
  }
}

/// Norms q and k over all heads of a token, then does what finish_head does for one head.
void CpuExecutor::norm_qk(const PackedOp& op, int worker) {
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  const auto eps = static_cast<float>(shape_.norm_eps);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const Token& token = tokens_[static_cast<std::size_t>(i)];
    float* q = q_ + i * q_stride_;
    float* k = k_ + i * k_stride_;
    kernels_.rmsnorm_spread(q, op.head_norm[0], shape_.heads * head_pad_,
                            shape_.heads * shape_.head_dim, eps, q);
    kernels_.rmsnorm_spread(k, op.head_norm[1], shape_.kv_heads * head_pad_,
                            shape_.kv_heads * shape_.head_dim, eps, k);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      rotate(op.query_rope, q + h * head_pad_, token.position);
    }
    for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
      rotate(op.rope, k + h * head_pad_, token.position);
      store(op, 1, h, token, k + h * head_pad_);
    }
  }
}

/// kOutAdd and kDownAdd with a bias, a scale, or h as the destination.
void CpuExecutor::product_general(const PackedOp& op, const float* x, std::int64_t stride,
                                  int worker) {
  run_product_items(op, x, stride, worker,
                    [&](float* y, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      float* to = (op.to_h ? h_ : x_) + i * x_stride_ + p0 * kLanes;
                      if (op.bias[0] != nullptr) kernels_.add(y, op.bias[0] + p0 * kLanes, n);
                      const float scale = op.gate_rows ? op.scale * routing_.gate[i] : op.scale;
                      if (op.to_h) {
                        std::memcpy(to, y, static_cast<std::size_t>(n) * sizeof(float));
                      } else {
                        kernels_.add_scaled(to, y, scale, n);
                      }
                    });
}

/// kNormGateUp with biases, without a gate, or with another activation.
void CpuExecutor::gate_up_general(const PackedOp& op, int worker) {
  run_gate_up_items(op, worker,
                    [&](float* f, float* up, std::int64_t i, std::int64_t p0, std::int64_t n) {
                      if (op.bias[0] != nullptr) kernels_.add(f, op.bias[0] + p0 * kLanes, n);
                      if (op.bias[1] != nullptr) kernels_.add(up, op.bias[1] + p0 * kLanes, n);
                      if (op.by_input) up = p_ + i * p_stride_ + op.input_at + p0 * kLanes;
                      kernels_.activate(op.activate, f, up, n);
                    });
}

void CpuExecutor::norm_store(const PackedOp& op, int worker) {
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    norm_row(op, h_ + i * x_stride_, s_ + i * x_stride_);
  }
}

void CpuExecutor::norm_add(const PackedOp& op, int worker) {
  const std::int64_t n = round_up(shape_.width, kLanes);
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  float* row = workers_[static_cast<std::size_t>(worker)].row;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const float* h = h_ + i * x_stride_;
    if (op.inner_norm != nullptr) {
      norm_inner(op, h, row);
      kernels_.add(s_ + i * x_stride_, row, n);
      h = s_ + i * x_stride_;
    }
    norm_row(op, h, row);
    kernels_.add_scaled(x_ + i * x_stride_, row, op.scale, n);
    if (op.factor != nullptr) kernels_.scale_cap(x_ + i * x_stride_, *op.factor, 0, n);
  }
}

void CpuExecutor::norm_self(const PackedOp& op, int worker) {
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    norm_row(op, x_ + i * x_stride_, x_ + i * x_stride_);
  }
}

/// Norms the rows of segments with `hidden` in place: rows that logits are computed of have been
/// copied.
void CpuExecutor::finish_hidden(const PackedOp& op, int worker) {
  if (!hidden_requested_) return;
  const Share share = share_of(static_cast<std::int64_t>(tokens_.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    const Token& token = tokens_[static_cast<std::size_t>(i)];
    if (!(*segments_)[static_cast<std::size_t>(token.segment)].hidden) continue;
    float* x = x_ + i * x_stride_;
    if (op.norm != nullptr) norm_row(op, x, x);
    if (kernels_.all_finite(x, shape_.width)) continue;
    bad_token_.store(static_cast<std::int32_t>(i), std::memory_order_relaxed);
  }
}

}  // namespace holdfast::cpu
