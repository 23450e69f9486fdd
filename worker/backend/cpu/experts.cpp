#include "worker/backend/cpu/experts.h"

#include <cstring>

namespace holdfast::cpu {
namespace {

/// even_item_panels() over the panels of several experts.
std::int64_t expert_item_panels(std::int64_t panels, std::int64_t groups, int threads) {
  std::int64_t per = kTilePanels;
  while (per > 2 && panels / per * groups < 6 * threads) per /= 2;
  return per;
}

}  // namespace

void Experts::run(const PackedOp& op, int worker) {
  if (op.kind == model::OpKind::kExpertGateUp) return gate_up(op, worker);
  down(op, worker);
}

/// operand() for slots: a slot's kernel class is that of its token.
Operand Experts::slot_operand(const PackedOp& op, const FloatRows& x, int worker) {
  const std::int64_t all = slots();
  const std::int64_t decode_heavy_rows = batch_.decode_heavy_rows() * shape_.experts_used;
  if (decode_heavy_rows == 0 || decode_heavy_rows == all)
    return operand(op, x, all, decode_heavy_rows, worker);
  CHECK(op.norm == nullptr && !op.from_h);
  const std::int64_t q_bytes = encoded_stride(op);
  const bool encoded = op.encoding.floats > 0;
  const Share share = share_of(all, worker, pool_.size());
  for (std::int64_t s = share.first; s < share.last && encoded; ++s) {
    encode_row(op, buffers_.routing.slot_row[s] >= batch_.decode_heavy_rows(), x.row(s),
               buffers_.encoded + s * q_bytes);
  }
  pool_.barrier();
  const std::uint8_t* q = encoded ? buffers_.encoded : nullptr;
  return {x.at, x.stride, q, q_bytes, all, decode_heavy_rows, op.encoding.int8};
}

/// The rows of `rows` slots from `first` on, all of one expert, so ordered by token.
Operand Experts::part(const Operand& all, std::int64_t first, std::int64_t rows) const {
  Operand r = rows_of(all, first, rows);
  const std::int32_t* row = buffers_.routing.slot_row + first;
  r.decode_heavy_rows = std::lower_bound(row, row + rows, batch_.decode_heavy_rows()) - row;
  return r;
}

Experts::Item Experts::item_of(std::int64_t group, std::int64_t p0, std::int64_t p1) const {
  const Routing& r = buffers_.routing;
  const std::int32_t expert = r.group[group];
  const std::int64_t first = r.first[expert];
  return {expert, first, r.first[expert + 1] - first, p0, p1};
}

void Experts::gate_up(const PackedOp& op, int worker) {
  const Routing& r = buffers_.routing;
  const std::int64_t panels = op.matrix[0].group_panels;
  const std::int64_t per = expert_item_panels(panels, r.groups, pool_.size());
  const std::int64_t items_each = (panels + per - 1) / per;
  const bool one = batch_.rows() == 1;
  const Operand all = one ? operand(op, buffers_.normed, 1, batch_.decode_heavy_rows(), worker)
                          : slot_operand(op, r.input, worker);
  for_items(r.groups * items_each, 1, op, worker, [&](std::int64_t at, std::int64_t) {
    const std::int64_t p0 = at % items_each * per;
    const Item item = item_of(at / items_each, p0, std::min(p0 + per, panels));
    gate_up_item(op, item, one ? all : part(all, item.first, item.rows), worker);
  });
}

void Experts::gate_up_item(const PackedOp& op, const Item& item, const Operand& rows, int worker) {
  const std::int64_t panels = op.matrix[0].group_panels;
  const bool both = op.matrix[1].panels == 0;  // gate and up are in one matrix
  const std::int64_t n = (item.p1 - item.p0) * kLanes;
  const FloatRows f{buffers_.expert_feed_forward.row(item.first) + item.p0 * kLanes,
                    buffers_.expert_feed_forward.stride};
  const FloatRows tile{scratch_of(worker).tile, buffers_.tile_cols};
  MatmulArgs args = product(op.matrix[0], rows, worker);
  args.p0 = item.expert * (both ? 2 : 1) * panels + item.p0;
  args.p1 = args.p0 + (item.p1 - item.p0);
  args.y = f.at;
  args.y_stride = f.stride;
  multiply(args, rows.decode_heavy_rows);
  add_bias(op.bias[0], args.p0, f, item.rows, n);
  if (both) {
    args.p0 += panels;
    args.p1 += panels;
  } else {
    args.w = &op.matrix[1];
  }
  args.y = tile.at;
  args.y_stride = tile.stride;
  multiply(args, rows.decode_heavy_rows);
  add_bias(op.bias[1], args.p0, tile, item.rows, n);
  for (std::int64_t i = 0; i < item.rows; ++i) {
    kernels_.activate(op.activate, f.row(i), tile.row(i), n);
  }
}

/// Clears panels [p0, p1) of the rows of h, before sums are added there.
void Experts::clear_normed(std::int64_t p0, std::int64_t p1) const {
  for (std::int64_t i = 0; i < batch_.rows(); ++i) {
    std::memset(buffers_.normed.row(i) + p0 * kLanes, 0, float_bytes((p1 - p0) * kLanes));
  }
}

void Experts::down(const PackedOp& op, int worker) {
  const std::int64_t panels = op.matrix[0].group_panels;
  const Operand all = slot_operand(op, buffers_.expert_feed_forward, worker);
  for_items(panels, even_item_panels(panels, pool_.size()), op, worker,
            [&](std::int64_t p0, std::int64_t p1) {
              if (op.to_h) clear_normed(p0, p1);
              for (std::int32_t g = 0; g < buffers_.routing.groups; ++g) {
                const Item item = item_of(g, p0, p1);
                down_item(op, item, part(all, item.first, item.rows), worker);
              }
            });
}

void Experts::down_item(const PackedOp& op, const Item& item, const Operand& rows, int worker) {
  const Routing& r = buffers_.routing;
  const FloatRows& out = op.to_h ? buffers_.normed : buffers_.residual;
  const FloatRows tile{scratch_of(worker).tile, buffers_.tile_cols};
  const std::int64_t before = item.expert * op.matrix[0].group_panels;
  const std::int64_t n = (item.p1 - item.p0) * kLanes;
  MatmulArgs args = product(op.matrix[0], rows, worker);
  args.p0 = before + item.p0;
  args.p1 = before + item.p1;
  args.y = tile.at;
  args.y_stride = tile.stride;
  multiply(args, rows.decode_heavy_rows);
  add_bias(op.bias[0], args.p0, tile, item.rows, n);
  for (std::int64_t i = 0; i < item.rows; ++i) {
    const std::int64_t slot = item.first + i;
    kernels_.add_scaled(out.row(r.slot_row[slot]) + item.p0 * kLanes, tile.row(i),
                        op.scale * r.slot_weight[slot], n);
  }
}

}  // namespace holdfast::cpu
