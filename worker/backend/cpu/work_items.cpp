#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {

std::int64_t Products::encoded_stride(const ActivationFormats& formats, std::int64_t floats) const {
  constexpr std::int64_t kLine = 64;
  const std::int64_t decode_heavy_rows = batch_.decode_heavy_rows();
  const auto block_bytes = [](const ActivationFormat* format) {
    return format != nullptr ? format->block_bytes : 0;
  };
  const std::int64_t decode_heavy_block = block_bytes(formats.decode_heavy);
  const std::int64_t prefill_heavy_block = block_bytes(formats.prefill_heavy);
  const bool all_decode_heavy = decode_heavy_rows == batch_.rows();
  const std::int64_t block = decode_heavy_rows == 0 ? prefill_heavy_block
                             : all_decode_heavy     ? decode_heavy_block
                                                : std::max(decode_heavy_block, prefill_heavy_block);
  return (round_up(floats / kActivationBlock * block, kLine) / kLine | 1) * kLine;
}

void Products::encode_row(const PackedOp& op, bool prefill_heavy, const float* x, std::uint8_t* q) {
  const ActivationFormats& formats = op.encoding.formats;
  const ActivationFormat* format = prefill_heavy ? formats.prefill_heavy : formats.decode_heavy;
  if (format != nullptr) format->make(x, op.encoding.floats, q);
}

Operand Products::operand(const PackedOp& op, const FloatRows& x, std::int64_t rows,
                          std::int64_t decode_heavy_rows, int worker) {
  const WorkerScratch& scratch = scratch_of(worker);
  const bool alone = rows <= kPrivateRows;
  const bool norm = op.norm != nullptr;
  const bool encoded = op.encoding.floats > 0;
  const std::int64_t q_bytes = encoded_stride(op);
  FloatRows out{alone ? scratch.private_rows : buffers_.normed.at, x.stride};
  std::uint8_t* q = alone ? scratch.private_encoded : buffers_.encoded;
  if (!norm) out.at = op.from_h ? buffers_.normed.at : x.at;
  const Share share = alone ? Share{0, rows} : share_of(rows, worker, pool_.size());
  form_rows(op, x, out, share, decode_heavy_rows, q);
  if (!alone && (norm || encoded)) pool_.barrier();
  if (!encoded) q = nullptr;
  return {out.at, x.stride, q, q_bytes, rows, decode_heavy_rows, op.encoding.int8};
}

/// Norms a worker's rows of x into `out`, where there is a norm, and encodes them into q.
void Products::form_rows(const PackedOp& op, const FloatRows& x, const FloatRows& out,
                         const Share& share, std::int64_t decode_heavy_rows,
                         std::uint8_t* q) const {
  const std::int64_t q_bytes = encoded_stride(op);
  const bool encoded = op.encoding.floats > 0;
  for (std::int64_t i = share.first; i < share.last; ++i) {
    if (op.norm != nullptr) norm_row(op, x.row(i), out.row(i));
    if (encoded) encode_row(op, i >= decode_heavy_rows, out.row(i), q + i * q_bytes);
  }
}

Operand Products::token_operand(const PackedOp& op, const FloatRows& x, int worker) {
  const std::int64_t rows = batch_.rows();
  if (!op.encoding.done) return operand(op, x, rows, batch_.decode_heavy_rows(), worker);
  const auto* q = reinterpret_cast<const std::uint8_t*>(buffers_.feed_forward.at);
  return {nullptr, 0, q, encoded_stride(op), rows, batch_.decode_heavy_rows(), op.encoding.int8};
}

MatmulArgs Products::product(const PackedMatrix& w, const Operand& x, int worker) const {
  MatmulArgs args;
  args.w = &w;
  args.x = x.x;
  args.x_stride = x.x_stride;
  args.q = x.q;
  args.q_stride = x.q_stride;
  args.rows = x.rows;
  args.int8 = x.int8;
  args.scratch = scratch_of(worker).unpack;
  return args;
}

void Products::multiply(const MatmulArgs& args, std::int64_t decode_heavy_rows) const {
  // Without a copy: that would wait for what the caller has just stored into args.
  if (args.rows <= decode_heavy_rows) return kernels_.matmul(args);
  MatmulArgs some = args;
  some.rows = decode_heavy_rows;
  some.next = nullptr;  // the other rows come first
  if (decode_heavy_rows > 0) kernels_.matmul(some);
  some.next = args.next;
  some.rows = args.rows - decode_heavy_rows;
  some.x += decode_heavy_rows * args.x_stride;
  if (args.q != nullptr) some.q += decode_heavy_rows * args.q_stride;
  some.y += decode_heavy_rows * args.y_stride;
  context_.prefill_kernels.matmul(some);
}

void Products::add_bias(const float* bias, std::int64_t p0, const FloatRows& to, std::int64_t rows,
                        std::int64_t n) const {
  for (std::int64_t i = 0; i < rows && bias != nullptr; ++i) {
    kernels_.add(to.row(i), bias + p0 * kLanes, n);
  }
}

void Products::products_into(const PackedOp& op, const Operand& x,
                             std::initializer_list<FloatRows> to, int worker) {
  std::int64_t panels = 0;
  for (const PackedMatrix& m : op.matrix) panels += m.panels;
  const std::int64_t per = even_item_panels(panels, pool_.size());
  const MatmulArgs args = product(op.matrix[0], x, worker);
  for_items(panels, per, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    products_of_panels(op, to, p0, p1, x.decode_heavy_rows, args);
  });
}

/// Computes panels [p0, p1) of all matrices of an operation, which follow one another.
void Products::products_of_panels(const PackedOp& op, std::initializer_list<FloatRows> to,
                                  std::int64_t p0, std::int64_t p1, std::int64_t decode_heavy_rows,
                                  MatmulArgs args) const {
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
    multiply(args, decode_heavy_rows);
  }
}

}  // namespace holdfast::cpu
