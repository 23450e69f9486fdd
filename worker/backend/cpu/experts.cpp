// Mixture of experts. Rows are grouped by expert, so that an expert's weights are read once for all
// of its rows; each row is multiplied on its own and adds its experts in rising order, so its bits
// are those of a batch of one.

#include <algorithm>
#include <cstring>

#include "worker/backend/cpu/work_items.h"

namespace holdfast::cpu {
namespace {

/// even_item_panels() over the panels of several experts.
std::int64_t expert_item_panels(std::int64_t panels, std::int64_t groups, int threads) {
  std::int64_t per = kTilePanels;
  while (per > 2 && panels / per * groups < 6 * threads) per /= 2;
  return per;
}

float sigmoid(const Kernels& kernels, double x) {
  alignas(64) float e[16] = {};
  e[0] = static_cast<float>(-x);
  kernels.exp(e, e, 16);
  return 1.0f / (1.0f + e[0]);
}

}  // namespace

/// Adds the bias from panel `p0` on to n columns of each row; null: there is no bias.
void CpuExecutor::add_bias(const float* bias, std::int64_t p0, const FloatRows& to,
                           std::int64_t rows, std::int64_t n) const {
  for (std::int64_t i = 0; i < rows && bias != nullptr; ++i) {
    kernels_.add(to.at + i * to.stride, bias + p0 * kLanes, n);
  }
}

/// Routes the rows to experts. In a small batch every thread norms all rows and one thread chooses,
/// which saves barriers.
void CpuExecutor::route(const PackedOp& op, int worker) {
  const auto rows = static_cast<std::int64_t>(tokens_.size());
  const bool small_batch = rows <= kPrivateRows;
  CHECK(op.norm != nullptr);  // the norm makes h
  const auto row_bytes = static_cast<std::size_t>(x_stride_) * sizeof(float);
  const Share mine =
      small_batch ? Share{0, worker == 0 ? rows : 0} : share_of(rows, worker, pool_.size());
  const Operand h = operand(op, x_, x_stride_, rows, decode_heavy_rows_, worker);
  for (std::int64_t i = mine.first; i < mine.last; ++i) {
    const float* row = h.x + i * x_stride_;
    float* shared = h_ + i * x_stride_;  // for the experts
    if (row != shared) std::memcpy(shared, row, row_bytes);
    if (op.gate == nullptr) continue;
    double sum = 0;
    for (std::int64_t j = 0; j < shape_.width; ++j) {
      sum += static_cast<double>(row[j]) * static_cast<double>(op.gate[j]);
    }
    routing_.gate[i] = sigmoid(kernels_, sum);
  }
  MatmulArgs args = product(op.matrix[0], h, worker);
  args.y_stride = routing_.stride;
  for_items(op.matrix[0].panels, 1, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    args.p0 = p0;
    args.p1 = p1;
    args.y = routing_.logits + p0 * kLanes;
    multiply(args, decode_heavy_rows_);
    add_bias(op.bias[0], p0, {args.y, args.y_stride}, rows, (p1 - p0) * kLanes);
  });
  pool_.barrier();
  for (std::int64_t i = mine.first; i < mine.last; ++i) {
    if (op.inner_norm != nullptr) norm_inner(op, x_ + i * x_stride_, h_ + i * x_stride_);
    choose(op, i, routing_.logits + i * routing_.stride);
  }
  if (!small_batch) pool_.barrier();
  if (worker == 0) group_slots();
  if (rows == 1) return;  // all slots are of one row
  pool_.barrier();
  const Share slot_share = share_of(slots(), worker, pool_.size());
  for (std::int64_t s = slot_share.first; s < slot_share.last; ++s) {
    std::memcpy(routing_.rows + s * x_stride_,
                h_ + static_cast<std::int64_t>(routing_.slot_row[s]) * x_stride_, row_bytes);
  }
}

/// Turns the router's products into scores in place: e^(p - the largest), divided by their sum if
/// `whole`; or each one's sigmoid. Returns the sum that is still to be divided by, else 1.
double CpuExecutor::score_experts(float* p, bool whole) const {
  const std::int64_t n = shape_.experts;
  const bool softmax = router_ == plan::Router::kSoftmax;
  float top = softmax ? p[0] : 0;
  for (std::int64_t e = 1; e < n && softmax; ++e) top = p[e] > top ? p[e] : top;
  for (std::int64_t e = 0; e < n; ++e) p[e] = softmax ? p[e] - top : -p[e];
  kernels_.exp(p, p, routing_.stride);
  double all = softmax ? 0 : 1;
  for (std::int64_t e = 0; e < n; ++e) {
    if (softmax) {
      all += static_cast<double>(p[e]);
    } else {
      p[e] = 1.0f / (1.0f + p[e]);
    }
  }
  if (!softmax || !whole) return all;
  for (std::int64_t e = 0; e < n; ++e) p[e] = static_cast<float>(static_cast<double>(p[e]) / all);
  return 1;
}

/// A bit for each group of experts that may be chosen: the groups whose two best ranks have the
/// largest sums, ties to the lower number.
template <class Rank>
std::uint64_t CpuExecutor::open_groups(Rank rank) const {
  constexpr std::int64_t kGroupsMost = 64;  // a bit each
  CHECK(expert_groups_ <= kGroupsMost);     // the check of the header refuses more
  const std::int64_t each = shape_.experts / expert_groups_;
  float sums[kGroupsMost];
  for (std::int64_t g = 0; g < expert_groups_; ++g) {
    std::int64_t best = g * each, second = -1;
    for (std::int64_t e = best + 1; e < (g + 1) * each; ++e) {
      if (rank(e) > rank(best)) {
        second = best;
        best = e;
      } else if (second < 0 || rank(e) > rank(second)) {
        second = e;
      }
    }
    sums[g] = second < 0 ? rank(best) : rank(best) + rank(second);
  }
  std::uint64_t open = 0;
  for (std::int64_t u = 0; u < expert_groups_used_; ++u) {
    std::int64_t best = -1;
    for (std::int64_t g = 0; g < expert_groups_; ++g) {
      if ((open >> g & 1) == 0 && (best < 0 || sums[g] > sums[best])) best = g;
    }
    open |= std::uint64_t{1} << best;
  }
  return open;
}

/// Chooses the experts of a row and their weights: the largest scores, with the bias of choices
/// where there is one; ties to the lower number. No expert is chosen twice, even where scores are
/// not numbers: those stay in the weights and are detected in the result.
void CpuExecutor::choose(const PackedOp& op, std::int64_t row, float* p) {
  constexpr float kTaken = -1e30f;
  const std::int64_t n = shape_.experts;
  const double all = score_experts(p, op.choice != nullptr);
  const auto rank = [&](std::int64_t e) {
    return op.choice != nullptr ? p[e] + op.choice[e] : p[e];
  };
  if (expert_groups_used_ < expert_groups_) {
    const std::uint64_t open = open_groups(rank);
    const std::int64_t each = n / expert_groups_;
    for (std::int64_t e = 0; e < n; ++e) {
      if ((open >> (e / each) & 1) == 0) p[e] = kTaken;
    }
  }
  const std::int64_t used = shape_.experts_used;
  std::int32_t* chosen = routing_.expert + row * used;
  float* weight = routing_.weight + row * used;
  double sum = 0;
  for (std::int64_t u = 0; u < used; ++u) {
    std::int64_t best = -1;
    float most = 0;
    for (std::int64_t e = 0; e < n; ++e) {
      const float score = rank(e);
      if (p[e] != kTaken && (best < 0 || score > most)) best = e, most = score;
    }
    chosen[u] = static_cast<std::int32_t>(best);
    weight[u] = p[best];
    sum += static_cast<double>(p[best]);
    p[best] = kTaken;
  }
  const double divisor = expert_norm_ ? sum : all;
  for (std::int64_t u = 0; u < used; ++u) {
    weight[u] = static_cast<float>(static_cast<double>(weight[u]) / divisor) * expert_scale_;
    if (op.expert_scale != nullptr) weight[u] *= op.expert_scale[chosen[u]];
  }
}

void CpuExecutor::group_slots() {
  const std::int64_t used = shape_.experts_used;
  const auto choices = static_cast<std::int64_t>(tokens_.size()) * used;
  Routing& r = routing_;
  std::memset(r.first, 0, static_cast<std::size_t>(shape_.experts + 1) * sizeof(std::int32_t));
  for (std::int64_t i = 0; i < choices; ++i) ++r.first[r.expert[i] + 1];
  r.groups = 0;
  for (std::int32_t e = 0; e < shape_.experts; ++e) {
    if (r.first[e + 1] > 0) r.group[r.groups++] = e;
    r.first[e + 1] += r.first[e];
  }
  for (std::int64_t i = 0; i < choices; ++i) {
    const std::int32_t slot = r.first[r.expert[i]]++;  // undone below
    r.slot_row[slot] = static_cast<std::int32_t>(i / used);
    r.slot_weight[slot] = r.weight[i];
  }
  for (std::int64_t e = shape_.experts; e > 0; --e) r.first[e] = r.first[e - 1];
  r.first[0] = 0;
}

std::int64_t CpuExecutor::slots() const {
  return static_cast<std::int64_t>(tokens_.size()) * shape_.experts_used;
}

/// operand() for slots: a slot's kernel class is that of its token.
Operand CpuExecutor::slot_operand(const PackedOp& op, const float* x, std::int64_t stride,
                                  int worker) {
  const std::int64_t all = slots();
  const std::int64_t decode_heavy_rows = decode_heavy_rows_ * shape_.experts_used;
  if (decode_heavy_rows == 0 || decode_heavy_rows == all)
    return operand(op, x, stride, all, decode_heavy_rows, worker);
  CHECK(op.norm == nullptr && !op.from_h);
  const std::int64_t q_bytes = q_stride(op.activation_format, op.formed);
  const Share share = share_of(all, worker, pool_.size());
  for (std::int64_t s = share.first; s < share.last && op.formed > 0; ++s) {
    encode_row(op, routing_.slot_row[s] >= decode_heavy_rows_, x + s * stride,
               blocks_ + s * q_bytes);
  }
  pool_.barrier();
  return {x, stride, op.formed > 0 ? blocks_ : nullptr, q_bytes, all, decode_heavy_rows, op.int8};
}

/// The rows of `rows` slots from `first` on, all of one expert, so ordered by token.
Operand CpuExecutor::part(const Operand& all, std::int64_t first, std::int64_t rows) const {
  Operand r = rows_of(all, first, rows);
  const std::int32_t* row = routing_.slot_row + first;
  r.decode_heavy_rows = std::lower_bound(row, row + rows, decode_heavy_rows_) - row;
  return r;
}

void CpuExecutor::expert_gate_up(const PackedOp& op, int worker) {
  const std::int64_t panels = op.matrix[0].group_panels;
  const std::int64_t per = expert_item_panels(panels, routing_.groups, pool_.size());
  const std::int64_t items_each = (panels + per - 1) / per;
  float* tile = workers_[static_cast<std::size_t>(worker)].tile;
  const bool one = tokens_.size() == 1;
  const bool both = op.matrix[1].panels == 0;  // gate and up are in one matrix
  const Operand all = one ? operand(op, h_, x_stride_, 1, decode_heavy_rows_, worker)
                          : slot_operand(op, routing_.rows, x_stride_, worker);
  for_items(routing_.groups * items_each, 1, op, worker, [&](std::int64_t item, std::int64_t) {
    const std::int32_t expert = routing_.group[item / items_each];
    const std::int64_t first = routing_.first[expert];
    const std::int64_t rows = routing_.first[expert + 1] - first;
    const std::int64_t p0 = item % items_each * per;
    const std::int64_t p1 = std::min(p0 + per, panels);
    const Operand expert_rows = one ? all : part(all, first, rows);
    MatmulArgs args = product(op.matrix[0], expert_rows, worker);
    args.p0 = expert * (both ? 2 : 1) * panels + p0;
    args.p1 = args.p0 + (p1 - p0);
    float* f = e_ + first * e_stride_ + p0 * kLanes;
    args.y = f;
    args.y_stride = e_stride_;
    multiply(args, expert_rows.decode_heavy_rows);
    add_bias(op.bias[0], args.p0, {f, e_stride_}, rows, (p1 - p0) * kLanes);
    if (both) {
      args.p0 += panels;
      args.p1 += panels;
    } else {
      args.w = &op.matrix[1];
    }
    args.y = tile;
    args.y_stride = tile_cols_;
    multiply(args, expert_rows.decode_heavy_rows);
    add_bias(op.bias[1], args.p0, {tile, tile_cols_}, rows, (p1 - p0) * kLanes);
    for (std::int64_t i = 0; i < rows; ++i) {
      kernels_.activate(op.activate, f + i * e_stride_, tile + i * tile_cols_, (p1 - p0) * kLanes);
    }
  });
}

/// Clears panels [p0, p1) of the rows of h, before sums are added there.
void CpuExecutor::clear_h(std::int64_t p0, std::int64_t p1) const {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::memset(h_ + static_cast<std::int64_t>(i) * x_stride_ + p0 * kLanes, 0,
                static_cast<std::size_t>((p1 - p0) * kLanes) * sizeof(float));
  }
}

void CpuExecutor::expert_down(const PackedOp& op, int worker) {
  const std::int64_t panels = op.matrix[0].group_panels;
  float* tile = workers_[static_cast<std::size_t>(worker)].tile;
  const Operand all = slot_operand(op, e_, e_stride_, worker);
  for_items(panels, even_item_panels(panels, pool_.size()), op, worker,
            [&](std::int64_t p0, std::int64_t p1) {
              if (op.to_h) clear_h(p0, p1);
              for (std::int32_t g = 0; g < routing_.groups; ++g) {
                const std::int32_t expert = routing_.group[g];
                const std::int64_t first = routing_.first[expert];
                const std::int64_t rows = routing_.first[expert + 1] - first;
                const Operand expert_rows = part(all, first, rows);
                MatmulArgs args = product(op.matrix[0], expert_rows, worker);
                args.p0 = expert * panels + p0;
                args.p1 = expert * panels + p1;
                args.y = tile;
                args.y_stride = tile_cols_;
                multiply(args, expert_rows.decode_heavy_rows);
                add_bias(op.bias[0], args.p0, {tile, tile_cols_}, rows, (p1 - p0) * kLanes);
                for (std::int64_t i = 0; i < rows; ++i) {
                  const std::int64_t at = routing_.slot_row[first + i] * x_stride_ + p0 * kLanes;
                  float* x = (op.to_h ? h_ : x_) + at;
                  kernels_.add_scaled(x, tile + i * tile_cols_,
                                      op.scale * routing_.slot_weight[first + i],
                                      (p1 - p0) * kLanes);
                }
              }
            });
}

}  // namespace holdfast::cpu
