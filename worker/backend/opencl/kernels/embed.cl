// x = (x * scale, if `add`) + the row of each token's id, or of its position. Work-groups: (token,
// LANES spans of the row).
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
  const int s = get_group_id(1) * LANES + get_local_id(0);
  if (s < spans) {
    __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;
    const int span = s % BLOCK_SPANS;
    F a = (F)(0.0f), b = (F)(0.0f);
    for (int u = 0; u < 4; ++u) {
      if (u % GROUP_UNITS == 0) OF(affine_of)(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);
      F w[8];
      OF(unit_weights)(block, span, u, lane, a, b, w);
      for (int j = 0; j < 8; ++j) {
        const int k = s * 32 + u * 8 + j;
        if (k < cols) out[k] = add ? out[k] * scale + LANE(w[j], lane) : LANE(w[j], lane);
      }
    }
  }
}
