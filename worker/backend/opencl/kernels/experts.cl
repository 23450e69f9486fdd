// Mixture of experts. A slot is a row of the batch at one of its experts; the slots of a row are
// adjacent, ordered by rising expert.

// Turns a router's products into scores, in place: e^(p - the largest), whose sum is the result, or
// the sigmoid of each one.
float score_experts(__global float* p, int experts, int sigmoid) {
  if (sigmoid) {
    for (int e = 0; e < experts; ++e) p[e] = 1.0f / (1.0f + exp_of(-p[e]));
    return 1.0f;
  }
  float top = p[0];
  for (int e = 1; e < experts; ++e) top = p[e] > top ? p[e] : top;
  float all = 0.0f;
  for (int e = 0; e < experts; ++e) {
    p[e] = exp_of(p[e] - top);
    all = all + p[e];
  }
  return all;
}

// The value by which experts are chosen.
float rank_of(__global const float* p, int e, __global const float* vectors, int choice_at) {
  return choice_at >= 0 ? p[e] + vectors[choice_at + e] : p[e];
}

// A bit for each group that may be chosen from: the groups with the largest sums of their two best
// ranks, ties to the lower number.
ulong open_groups(__global const float* p, int groups, int groups_used, int each,
                  __global const float* vectors, int choice_at) {
  ulong open = 0;
  for (int u = 0; u < groups_used; ++u) {
    int best_group = -1;
    float most = 0.0f;
    for (int g = 0; g < groups; ++g) {
      if (open >> g & 1) continue;
      float best = rank_of(p, g * each, vectors, choice_at), second = 0.0f;
      for (int i = 1; i < each; ++i) {
        const float rank = rank_of(p, g * each + i, vectors, choice_at);
        second = rank > best ? best : i == 1 || rank > second ? rank : second;
        best = rank > best ? rank : best;
      }
      const float sum = each > 1 ? best + second : best;
      if (best_group < 0 || sum > most) best_group = g, most = sum;
    }
    open |= 1ul << best_group;
  }
  return open;
}

// A row's experts and their weights: the largest scores, plus the bias of choices where there is
// one; ties to the lower number. The weights sum to 1 if `normed`. One item a row: experts are few.
__kernel void choose_experts(__global float* scores, int stride, int experts, int used, int normed,
                             int sigmoid, __global const float* vectors, int choice_at, int groups,
                             int groups_used, float scale, __global int* expert,
                             __global float* weight) {
  __global float* p = scores + (long)get_global_id(0) * stride;
  __global int* chosen = expert + get_global_id(0) * used;
  float all = score_experts(p, experts, sigmoid);
  if (choice_at >= 0 && !sigmoid) {  // the bias is added to scores that sum to 1
    for (int e = 0; e < experts; ++e) p[e] = p[e] / all;
    all = 1.0f;
  }
  const int each = experts / groups;
  const ulong open =
      groups_used < groups ? open_groups(p, groups, groups_used, each, vectors, choice_at) : ~0ul;
  float sum = 0.0f;
  for (int u = 0; u < used; ++u) {
    int best = -1;
    float most = 0.0f;
    for (int e = 0; e < experts; ++e) {
      int taken = groups_used < groups && (open >> (e / each) & 1) == 0;
      for (int v = 0; v < u; ++v) taken |= chosen[v] == e;
      if (taken) continue;
      const float rank = rank_of(p, e, vectors, choice_at);
      if (best < 0 || rank > most) best = e, most = rank;
    }
    chosen[u] = best;
    sum = sum + p[best];
  }
  for (int u = 1; u < used; ++u) {  // sort by rising number
    const int e = chosen[u];
    int v = u;
    for (; v > 0 && chosen[v - 1] > e; --v) chosen[v] = chosen[v - 1];
    chosen[v] = e;
  }
  for (int u = 0; u < used; ++u) {
    weight[get_global_id(0) * used + u] = p[chosen[u]] / (normed ? sum : all) * scale;
  }
}

// gate[row] = sigmoid(w h), the gate of the shared expert. One work-group a row.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void open_gate(
    __global const float* h, int stride, __global const float* vectors, int w_at, int n,
    __global float* gate) {
  __local float part[NORM_ITEMS];
  const int item = get_local_id(0);
  __global const float* row = h + (long)get_group_id(0) * stride;
  float sum = 0.0f;
  for (int i = item; i < n; i += NORM_ITEMS) sum = fma(value_of(row, i), vectors[w_at + i], sum);
  sum = group_sum(sum, part, item, NORM_ITEMS);
  if (item == 0) gate[get_group_id(0)] = 1.0f / (1.0f + exp_of(-sum));
}

// x += scale * weight of the slot * its row, slot by slot, in columns [first, first + n); the
// slots' columns begin at 0. One work-group a row. Where `next_at` >= 0, x is whole, and is left
// spread.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void add_slots(
    __global float* x, int stride, int first, int n, __global const float* slots,
    __global const float* weight, int used, float scale, __global const float* vectors,
    __global float* next, __global float* next_squares, int next_squares_n, int next_at) {
  const long row = get_group_id(0);
  for (int i = get_local_id(0); i < n; i += NORM_ITEMS) {
    float sum = x[row * stride + first + i];
    for (int u = 0; u < used; ++u) {
      sum = fma(slots[(row * used + u) * stride + i], scale * weight[row * used + u], sum);
    }
    x[row * stride + first + i] = sum;
  }
  if (next_at < 0) return;
  barrier(CLK_GLOBAL_MEM_FENCE);
  spread_row(x + row * stride, vectors + next_at, n, next + row * stride,
             next_squares + row * next_squares_n, get_local_id(0));
}
