// The operations of the program, each as a few kernels in order.

#include <algorithm>
#include <cmath>

#include "worker/backend/opencl/device/limits.h"
#include "worker/backend/opencl/single/operation_launcher.h"

namespace holdfast::opencl {
namespace {

// The fused epilogue of a product (kernels/epilogue.cl).
constexpr std::int32_t kStore = 0, kAdd = 1, kActivate = 2, kTimesActive = 3, kLogits = 4;

}  // namespace

void OperationLauncher::run(const DeviceOp& op) {
  const auto rows = static_cast<std::int32_t>(batch_.tokens.size());
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
      return op.of_states ? out_or_down(op, model_.scratch.v, false)
                          : out_or_down(op, model_.scratch.a, a_is_int8_);
    case model::OpKind::kDownAdd:
      return out_or_down(op, rows_of_f(op), f_is_int8_);
    case model::OpKind::kNormGateUp:
      return gate_up(op);
    case model::OpKind::kNormAdd:
      return norm(op, model_.scratch.h.get(), rows, model_.scratch.x.get(), true);
    case model::OpKind::kNorm:
      return norm(op, model_.scratch.x.get(), rows, model_.scratch.x.get(), false);
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

void OperationLauncher::embed(const DeviceOp& op) {
  look_up(op.products[0], op.column, false, false, 1);
}

/// Adds after scaling: first the position's row, then the type's.
void OperationLauncher::embed_scale_add(const DeviceOp& op) {
  float scale = op.scale;
  if (!op.products.empty()) {
    look_up(op.products[0], 0, true, true, scale);
    scale = 1;
    if (op.types_at < 0) return;
  }
  model_.queue.run(model_.kernels.rescale,
                   {static_cast<std::int64_t>(batch_.tokens.size()), 1, kNormItems, 1},
                   model_.scratch.x.get(), model_.scratch.x.stride, scale, model_.weights.vectors(),
                   op.types_at, static_cast<std::int32_t>(model_.shape.width));
}

void OperationLauncher::qkv(const DeviceOp& op) {
  const From from = normed(op, model_.scratch.x, static_cast<std::int32_t>(batch_.tokens.size()));
  Into into;
  into.y = model_.scratch.qkv.get();
  into.stride = model_.scratch.qkv.stride;
  if (can_concat(op.products) && !in_tiles(from)) {
    product(op, op.products[0], from, into, {&op.products[1].matrix, true});
  } else {
    for (const Product& p : op.products) product(op, p, from, into);
  }
  for (const Product& gates : op.others) {
    into.y = model_.scratch.z.get();
    into.stride = model_.scratch.z.stride;
    product(op, gates, from, into);
  }
  if (op.may_finish && batch_.short_segments) return;  // attention finishes the heads
  finish_heads(op, static_cast<std::int32_t>(model_.shape.heads + 2 * model_.shape.kv_heads),
               op.row_norm);
}

/// Norms over all heads of a token, then the rotation, and keys into their pages.
void OperationLauncher::qk_norm(const DeviceOp& op) {
  const auto heads = static_cast<std::int32_t>(model_.shape.heads);
  const auto kv_heads = static_cast<std::int32_t>(model_.shape.kv_heads);
  norm_heads(0, heads, op.head_norm_at[0]);
  norm_heads(heads, kv_heads, op.head_norm_at[1]);
  finish_heads(op, heads + kv_heads, false);
}

/// The splits of attention to compute in parallel, as few rows leave most of a device idle; 0: one
/// after the other, where there is enough to do or too little memory. The bits are the same.
std::int32_t OperationLauncher::sides() const {
  constexpr std::uint64_t kGroupsEach = 4;  // for each compute unit, to keep it busy
  std::int32_t end = 0;
  for (const Token& token : batch_.tokens) end = std::max(end, token.end);
  const std::int32_t sides = (end + kSplitTokens - 1) / kSplitTokens;
  const auto groups = static_cast<std::uint64_t>(model_.shape.heads) * batch_.tokens.size();
  if (sides < 2 || groups >= kGroupsEach * model_.device_context->device().compute_units) return 0;
  const auto floats =
      static_cast<std::uint64_t>(model_.head_pad + 2) * static_cast<std::uint64_t>(sides);
  return groups * floats * sizeof(float) <= model_.scratch.attention_partials.bytes() ? sides : 0;
}

/// Attention also finishes the heads where each sequence has few tokens in the batch.
void OperationLauncher::attend(const DeviceOp& op) {
  const auto layer = static_cast<std::size_t>(op.cache_layer);
  const std::int32_t sides = this->sides();
  const HeadFinish finish = finish_of(op, op.may_finish);
  a_is_int8_ = leaves_int8_rows(op) && model_.shape.head_dim % kLanes == 0 && !op.gates_follow;
  const float scale =
      op.scale > 0 ? op.scale : 1.0f / std::sqrt(static_cast<float>(model_.shape.head_dim));
  const AttentionParameters parameters{
      .window = op.window,
      .scale = scale,
      .cap = op.cap,
      .out_at = op.column,
      .out_stride = model_.scratch.a.stride,
      .sides = sides,
      .fresh = op.may_finish && batch_.short_segments,
      .sinks_at = op.sinks_at,
      .pack_int8 = a_is_int8_,
  };
  model_.queue.run(
      model_.kernels.attention,
      {model_.shape.heads * std::max(sides, 1), batch_.rows(), kAttentionItems, 1},
      model_.scratch.qkv.get(), model_.scratch.tokens.get(), model_.scratch.tables.get(),
      model_.keys[layer].get(), model_.values[layer].get(), model_.scratch.a.get(),
      sides > 0 ? model_.scratch.attention_partials.get() : model_.scratch.a.get(),
      model_.weights.vectors(), finish.table, heads_of(false), finish.parameters, parameters);
  if (sides == 0) return;
  model_.queue.run(
      model_.kernels.merge_splits, {model_.shape.heads, batch_.rows(), kAttentionItems, 1},
      model_.scratch.tokens.get(), op.window, static_cast<std::int32_t>(model_.shape.head_dim),
      model_.head_pad, static_cast<std::int32_t>(model_.shape.heads), sides,
      model_.scratch.attention_partials.get(), model_.scratch.a.get(), op.column,
      model_.scratch.a.stride, model_.weights.vectors(), op.sinks_at, std::int32_t{a_is_int8_});
}

void OperationLauncher::out_or_down(const DeviceOp& op, const Rows& in, bool are_int8_rows) {
  From from;
  from.x = in.get();
  from.stride = in.stride;
  from.rows = static_cast<std::int32_t>(batch_.tokens.size());
  if (model_.capabilities.int8_rows && !are_int8_rows) {
    pack_int8(from.x, from.stride, from.rows, op.inner, from.x);
  }
  if (op.to_h) h_is_int8_ = false;
  Into into;
  into.y = op.to_h ? model_.scratch.h.get() : model_.scratch.x.get();
  into.stride = model_.scratch.x.stride;
  into.mode = op.to_h ? kStore : kAdd;
  into.bias_at = op.bias_at[0];
  into.scale = op.scale;
  into.gate_rows = op.gate_rows;
  into.next_norm_at = op.next_norm_at;
  product(op, op.products[0], from, into);
}

void OperationLauncher::gate_up(const DeviceOp& op) {
  const From from = normed(op, model_.scratch.x, static_cast<std::int32_t>(batch_.tokens.size()));
  Into into;
  into.y = rows_of_f(op).get();
  into.stride = rows_of_f(op).stride;
  into.bias_at = op.bias_at[0];
  into.second_bias_at = op.bias_at[1];
  f_is_int8_ = gated_products(op, from, into);
}

/// act(the first product), times the second one where there is one. Gives true if the result is
/// stored as int8 rows.
bool OperationLauncher::gated_products(const DeviceOp& op, const From& from, Into into) {
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
void OperationLauncher::route(const DeviceOp& op) {
  const auto rows = static_cast<std::int32_t>(batch_.tokens.size());
  const From from = normed(op, model_.scratch.x, rows);
  Into into;
  into.y = model_.scratch.scores.get();
  into.stride = model_.scratch.scores.stride;
  into.bias_at = op.bias_at[0];
  product(op, op.products[0], from, into);
  model_.queue.run(
      model_.kernels.choose_experts, {rows, 1, 1, 1}, model_.scratch.scores.get(),
      model_.scratch.scores.stride, static_cast<std::int32_t>(model_.shape.experts),
      static_cast<std::int32_t>(model_.shape.experts_used), std::int32_t{model_.experts.norm},
      std::int32_t{model_.experts.router == plan::Router::kSigmoid}, model_.weights.vectors(),
      op.choice_at, model_.experts.groups, model_.experts.groups_used, model_.experts.scale,
      model_.scratch.expert.get(), model_.scratch.weight.get());
  if (op.gate_at < 0) return;
  model_.queue.run(model_.kernels.open_gate, {rows, 1, kNormItems, 1}, from.x, from.stride,
                   model_.weights.vectors(), op.gate_at,
                   static_cast<std::int32_t>(model_.shape.width), model_.scratch.gate.get());
}

void OperationLauncher::expert_gate_up(const DeviceOp& op) {
  From from;
  from.x = model_.scratch.h.get();
  from.stride = model_.scratch.h.stride;
  from.share = static_cast<std::int32_t>(model_.shape.experts_used);
  from.rows = static_cast<std::int32_t>(batch_.tokens.size()) * from.share;
  from.slots = true;
  Into into;
  into.y = model_.scratch.e.get();
  into.stride = model_.scratch.e.stride;
  into.bias_at = op.bias_at[0];
  into.second_bias_at = op.bias_at[1];
  e_is_int8_ = gated_products(op, from, into);
}

void OperationLauncher::expert_down(const DeviceOp& op) {
  const auto used = static_cast<std::int32_t>(model_.shape.experts_used);
  const auto rows = static_cast<std::int64_t>(batch_.tokens.size());
  From from;
  from.x = model_.scratch.e.get();
  from.stride = model_.scratch.e.stride;
  from.rows = static_cast<std::int32_t>(rows) * used;
  from.slots = true;
  if (model_.capabilities.int8_rows && !e_is_int8_) {
    pack_int8(from.x, from.stride, from.rows, model_.shape.expert_ff, from.x);
  }
  Into into;
  into.y = model_.scratch.d.get();
  into.stride = model_.scratch.d.stride;
  into.bias_at = op.bias_at[0];
  product(op, op.products[0], from, into);
  model_.queue.run(model_.kernels.add_slots, {rows, 1, kNormItems, 1}, model_.scratch.x.get(),
                   model_.scratch.x.stride, op.column,
                   op.columns > 0 ? op.columns : static_cast<std::int32_t>(model_.shape.width),
                   model_.scratch.d.get(), model_.scratch.weight.get(), used, op.scale,
                   model_.weights.vectors(), model_.scratch.h.get(), model_.scratch.squares.get(),
                   model_.scratch.squares.stride, op.next_norm_at);
  if (op.next_norm_at >= 0) spread_for_ = op.next_norm_at;
}

/// Copies out the rows of logits before x, where hidden() is requested, is normed in place.
void OperationLauncher::logits(const DeviceOp& op) {
  if (batch_.logit_row_count > 0) {
    model_.queue.run(model_.kernels.gather, {batch_.logit_row_count, 1, kNormItems, 1},
                     model_.scratch.x.get(), model_.scratch.x.stride, model_.scratch.tables.get(),
                     batch_.logit_rows_at, model_.scratch.logit_inputs.get(),
                     static_cast<std::int32_t>(model_.shape.width));
    const From from = normed(op, model_.scratch.logit_inputs, batch_.logit_row_count);
    Into into;
    into.y = model_.scratch.logits.get();
    into.stride = model_.scratch.logits.stride;
    into.columns = model_.vocab;
    into.mode = kLogits;
    into.scale = op.scale;
    into.cap = op.cap;
    product(op, op.products[0], from, into);
  }
  if (batch_.greatest_n > 0) {
    model_.queue.run(model_.kernels.best_parts, {batch_.logit_row_count, kBestParts, kNormItems, 1},
                     model_.scratch.logits.get(), model_.scratch.logits.stride, model_.vocab,
                     model_.scratch.best.get(), model_.limits.logit_rows);
    model_.queue.run(model_.kernels.best, {batch_.logit_row_count, 1, kNormItems, 1},
                     model_.scratch.best.get(), model_.limits.logit_rows, std::int32_t{kBestParts});
  }
  if (batch_.top_n > 0) {
    model_.queue.run(model_.kernels.top_k, {batch_.logit_row_count, 1, kNormItems, 1},
                     model_.scratch.logits.get(), model_.scratch.logits.stride, model_.vocab,
                     model_.scratch.tables.get(), batch_.logit_rows_at + batch_.logit_row_count,
                     model_.scratch.top.get());
  }
  if (!batch_.hidden_requested || op.norm_at < 0) return;
  norm(op, model_.scratch.x.get(), static_cast<std::int32_t>(batch_.tokens.size()),
       model_.scratch.x.get(), false);
}

}  // namespace holdfast::opencl
