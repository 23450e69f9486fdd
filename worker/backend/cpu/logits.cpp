#include "worker/backend/cpu/logits.h"

#include <cstring>

#include "worker/backend/api/logit_row.h"

namespace holdfast::cpu {

void Logits::run(const PackedOp& op, int worker) {
  const std::vector<std::int32_t>& tokens = batch_.logit_tokens();
  const auto rows = static_cast<std::int64_t>(tokens.size());
  if (rows == 0) return finish_hidden(op, worker);
  copy_inputs(worker);
  pool_.barrier();
  finish_hidden(op, worker);
  const auto first_prefill_heavy =
      std::lower_bound(tokens.begin(), tokens.end(), batch_.decode_heavy_rows());
  const Operand h =
      operand(op, buffers_.logit_inputs, rows, first_prefill_heavy - tokens.begin(), worker);
  MatmulArgs args = product(op.matrix[0], h, worker);
  args.y_stride = buffers_.logits.stride;
  constexpr std::int64_t kPer = 8 * kTilePanels, kBlockPanels = backend::kBlockIds / kLanes;
  static_assert(kPer % kBlockPanels == 0);
  for_items(
      op.matrix[0].panels, kPer, op, worker,
      [&](std::int64_t p0, std::int64_t p1) {
        args.p0 = p0;
        args.p1 = p1;
        args.y = buffers_.logits.at + p0 * kLanes;
        expect(args, op.matrix[0], likely_next(p0, kPer, pool_.size()), kTilePanels);
        multiply(args, h.decode_heavy_rows);
        for (std::int64_t i = 0; i < rows; ++i) {
          if (finish_logits(op, i, p0, p1)) continue;
          batch_.note_bad(tokens[static_cast<std::size_t>(i)]);
        }
      },
      kBlockPanels);
}

void Logits::copy_inputs(int worker) {
  const std::vector<std::int32_t>& tokens = batch_.logit_tokens();
  const Share share = share_of(static_cast<std::int64_t>(tokens.size()), worker, pool_.size());
  for (std::int64_t i = share.first; i < share.last; ++i) {
    std::memcpy(buffers_.logit_inputs.row(i),
                buffers_.residual.row(tokens[static_cast<std::size_t>(i)]),
                float_bytes(buffers_.residual.stride));
  }
}

/// Scales panels [p0, p1) of a row of logits and finds their maxima while they are in the cache:
/// whole blocks of a LogitRow, or the last ones. False: a logit is not finite.
bool Logits::finish_logits(const PackedOp& op, std::int64_t row, std::int64_t p0,
                           std::int64_t p1) const {
  float* y = buffers_.logits.row(row);
  const std::int64_t first = p0 * kLanes, end = std::min(p1 * kLanes, shape_.vocab);
  CHECK(first % backend::kBlockIds == 0);
  if (op.general_path) kernels_.scale_cap(y + first, op.scale, op.cap, (p1 - p0) * kLanes);
  float* maxima = buffers_.logit_maxima.row(row);
  for (std::int64_t i = first; i < end; i += backend::kBlockIds) {
    maxima[i / backend::kBlockIds] =
        kernels_.max_of(y + i, std::min<std::int64_t>(backend::kBlockIds, end - i));
  }
  return kernels_.all_finite(y + first, end - first);
}

/// Norms the rows of segments that request their outputs in place: rows that logits are computed of
/// have been copied.
void Logits::finish_hidden(const PackedOp& op, int worker) {
  if (!batch_.hidden_requested()) return;
  const Share share = rows_of_worker(worker);
  for (std::int64_t i = share.first; i < share.last; ++i) {
    if (!batch_.segment(batch_.token(i).segment).wants.is_hidden()) continue;
    float* x = buffers_.residual.row(i);
    if (op.norm != nullptr) norm_row(op, x, x);
    if (kernels_.all_finite(x, shape_.width)) continue;
    batch_.note_bad(static_cast<std::int32_t>(i));
  }
}

}  // namespace holdfast::cpu
