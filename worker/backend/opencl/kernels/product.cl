// Products of batch rows with packed weights. One definition of an output for any batch: spans of 32
// k are dealt out to SLICES items (span s to item s mod SLICES), each sums its own as one chain of
// fma over rising k, and the sums are added by a fixed tree. How many rows share a weight read does
// not enter it.

// What becomes of y.
#define STORE 0         // y = bias + product
#define ADD 1           // y += scale * gate[row] * (bias + product)
#define ACTIVATE 2      // y = act(bias + product)
#define TIMES_ACTIVE 3  // y = act(y) * (bias + product): y is the gate's product
#define LOGITS 4        // y = cap * tanh(scale * product / cap)

void finish_output(__global float* y, float v, int mode, int activation, float scale, float cap) {
  if (mode == ADD) {
    *y = fma(v, scale, *y);
  } else if (mode == ACTIVATE) {
    *y = activated(activation, v);
  } else if (mode == TIMES_ACTIVE) {
    *y = activated(activation, *y) * v;
  } else if (mode == LOGITS) {
    *y = capped(v * scale, cap);
  } else {
    *y = v;
  }
}

#define ITEMS (LANES / ITEM_LANES)
#if WIDE_LANES
#define STORE_LANES(x, p) vstore16(x, 0, p)
#define LANE(x, i) lane_of(x, i)
float lane_of(float16 x, int i) {
  float all[16];
  vstore16(x, 0, all);
  return all[i];
}
#else
#define STORE_LANES(x, p) (p)[0] = x
#define LANE(x, i) (x)
#endif

// The sums of this item's slice for `ROWS` rows, then those of all slices; the item of slice r has
// row r's result.
#define DEFINE_PRODUCT(NAME, ROWS)                                                                 \
  __kernel __attribute__((reqd_work_group_size(LANES / ITEM_LANES, SLICES, 1))) void NAME(         \
      __global const uchar* weights, ulong weights_at, ulong panel_bytes, int spans,               \
      int panels_each, __global const float* x, int x_stride, int rows, int x_share,               \
      __global float* y, int y_at, int y_stride, int y_cols, __global const float* vectors,        \
      int bias_at, int mode, int activation, float scale, float cap, __global const float* gate,   \
      int gated, __global const int* expert, int first_expert, int experts) {                      \
    __local F part[ROWS * SLICES * LANES / ITEM_LANES];                                            \
    const int lane = get_local_id(0), slice = get_local_id(1);                                     \
    const int panel = get_group_id(0), row0 = get_group_id(1) * ROWS;                              \
    int matrix = 0;                                                                                \
    if (experts > 0) matrix = expert[row0] - first_expert;                                         \
    const int here = experts == 0 || (matrix >= 0 && matrix < experts);                            \
    __global const float* xs[ROWS];                                                                \
    F acc[ROWS];                                                                                   \
    for (int r = 0; r < ROWS; ++r) {                                                               \
      xs[r] = x + (long)(min(row0 + r, rows - 1) / x_share) * x_stride;                            \
      acc[r] = (F)(0.0f);                                                                          \
    }                                                                                              \
    __global const uchar* at =                                                                     \
        weights + weights_at + (ulong)((here ? matrix : 0) * panels_each + panel) * panel_bytes;   \
    for (int s = slice; s < spans; s += SLICES) {                                                  \
      __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;                   \
      const int span = s % BLOCK_SPANS;                                                            \
      F a = (F)(0.0f), b = (F)(0.0f);                                                              \
      for (int u = 0; u < 4; ++u) {                                                                \
        if (u % GROUP_UNITS == 0) affine_of(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);     \
        F w[8];                                                                                    \
        unit_weights(block, span, u, lane, a, b, w);                                               \
        for (int r = 0; r < ROWS; ++r) {                                                           \
          const float8 v = vload8(s * 4 + u, xs[r]);                                               \
          acc[r] = fma(w[0], (F)(v.s0), acc[r]);                                                   \
          acc[r] = fma(w[1], (F)(v.s1), acc[r]);                                                   \
          acc[r] = fma(w[2], (F)(v.s2), acc[r]);                                                   \
          acc[r] = fma(w[3], (F)(v.s3), acc[r]);                                                   \
          acc[r] = fma(w[4], (F)(v.s4), acc[r]);                                                   \
          acc[r] = fma(w[5], (F)(v.s5), acc[r]);                                                   \
          acc[r] = fma(w[6], (F)(v.s6), acc[r]);                                                   \
          acc[r] = fma(w[7], (F)(v.s7), acc[r]);                                                   \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    for (int r = 0; r < ROWS; ++r) part[(r * SLICES + slice) * ITEMS + lane] = acc[r];             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    const int row = row0 + slice;                                                                  \
    if (slice >= ROWS || row >= rows || !here) return;                                             \
    __local const F* p = part + slice * SLICES * ITEMS + lane;                                     \
    const F sum = ((p[0] + p[4 * ITEMS]) + (p[2 * ITEMS] + p[6 * ITEMS])) +                        \
                  ((p[ITEMS] + p[5 * ITEMS]) + (p[3 * ITEMS] + p[7 * ITEMS]));                     \
    if (gated) scale = scale * gate[row];                                                          \
    float sums[ITEM_LANES];                                                                        \
    STORE_LANES(sum, sums);                                                                        \
    for (int i = 0; i < ITEM_LANES; ++i) {                                                         \
      const int col = panel * LANES + lane + i;                                                    \
      if (col >= y_cols) return;                                                                   \
      const float v = bias_at >= 0 ? sums[i] + vectors[bias_at + col] : sums[i];                   \
      finish_output(y + (long)row * y_stride + y_at + col, v, mode, activation, scale, cap);       \
    }                                                                                              \
  }

DEFINE_PRODUCT(product_one, 1)
DEFINE_PRODUCT(product_wide, ROWS_WIDE)

// x = (x * scale, if `add`) + the row of each token's id, or of its position. One group a token.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void embed(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int spans, int first_row,
    int last_row, __global const int4* tokens, int by_position, __global float* x, int x_stride,
    int cols, int add, float scale) {
  const int4 token = tokens[get_group_id(0)];
  const int row = (by_position ? token.y : token.x) - first_row;
  if (row < 0 || row >= last_row - first_row) return;
  __global const uchar* at = weights + weights_at + (ulong)(row / LANES) * panel_bytes;
  __global float* out = x + (long)get_group_id(0) * x_stride;
  const int lane = row % LANES;
  for (int s = get_local_id(0); s < spans; s += LANES) {
    __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;
    const int span = s % BLOCK_SPANS;
    F a = (F)(0.0f), b = (F)(0.0f);
    for (int u = 0; u < 4; ++u) {
      if (u % GROUP_UNITS == 0) affine_of(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);
      F w[8];
      unit_weights(block, span, u, lane, a, b, w);
      for (int j = 0; j < 8; ++j) {
        const int k = s * 32 + u * 8 + j;
        if (k < cols) out[k] = add ? out[k] * scale + LANE(w[j], lane) : LANE(w[j], lane);
      }
    }
  }
}
