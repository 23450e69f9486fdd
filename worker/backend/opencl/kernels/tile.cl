// Products of many rows, as in product.cl: a work-group has TILE_ROWS rows and TILE_PANELS panels,
// whose weights are unpacked once for all of them. An output consists of the chains of product.cl,
// slice by slice, in product.cl's order of adding slices, so that few sums are live at once. Items:
// (lanes of a panel, TILE_ROWS / 4), of one lane each; an item has four rows and all panels of the
// group.
#define TILE_ITEMS (TILE_ROWS / 4)
// Floats from one row of x to the next: rows that are read at once lie in different banks.
#define TILE_STRIDE 36

// Copies one span of k of the group's rows and weights into local memory, units divided over items.
void take_span(__global const uchar* weights, ulong panel_bytes, int panels, int s,
               __global const float* x, int x_stride, int row0, int rows, __local float* xs,
               __local float* ws, int lane, int group) {
  for (int i = group * LANES + lane; i < TILE_ROWS * 4; i += TILE_ITEMS * LANES) {
    const int row = min(row0 + i / 4, rows - 1);
    vstore8(eight_of(x + (long)row * x_stride, s * 4 + i % 4), 0,
            xs + i / 4 * TILE_STRIDE + i % 4 * 8);
  }
  for (int i = group; i < TILE_PANELS * 4; i += TILE_ITEMS) {
    const int p = i / 4, u = i % 4, span = s % BLOCK_SPANS;
    __global const uchar* block = weights + (ulong)min(p, panels - 1) * panel_bytes +
                                  (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;
    float a, b, w[8];
    OF(affine_of)(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);
    OF(unit_weights)(block, span, u, lane, a, b, w);
    for (int j = 0; j < 8; ++j) ws[((u * 8 + j) * LANES + lane) * TILE_PANELS + p] = w[j];
  }
}

#define FMA_K(j, c)                                                                                \
  for (int p = 0; p < TILE_PANELS; ++p) {                                                          \
    const float w = ws[((k + j) * LANES + lane) * TILE_PANELS + p];                                \
    acc[0][p] = fma(w, x0.c, acc[0][p]);                                                           \
    acc[1][p] = fma(w, x1.c, acc[1][p]);                                                           \
    acc[2][p] = fma(w, x2.c, acc[2][p]);                                                           \
    acc[3][p] = fma(w, x3.c, acc[3][p]);                                                           \
  }
#define EACH_SUM                \
  for (int r = 0; r < 4; ++r)   \
    for (int p = 0; p < TILE_PANELS; ++p)

__kernel __attribute__((reqd_work_group_size(LANES, TILE_ITEMS, 1))) void tile(
    __global const uchar* weights, __global const float* x, __global const float* squares,
    __global float* y, __global const float* vectors, __global const float* gate,
    const TileParameters args) {
  __local float xs[TILE_ROWS * TILE_STRIDE];
  __local float ws[32 * LANES * TILE_PANELS];
  const int lane = get_local_id(0), group = get_local_id(1);
  const int panel0 = get_group_id(0) * TILE_PANELS, row0 = get_group_id(1) * TILE_ROWS;
  __global const uchar* at = weights + args.weights_at + (ulong)panel0 * args.panel_bytes;
  float acc[4][TILE_PANELS], one[4][TILE_PANELS], two[4][TILE_PANELS], four[4][TILE_PANELS];
#pragma unroll 1
  for (int i = 0; i < SLICES; ++i) {
    const int slice = kSliceOrder[i];
    EACH_SUM acc[r][p] = 0.0f;
    for (int s = slice; s < args.spans; s += SLICES) {
      barrier(CLK_LOCAL_MEM_FENCE);
      take_span(at, args.panel_bytes, args.panels - panel0, s, x, args.x_stride, row0, args.rows,
                xs, ws, lane, group);
      barrier(CLK_LOCAL_MEM_FENCE);
      __local const float* mine = xs + group * 4 * TILE_STRIDE;
#pragma unroll 1
      for (int k = 0; k < 32; k += 4) {
        const float4 x0 = vload4(0, mine + k), x1 = vload4(0, mine + TILE_STRIDE + k);
        const float4 x2 = vload4(0, mine + 2 * TILE_STRIDE + k);
        const float4 x3 = vload4(0, mine + 3 * TILE_STRIDE + k);
        FMA_K(0, s0)
        FMA_K(1, s1)
        FMA_K(2, s2)
        FMA_K(3, s3)
      }
    }
    if ((i & 1) == 0) {
      EACH_SUM one[r][p] = acc[r][p];
    } else if ((i & 2) == 0) {
      EACH_SUM two[r][p] = one[r][p] + acc[r][p];
    } else if (i == 3) {
      EACH_SUM four[r][p] = two[r][p] + (one[r][p] + acc[r][p]);
    } else {
      EACH_SUM four[r][p] = four[r][p] + (two[r][p] + (one[r][p] + acc[r][p]));
    }
  }
  for (int r = 0; r < 4; ++r) {
    const int row = row0 + group * 4 + r;
    if (row >= args.rows) return;
    __global const float* chains = squares + (long)row * args.squares_n;
    const float factor =
        args.squares_n > 0 ? norm_factor(chains, args.squares_n, args.norm_n, args.norm_eps) : 1.0f;
    const float times = args.gated ? args.scale * gate[row] : args.scale;
    for (int p = 0; p < TILE_PANELS; ++p) {
      const int col = (panel0 + p) * LANES + lane;
      if (col >= args.y_cols) break;
      const float sum = four[r][p] * factor;
      const float v = args.bias_at >= 0 ? sum + vectors[args.bias_at + col] : sum;
      __global float* to = y + (long)row * args.y_stride + args.y_at + col;
      *to = finish_output(to, v, args.mode, args.activation, times, args.cap);
    }
  }
}
