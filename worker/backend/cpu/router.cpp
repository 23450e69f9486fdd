#include "worker/backend/cpu/router.h"

#include <cstring>

namespace holdfast::cpu {
namespace {

constexpr float kTaken = -1e30f;

float sigmoid(const Kernels& kernels, double x) {
  alignas(64) float e[16] = {};
  e[0] = static_cast<float>(-x);
  kernels.exp(e, e, 16);
  return 1.0f / (1.0f + e[0]);
}

/// The number by which experts are compared: the score, with the bias of choices where there is
/// one.
float rank(const float* choice, const float* p, std::int64_t e) {
  return choice != nullptr ? p[e] + choice[e] : p[e];
}

/// The sum of the two best ranks of experts [first, end).
float best_two(const float* choice, const float* p, std::int64_t first, std::int64_t end) {
  std::int64_t best = first, second = -1;
  for (std::int64_t e = first + 1; e < end; ++e) {
    if (rank(choice, p, e) > rank(choice, p, best)) {
      second = best;
      best = e;
    } else if (second < 0 || rank(choice, p, e) > rank(choice, p, second)) {
      second = e;
    }
  }
  const float most = rank(choice, p, best);
  return second < 0 ? most : most + rank(choice, p, second);
}

/// The expert with the largest rank of those that are not taken, ties to the lower number.
std::int64_t best_of(const float* choice, const float* p, std::int64_t experts) {
  std::int64_t best = -1;
  float most = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    const float score = rank(choice, p, e);
    if (p[e] != kTaken && (best < 0 || score > most)) best = e, most = score;
  }
  return best;
}

}  // namespace

/// Routes the rows to experts. In a small batch every thread norms all rows and one thread chooses,
/// which saves barriers.
void Router::run(const PackedOp& op, int worker) {
  const std::int64_t rows = batch_.rows();
  const bool small_batch = rows <= kPrivateRows;
  CHECK(op.norm != nullptr);  // the norm makes h
  const Share mine =
      small_batch ? Share{0, worker == 0 ? rows : 0} : share_of(rows, worker, pool_.size());
  const Operand h = operand(op, buffers_.residual, rows, batch_.decode_heavy_rows(), worker);
  for (std::int64_t i = mine.first; i < mine.last; ++i) share_row(op, h.x + i * h.x_stride, i);
  score_rows(op, h, worker);
  pool_.barrier();
  for (std::int64_t i = mine.first; i < mine.last; ++i) {
    if (op.inner_norm != nullptr) {
      norm_inner(op, buffers_.residual.row(i), buffers_.normed.row(i));
    }
    choose(op, i, buffers_.routing.logits.row(i));
  }
  if (!small_batch) pool_.barrier();
  if (worker == 0) group_slots();
  if (rows == 1) return;  // all slots are of one row
  pool_.barrier();
  gather_slots(worker);
}

/// Leaves the normed row `i` for the experts, and computes its gate of the shared one.
void Router::share_row(const PackedOp& op, const float* row, std::int64_t i) {
  float* shared = buffers_.normed.row(i);
  if (row != shared) std::memcpy(shared, row, float_bytes(buffers_.normed.stride));
  if (op.router.gate == nullptr) return;
  double sum = 0;
  for (std::int64_t j = 0; j < shape_.width; ++j) {
    sum += static_cast<double>(row[j]) * static_cast<double>(op.router.gate[j]);
  }
  buffers_.routing.gate[i] = sigmoid(kernels_, sum);
}

/// Multiplies the rows with the router's weights.
void Router::score_rows(const PackedOp& op, const Operand& h, int worker) {
  const FloatRows& logits = buffers_.routing.logits;
  MatmulArgs args = product(op.matrix[0], h, worker);
  args.y_stride = logits.stride;
  for_items(op.matrix[0].panels, 1, op, worker, [&](std::int64_t p0, std::int64_t p1) {
    args.p0 = p0;
    args.p1 = p1;
    args.y = logits.at + p0 * kLanes;
    multiply(args, h.decode_heavy_rows);
    add_bias(op.bias[0], p0, {args.y, args.y_stride}, h.rows, (p1 - p0) * kLanes);
  });
}

/// Turns the router's products into scores in place: e^(p - the largest), divided by their sum if
/// `whole`; or each one's sigmoid. Returns the sum that is still to be divided by, else 1.
double Router::score_experts(float* p, bool whole) const {
  if (context_.program.routing.router == plan::Router::kSoftmax) return softmax_scores(p, whole);
  for (std::int64_t e = 0; e < shape_.experts; ++e) p[e] = -p[e];
  kernels_.exp(p, p, buffers_.routing.logits.stride);
  for (std::int64_t e = 0; e < shape_.experts; ++e) p[e] = 1.0f / (1.0f + p[e]);
  return 1;
}

double Router::softmax_scores(float* p, bool whole) const {
  const std::int64_t n = shape_.experts;
  float top = p[0];
  for (std::int64_t e = 1; e < n; ++e) top = p[e] > top ? p[e] : top;
  for (std::int64_t e = 0; e < n; ++e) p[e] -= top;
  kernels_.exp(p, p, buffers_.routing.logits.stride);
  double all = 0;
  for (std::int64_t e = 0; e < n; ++e) all += static_cast<double>(p[e]);
  if (!whole) return all;
  for (std::int64_t e = 0; e < n; ++e) p[e] = static_cast<float>(static_cast<double>(p[e]) / all);
  return 1;
}

/// A bit for each group of experts that may be chosen: the groups whose two best ranks have the
/// largest sums, ties to the lower number.
std::uint64_t Router::open_groups(const float* choice, const float* p) const {
  constexpr std::int64_t kGroupsMost = 64;  // a bit each
  const RoutingRule& rule = context_.program.routing;
  CHECK(rule.groups <= kGroupsMost);  // the check of the header refuses more
  const std::int64_t each = shape_.experts / rule.groups;
  float sums[kGroupsMost];
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    sums[g] = best_two(choice, p, g * each, (g + 1) * each);
  }
  std::uint64_t open = 0;
  for (std::int64_t u = 0; u < rule.groups_used; ++u) {
    std::int64_t best = -1;
    for (std::int64_t g = 0; g < rule.groups; ++g) {
      if ((open >> g & 1) == 0 && (best < 0 || sums[g] > sums[best])) best = g;
    }
    open |= std::uint64_t{1} << best;
  }
  return open;
}

/// Takes the experts of groups that may not be chosen out of the choice.
void Router::close_groups(const float* choice, float* p) const {
  const RoutingRule& rule = context_.program.routing;
  if (rule.groups_used >= rule.groups) return;
  const std::uint64_t open = open_groups(choice, p);
  const std::int64_t each = shape_.experts / rule.groups;
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    if ((open >> (e / each) & 1) == 0) p[e] = kTaken;
  }
}

/// Chooses the experts of a row and their weights: the largest scores, with the bias of choices
/// where there is one; ties to the lower number. No expert is chosen twice, even where scores are
/// not numbers: those stay in the weights and are detected in the result.
void Router::choose(const PackedOp& op, std::int64_t row, float* p) {
  const RoutingRule& rule = context_.program.routing;
  const double all = score_experts(p, op.router.choice != nullptr);
  close_groups(op.router.choice, p);
  const std::int64_t used = shape_.experts_used;
  std::int32_t* chosen = buffers_.routing.expert + row * used;
  float* weight = buffers_.routing.weight + row * used;
  double sum = 0;
  for (std::int64_t u = 0; u < used; ++u) {
    const std::int64_t best = best_of(op.router.choice, p, shape_.experts);
    chosen[u] = static_cast<std::int32_t>(best);
    weight[u] = p[best];
    sum += static_cast<double>(p[best]);
    p[best] = kTaken;
  }
  const double divisor = rule.normalises ? sum : all;
  for (std::int64_t u = 0; u < used; ++u) {
    weight[u] = static_cast<float>(static_cast<double>(weight[u]) / divisor) * rule.scale;
    if (op.router.expert_scale != nullptr) weight[u] *= op.router.expert_scale[chosen[u]];
  }
}

void Router::group_slots() {
  const std::int64_t used = shape_.experts_used;
  const std::int64_t choices = batch_.rows() * used;
  Routing& r = buffers_.routing;
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

/// Copies the rows of this worker's slots.
void Router::gather_slots(int worker) {
  const Routing& r = buffers_.routing;
  const Share share = share_of(batch_.rows() * shape_.experts_used, worker, pool_.size());
  for (std::int64_t s = share.first; s < share.last; ++s) {
    std::memcpy(r.input.row(s), buffers_.normed.row(r.slot_row[s]), float_bytes(r.input.stride));
  }
}

}  // namespace holdfast::cpu
