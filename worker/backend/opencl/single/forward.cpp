// The operations of the program, each as a few kernels in order.

#include <algorithm>
#include <cmath>

#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/single/executor.h"

namespace holdfast::opencl {
namespace {

// The fused epilogue of a product (kernels/product.cl).
constexpr std::int32_t kStore = 0, kAdd = 1, kActivate = 2, kTimesActive = 3, kLogits = 4;

}  // namespace

void OpenclExecutor::run_op(const DeviceOp& op) {
  const auto rows = static_cast<std::int32_t>(tokens_.size());
  switch (op.kind) {
    case model::OpKind::kEmbed:
      return embed(op);
    case model::OpKind::kEmbedScaleAdd:
      return embed_scale_add(op);
    case model::OpKind::kNormQkv:
      return qkv(op);
    case model::OpKind::kQkNorm:
      return qk_norm(op);
    case model::OpKind::kAttention:
      return attend(op);
    case model::OpKind::kOutAdd:
      return op.of_states ? out_or_down(op, scratch_.v, false)
                          : out_or_down(op, scratch_.a, a_is_int8_);
    case model::OpKind::kDownAdd:
      return out_or_down(op, rows_of_f(op), f_is_int8_);
    case model::OpKind::kNormGateUp:
      return gate_up(op);
    case model::OpKind::kNormAdd:
      return norm(op, scratch_.h.get(), rows, scratch_.x.get(), true);
    case model::OpKind::kNorm:
      return norm(op, scratch_.x.get(), rows, scratch_.x.get(), false);
    case model::OpKind::kRoute:
      return route(op);
    case model::OpKind::kExpertGateUp:
      return expert_gate_up(op);
    case model::OpKind::kExpertDownAdd:
      return expert_down(op);
    case model::OpKind::kNormLogits:
      return logits(op);
    case model::OpKind::kNormLatent:
    case model::OpKind::kLatentQuery:
    case model::OpKind::kLatentHeads:
    case model::OpKind::kLatentValues:
    case model::OpKind::kLayerInputs:
    case model::OpKind::kNormStore:
      CHECK_MSG(false, "refused by backend::load");
    case model::OpKind::kNormDelta:
      return norm_delta(op);
    case model::OpKind::kDelta:
      return delta(op);
    case model::OpKind::kGateHeads:
      return gate_heads();
  }
}

void OpenclExecutor::embed(const DeviceOp& op) {
  look_up(op.products[0], op.column, false, false, 1);
}

/// Adds after scaling: first the position's row, then the type's.
void OpenclExecutor::embed_scale_add(const DeviceOp& op) {
  float scale = op.scale;
  if (!op.products.empty()) {
    look_up(op.products[0], 0, true, true, scale);
    scale = 1;
    if (op.types_at < 0) return;
  }
  queue_.run(kernels_.rescale, {static_cast<std::int64_t>(tokens_.size()), 1, kNormItems, 1},
             scratch_.x.get(), scratch_.x.stride, scale, weights_.vectors(), op.types_at,
             static_cast<std::int32_t>(shape_.width));
}

void OpenclExecutor::qkv(const DeviceOp& op) {
  const From from = normed(op, scratch_.x, static_cast<std::int32_t>(tokens_.size()));
  Into into;
  into.y = scratch_.qkv.get();
  into.stride = scratch_.qkv.stride;
  if (can_concat(op.products) && !in_tiles(from)) {
    product(op, op.products[0], from, into, {&op.products[1].matrix, true});
  } else {
    for (const Product& p : op.products) product(op, p, from, into);
  }
  for (const Product& gates : op.others) {
    into.y = scratch_.z.get();
    into.stride = scratch_.z.stride;
    product(op, gates, from, into);
  }
  if (op.may_finish && short_segments_) return;  // attention finishes the heads
  finish_heads(op, static_cast<std::int32_t>(shape_.heads + 2 * shape_.kv_heads), op.row_norm);
}

/// Norms over all heads of a token, then the rotation, and keys into their pages.
void OpenclExecutor::qk_norm(const DeviceOp& op) {
  const auto heads = static_cast<std::int32_t>(shape_.heads);
  const auto kv_heads = static_cast<std::int32_t>(shape_.kv_heads);
  norm_heads(0, heads, op.head_norm_at[0]);
  norm_heads(heads, kv_heads, op.head_norm_at[1]);
  finish_heads(op, heads + kv_heads, false);
}

/// The splits of attention to compute in parallel, as few rows leave most of a device idle; 0: one
/// after the other, where there is enough to do or too little memory. The bits are the same.
std::int32_t OpenclExecutor::sides() const {
  constexpr std::uint64_t kGroupsEach = 4;  // for each compute unit, to keep it busy
  std::int32_t end = 0;
  for (const Token& token : tokens_) end = std::max(end, token.end);
  const std::int32_t sides = (end + kSplitTokens - 1) / kSplitTokens;
  const auto groups = static_cast<std::uint64_t>(shape_.heads) * tokens_.size();
  if (sides < 2 || groups >= kGroupsEach * device_context_->device().compute_units) return 0;
  const auto floats = static_cast<std::uint64_t>(head_pad_ + 2) * static_cast<std::uint64_t>(sides);
  return groups * floats * sizeof(float) <= scratch_.attention_partials.bytes() ? sides : 0;
}

/// Attention also finishes the heads where each sequence has few tokens in the batch.
void OpenclExecutor::attend(const DeviceOp& op) {
  const auto layer = static_cast<std::size_t>(op.cache_layer);
  const std::int32_t sides = this->sides();
  const RopeTable rope_table = rope_table_of(op, op.may_finish);
  a_is_int8_ = leaves_int8_rows(op) && shape_.head_dim % kLanes == 0 && !op.gates_follow;
  const float scale =
      op.scale > 0 ? op.scale : 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  queue_.run(kernels_.attention,
             {shape_.heads * std::max(sides, 1), batch_rows(), kAttentionItems, 1},
             scratch_.qkv.get(), scratch_.qkv.stride, static_cast<std::int32_t>(shape_.head_dim),
             head_pad_, static_cast<std::int32_t>(shape_.heads),
             static_cast<std::int32_t>(shape_.kv_heads), scratch_.tokens.get(),
             scratch_.tables.get(), keys_[layer].get(), values_[layer].get(), page_bytes_,
             op.window, scale, op.cap, scratch_.a.get(), op.column, scratch_.a.stride, sides,
             sides > 0 ? scratch_.attention_partials.get() : scratch_.a.get(),
             std::int32_t{op.may_finish && short_segments_}, weights_.vectors(), op.bias_at[0],
             op.head_norm_at[0], op.head_norm_at[1], static_cast<float>(shape_.norm_eps),
             rope_table.table, rope_table.sin_at, rope_table.q_at, rope_table.pairs,
             rope_table.neox, op.sinks_at, std::int32_t{a_is_int8_});
  if (sides == 0) return;
  queue_.run(kernels_.merge_splits, {shape_.heads, batch_rows(), kAttentionItems, 1},
             scratch_.tokens.get(), op.window, static_cast<std::int32_t>(shape_.head_dim),
             head_pad_, static_cast<std::int32_t>(shape_.heads), sides,
             scratch_.attention_partials.get(), scratch_.a.get(), op.column, scratch_.a.stride,
             weights_.vectors(), op.sinks_at, std::int32_t{a_is_int8_});
}

void OpenclExecutor::out_or_down(const DeviceOp& op, const Rows& in, bool are_int8_rows) {
  From from;
  from.x = in.get();
  from.stride = in.stride;
  from.rows = static_cast<std::int32_t>(tokens_.size());
  if (capabilities_.int8_rows && !are_int8_rows) {
    pack_int8(from.x, from.stride, from.rows, op.inner, from.x);
  }
  if (op.to_h) h_is_int8_ = false;
  Into into;
  into.y = op.to_h ? scratch_.h.get() : scratch_.x.get();
  into.stride = scratch_.x.stride;
  into.mode = op.to_h ? kStore : kAdd;
  into.bias_at = op.bias_at[0];
  into.scale = op.scale;
  into.gate_rows = op.gate_rows;
  into.next_norm_at = op.next_norm_at;
  product(op, op.products[0], from, into);
}

void OpenclExecutor::gate_up(const DeviceOp& op) {
  const From from = normed(op, scratch_.x, static_cast<std::int32_t>(tokens_.size()));
  Into into;
  into.y = rows_of_f(op).get();
  into.stride = rows_of_f(op).stride;
  into.bias_at = op.bias_at[0];
  into.second_bias_at = op.bias_at[1];
  f_is_int8_ = gated_products(op, from, into);
}

/// act(the first product), times the second one where there is one. Gives true if the result is
/// stored as int8 rows.
bool OpenclExecutor::gated_products(const DeviceOp& op, const From& from, Into into) {
  const bool pack_int8 = leaves_int8_rows(op) && !in_tiles(from);
  if (op.gated && !in_tiles(from) && are_pair(op.products[0].matrix, op.products[1].matrix)) {
    into.pack_int8 = pack_int8;
    product(op, op.products[0], from, into, {&op.products[1].matrix, false});
    return pack_int8;
  }
  into.mode = op.gated ? kStore : kActivate;
  into.pack_int8 = pack_int8 && !op.gated;
  product(op, op.products[0], from, into);
  if (!op.gated) return pack_int8;
  into.pack_int8 = pack_int8;
  into.bias_at = into.second_bias_at;
  into.mode = kTimesActive;
  product(op, op.products[1], from, into);
  return pack_int8;
}

/// h = norm(x), the experts of each row by the scores w h, and the gate of the shared expert.
void OpenclExecutor::route(const DeviceOp& op) {
  const auto rows = static_cast<std::int32_t>(tokens_.size());
  const From from = normed(op, scratch_.x, rows);
  Into into;
  into.y = scratch_.scores.get();
  into.stride = scratch_.scores.stride;
  into.bias_at = op.bias_at[0];
  product(op, op.products[0], from, into);
  queue_.run(kernels_.choose_experts, {rows, 1, 1, 1}, scratch_.scores.get(),
             scratch_.scores.stride, static_cast<std::int32_t>(shape_.experts),
             static_cast<std::int32_t>(shape_.experts_used), std::int32_t{expert_norm_},
             std::int32_t{router_ == plan::Router::kSigmoid}, weights_.vectors(), op.choice_at,
             groups_, groups_used_, expert_scale_, scratch_.expert.get(), scratch_.weight.get());
  if (op.gate_at < 0) return;
  queue_.run(kernels_.open_gate, {rows, 1, kNormItems, 1}, from.x, from.stride, weights_.vectors(),
             op.gate_at, static_cast<std::int32_t>(shape_.width), scratch_.gate.get());
}

void OpenclExecutor::expert_gate_up(const DeviceOp& op) {
  From from;
  from.x = scratch_.h.get();
  from.stride = scratch_.h.stride;
  from.share = static_cast<std::int32_t>(shape_.experts_used);
  from.rows = static_cast<std::int32_t>(tokens_.size()) * from.share;
  from.slots = true;
  Into into;
  into.y = scratch_.e.get();
  into.stride = scratch_.e.stride;
  into.bias_at = op.bias_at[0];
  into.second_bias_at = op.bias_at[1];
  e_is_int8_ = gated_products(op, from, into);
}

void OpenclExecutor::expert_down(const DeviceOp& op) {
  const auto used = static_cast<std::int32_t>(shape_.experts_used);
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  From from;
  from.x = scratch_.e.get();
  from.stride = scratch_.e.stride;
  from.rows = static_cast<std::int32_t>(rows) * used;
  from.slots = true;
  if (capabilities_.int8_rows && !e_is_int8_) {
    pack_int8(from.x, from.stride, from.rows, shape_.expert_ff, from.x);
  }
  Into into;
  into.y = scratch_.d.get();
  into.stride = scratch_.d.stride;
  into.bias_at = op.bias_at[0];
  product(op, op.products[0], from, into);
  queue_.run(kernels_.add_slots, {rows, 1, kNormItems, 1}, scratch_.x.get(), scratch_.x.stride,
             op.column, op.columns > 0 ? op.columns : static_cast<std::int32_t>(shape_.width),
             scratch_.d.get(), scratch_.weight.get(), used, op.scale, weights_.vectors(),
             scratch_.h.get(), scratch_.squares.get(), scratch_.squares.stride, op.next_norm_at);
  if (op.next_norm_at >= 0) spread_for_ = op.next_norm_at;
}

/// Copies out the rows of logits before x, where hidden() is requested, is normed in place.
void OpenclExecutor::logits(const DeviceOp& op) {
  if (logit_row_count_ > 0) {
    queue_.run(kernels_.gather, {logit_row_count_, 1, kNormItems, 1}, scratch_.x.get(),
               scratch_.x.stride, scratch_.tables.get(), logit_rows_at_,
               scratch_.logit_inputs.get(), static_cast<std::int32_t>(shape_.width));
    const From from = normed(op, scratch_.logit_inputs, logit_row_count_);
    Into into;
    into.y = scratch_.logits.get();
    into.stride = scratch_.logits.stride;
    into.columns = vocab_;
    into.mode = kLogits;
    into.scale = op.scale;
    into.cap = op.cap;
    product(op, op.products[0], from, into);
  }
  if (best_n_ > 0) {
    queue_.run(kernels_.best_parts, {logit_row_count_, kBestParts, kNormItems, 1},
               scratch_.logits.get(), scratch_.logits.stride, vocab_, scratch_.best.get(),
               limits_.logit_rows);
    queue_.run(kernels_.best, {logit_row_count_, 1, kNormItems, 1}, scratch_.best.get(),
               limits_.logit_rows, std::int32_t{kBestParts});
  }
  if (top_n_ > 0) {
    queue_.run(kernels_.top_k, {logit_row_count_, 1, kNormItems, 1}, scratch_.logits.get(),
               scratch_.logits.stride, vocab_, scratch_.tables.get(),
               logit_rows_at_ + logit_row_count_, scratch_.top.get());
  }
  if (!hidden_requested_ || op.norm_at < 0) return;
  norm(op, scratch_.x.get(), static_cast<std::int32_t>(tokens_.size()), scratch_.x.get(), false);
}

}  // namespace holdfast::opencl
