// Weights as plain rows of floats: `out` has row0 + 16 rows for each panel, `stride` floats apart.
// Work-groups: (panel, 8 spans of 32 k).
__kernel __attribute__((reqd_work_group_size(LANES / ITEM_LANES, 8, 1))) void unpack(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int spans,
    __global float* out, int stride, int row0) {
  const int lane = get_local_id(0), panel = get_group_id(0), s = get_global_id(1);
  if (s >= spans) return;
  __global const uchar* block =
      weights + weights_at + (ulong)panel * panel_bytes + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;
  __global float* to = out + (long)(row0 + panel * LANES + lane) * stride + s * 32;
  const int span = s % BLOCK_SPANS;
  F a = (F)(0.0f), b = (F)(0.0f);
  for (int u = 0; u < 4; ++u) {
    if (u % GROUP_UNITS == 0) OF(affine_of)(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);
    F w[8];
    OF(unit_weights)(block, span, u, lane, a, b, w);
    for (int j = 0; j < 8; ++j) {
      float each[ITEM_LANES];
      STORE_LANES(w[j], each);
      for (int i = 0; i < ITEM_LANES; ++i) to[(long)i * stride + u * 8 + j] = each[i];
    }
  }
}
