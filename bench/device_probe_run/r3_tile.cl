// r3-f16 for many rows: 16 * MP * DOWN weight rows by 128 rows of x, by mma of halves; 2 * DOWN
// warps of 16 * MP by 64, fed by r3_feed.cl with PANELS_OF_TILE = MP * DOWN. The totals of segments
// lie in local memory, each lane's own.
// x: halves [tile][k32][lane][8] (Batch::half_tiles).

// 64 k: MP panels by eight tiles.
void add_chunk(uint weights, uint x, int c, int lane, uint4 (*pairs)[2], uint (*d)[2],
               float (*sum)[8][4]) {
  uint4 codes[MP];
  for (int m = 0; m < MP; ++m) codes[m] = load_4(weights + m * BLOCK_BYTES + c * 512 + lane * 16);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint a[MP][2][4];
    for (int m = 0; m < MP; ++m) {
      const uint f0 = group_factors(word_of(pairs[m][0], c), h, d[m][0]);
      const uint f1 = group_factors(word_of(pairs[m][1], c), h, d[m][1]);
      for (int j = 0; j < 2; ++j) weight_fragment(word_of(codes[m], h * 2 + j), f0, f1, a[m][j]);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const uint4 b = load_4(x + n * X_TILE + h * 512 + lane * 16);
      for (int m = 0; m < MP; ++m) mma_f16(sum[m][n], a[m][0], b.x, b.y);
      for (int m = 0; m < MP; ++m) mma_f16(sum[m][n], a[m][1], b.z, b.w);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int blocks,
    __global const uchar* x, ulong tile_bytes, __global float* y, int y_stride) {
  __local uchar w_stages[2 * W_STAGE] __attribute__((aligned(128)));
  __local uchar x_stages[X_STAGES * X_STAGE] __attribute__((aligned(128)));
  __local float4 totals[WARPS * MP * 8 * 32];
  __local ulong bars[2 * (2 + X_STAGES)];
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
  const int down = warp >> 1, across = warp & 1;
  const LocalMemory p = {local_address(w_stages), local_address(x_stages), local_address(bars)};
  if (item == 0) start_bars(&p);
  barrier(CLK_LOCAL_MEM_FENCE);
  Source source = {(ulong)weights + weights_at + get_group_id(0) * PANELS_OF_TILE * panel_bytes,
                   panel_bytes,
                   (ulong)x + get_group_id(1) * 16 * tile_bytes,
                   tile_bytes,
                   0,
                   blocks * 4};
  for (int i = 0; i < X_STAGES - 1 && warp == 0; ++i) bring(&p, &source, lane);
  __local float4* const mine = totals + warp * MP * 8 * 32 + lane;
  float sum[MP][8][4];
#pragma unroll
  for (int i = 0; i < MP * 32; ++i) sum[i / 32][i / 4 % 8][i % 4] = 0.0f;
  for (int i = 0; i < MP * 8; ++i) mine[i * 32] = (float4)(0.0f);
  int slot = 0;
  uint x_parity = 0;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    const uint w_bar = bar_of_weights(&p, block % 2);
    const uint at = p.weights + block % 2 * W_STAGE + down * MP * BLOCK_BYTES;
    mbarrier_wait(w_bar, (block / 2) & 1);
    uint4 pairs[MP][2];
    uint d[MP][2];
    for (int i = 0; i < MP * 2; ++i) {
      const uint row = at + i / 2 * BLOCK_BYTES, r = lane / 4 + i % 2 * 8;
      pairs[i / 2][i % 2] = load_4(row + SCALE_AT + r * 16);
      d[i / 2][i % 2] = load_1(row + D_AT + r * 4);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      mbarrier_wait(bar_of_x(&p, slot), x_parity);
      add_chunk(at, p.x + slot * X_STAGE + across * 8 * X_TILE, c, lane, pairs, d, sum);
      sync_warp();
      if (lane == 0) mbarrier_arrive(bar_of_x(&p, slot) + 8);
      if (lane == 0 && c == 3) mbarrier_arrive(w_bar + 8);
      if (warp == 0) bring(&p, &source, lane);
      x_parity ^= ++slot == X_STAGES;
      if (slot == X_STAGES) slot = 0;
    }
    if (block % 2 == 0 && block < blocks - 1) continue;
#pragma unroll
    for (int i = 0; i < MP * 8; ++i) {
      float* const v = sum[i / 8][i % 8];
      mine[i * 32] += (float4)(v[0], v[1], v[2], v[3]);
      v[0] = v[1] = v[2] = v[3] = 0.0f;
    }
  }
  for (int i = 0; i < MP * 8; ++i) {
    const float4 v = mine[i * 32];
    const int column = (get_group_id(0) * PANELS_OF_TILE + down * MP + i / 8) * 16 + lane / 4;
    const int row = get_group_id(1) * 128 + across * 64 + i % 8 * 8 + lane % 4 * 2;
    __global float* const to = y + (ulong)row * y_stride + column;
    to[0] = v.x;
    to[y_stride] = v.y;
    to[8] = v.z;
    to[y_stride + 8] = v.w;
  }
}
