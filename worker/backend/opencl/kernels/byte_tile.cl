// Products of many int8 rows (bytes.cl): a work-group has TILE_ROWS rows and TILE_PANELS panels. An
// output consists of the chains of product.cl, slice by slice, in product.cl's order of adding
// slices. Items: (lanes of a panel, TILE_ROWS / 4); each has sixteen outputs. Without matrix units
// an item has four rows at one lane of each panel; with them 32 items have a panel and half of the
// rows, in add_matrix's layout.
#define TILE_ITEMS (TILE_ROWS / 4)
// Words from one row of x, and from one word of the codes, to the next: words that items read at
// once lie in different banks.
#define X_STRIDE 28
#define X_HALF 12
#define W_STRIDE (TILE_PANELS * LANES + 8)

// Copies one span of k of the group's rows and weights into local memory.
void take_bytes(__global const uchar* weights, ulong panel_bytes, int panels, int s,
                __global const float* x, int x_stride, int row0, int rows, __local uint* xs,
                __local uint* ws, __local float* as, __local float* bs, int lane, int group) {
  for (int i = group * LANES + lane; i < TILE_ROWS * 2 * INT8_PANEL_WORDS; i += TILE_ITEMS * LANES) {
    const int r = i / (2 * INT8_PANEL_WORDS), word = i % (2 * INT8_PANEL_WORDS);
    const int h = word / INT8_PANEL_WORDS, at = word % INT8_PANEL_WORDS;
    xs[r * X_STRIDE + h * X_HALF + at] = as_uint(
        x[(long)min(row0 + r, rows - 1) * x_stride + (s * 2 + h) * 16 + at]);
  }
  for (int i = group; i < TILE_PANELS * 2; i += TILE_ITEMS) {
    const int p = i / 2, h = i % 2;
    __global const uchar* block = weights + (ulong)min(p, panels - 1) * panel_bytes +
                                  (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;
    uint w[4];
    float a, b;
    OF(half_words)(block, s % BLOCK_SPANS * 2 + h, lane, w, &a, &b);
    for (int k = 0; k < 4; ++k) ws[(h * 4 + k) * W_STRIDE + p * LANES + lane] = w[k];
    as[h * W_STRIDE + p * LANES + lane] = a;
    bs[h * W_STRIDE + p * LANES + lane] = b;
  }
}

#if MATRIX
// Row and column in the tile of an item's output i.
int tile_row(int lane, int group, int i) {
  const int item = group * LANES + lane;
  return item / MATRIX_ITEMS / TILE_PANELS * (TILE_ROWS / 2) + i / 4 * 8 + item % 4 * 2 + i % 2;
}
int tile_column(int lane, int group, int i) {
  const int item = group * LANES + lane;
  return item / MATRIX_ITEMS % TILE_PANELS * LANES + item % MATRIX_ITEMS / 4 + i % 4 / 2 * 8;
}

void add_half_tile(__local const uint* xs, __local const uint* ws, __local const float* as,
                   __local const float* bs, int lane, int group, __local uint* all, float* acc) {
  const int item = (group * LANES + lane) % MATRIX_ITEMS;
  const int column = tile_column(lane, group, 0);
  const uint first = ws[item % 4 * W_STRIDE + column];
  const uint second = ws[item % 4 * W_STRIDE + column + 8];
  UNROLL_DOTS
  for (int t = 0; t < 4; ++t) {
    const int row = tile_row(lane, group, t * 4);  // of c; of b it is the item's own
    const int mine = row - item % 4 * 2 + item / 4;
    int c[4] = {0, 0, 0, 0};
    add_matrix(first, second, xs[mine * X_STRIDE + item % 4], c, item, all);
    for (int j = 0; j < 4; ++j) c[j] *= 128;
    add_matrix(first, second, xs[mine * X_STRIDE + 4 + item % 4], c, item, all);
    for (int j = 0; j < 4; ++j) {
      const int r = row + j % 2, col = column + j / 2 * 8;
      acc[t * 4 + j] = OF(add_half)(acc[t * 4 + j], c[j], as_float(xs[r * X_STRIDE + 8]),
                                    as_float(xs[r * X_STRIDE + 9]), as[col], bs[col]);
    }
  }
}
#else
int tile_row(int lane, int group, int i) {
  return group * 4 + i / 4;
}
int tile_column(int lane, int group, int i) {
  return i % 4 * LANES + lane;
}

void add_half_tile(__local const uint* xs, __local const uint* ws, __local const float* as,
                   __local const float* bs, int lane, int group, __local uint* all, float* acc) {
  UNROLL_DOTS
  for (int i = 0; i < 16; ++i) {
    const int column = tile_column(lane, group, i);
    __local const uint* row = xs + tile_row(lane, group, i) * X_STRIDE;
    int sum = 0;
    for (int k = 0; k < 4; ++k) sum = dot_4(ws[k * W_STRIDE + column], row[k], sum);
    sum *= 128;
    for (int k = 0; k < 4; ++k) sum = dot_4(ws[k * W_STRIDE + column], row[4 + k], sum);
    acc[i] = OF(add_half)(acc[i], sum, as_float(row[8]), as_float(row[9]), as[column], bs[column]);
  }
}
#endif

#define EACH_OUTPUT for (int j = 0; j < 16; ++j)

__kernel __attribute__((reqd_work_group_size(LANES, TILE_ITEMS, 1))) void tile(
    __global const uchar* weights, __global const float* x, __global const float* squares,
    __global float* y, __global const float* vectors, __global const float* gate,
    const TileParameters args) {
  __local uint xs[TILE_ROWS * X_STRIDE], ws[8 * W_STRIDE];
  __local float as[2 * W_STRIDE], bs[2 * W_STRIDE];
#if MATRIX == 1
  __local uint exchanged[TILE_ITEMS * LANES / MATRIX_ITEMS * MATRIX_WORDS];
#else
  __local uint exchanged[3];
#endif
  const int lane = get_local_id(0), group = get_local_id(1);
  __local uint* all =
      exchanged + (MATRIX == 1 ? (group * LANES + lane) / MATRIX_ITEMS * MATRIX_WORDS : 0);
  const int panel0 = get_group_id(0) * TILE_PANELS, row0 = get_group_id(1) * TILE_ROWS;
  __global const uchar* at = weights + args.weights_at + (ulong)panel0 * args.panel_bytes;
  float acc[16], one[16], two[16], four[16];
#pragma unroll 1
  for (int i = 0; i < SLICES; ++i) {
    const int slice = kSliceOrder[i];
    EACH_OUTPUT acc[j] = 0.0f;
    for (int s = slice; s < args.spans; s += SLICES) {
      barrier(CLK_LOCAL_MEM_FENCE);
      take_bytes(at, args.panel_bytes, args.panels - panel0, s, x, args.x_stride, row0, args.rows,
                 xs, ws, as, bs, lane, group);
      barrier(CLK_LOCAL_MEM_FENCE);
      add_half_tile(xs, ws, as, bs, lane, group, all, acc);
      add_half_tile(xs + X_HALF, ws + 4 * W_STRIDE, as + W_STRIDE, bs + W_STRIDE, lane, group, all,
                    acc);
    }
    if ((i & 1) == 0) {
      EACH_OUTPUT one[j] = acc[j];
    } else if ((i & 2) == 0) {
      EACH_OUTPUT two[j] = one[j] + acc[j];
    } else if (i == 3) {
      EACH_OUTPUT four[j] = two[j] + (one[j] + acc[j]);
    } else {
      EACH_OUTPUT four[j] = four[j] + (two[j] + (one[j] + acc[j]));
    }
  }
  __local float* factors = (__local float*)xs;
  const int item = group * LANES + lane;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < TILE_ROWS && row0 + item < args.rows) {
    __global const float* mine = squares + (long)(row0 + item) * args.squares_n;
    factors[item] =
        args.squares_n > 0 ? norm_factor(mine, args.squares_n, args.norm_n, args.norm_eps) : 1.0f;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < 16; ++j) {
    const int row = row0 + tile_row(lane, group, j);
    const int col = panel0 * LANES + tile_column(lane, group, j);
    if (row >= args.rows || col >= args.y_cols) continue;
    const float times = args.gated ? args.scale * gate[row] : args.scale;
    const float sum = four[j] * factors[row - row0];
    const float v = args.bias_at >= 0 ? sum + vectors[args.bias_at + col] : sum;
    __global float* to = y + (long)row * args.y_stride + args.y_at + col;
    *to = finish_output(to, v, args.mode, args.activation, times, args.cap);
  }
}
