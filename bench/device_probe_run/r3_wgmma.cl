// r3-f16 for many rows by wgmma (wgmma_128.cl): 16 * WARPS weight rows by 128 rows of x, of which
// a warp has 16 by 128; WARPS is a multiple of four, PANELS_OF_TILE the same. Weights are unpacked
// into the registers that wgmma takes while the one before is still at work. X_STAGES is 2 or 4.
// x: halves [tile][k16][2][8 rows][8] (Batch::half_cores).

// The operand of 128 rows by 16 k: cores of 128 bytes, the two of a row's side by side, groups of
// eight rows X_TILE apart.
ulong wgmma_operand(uint at) {
  return (ulong)((at & 0x3ffff) >> 4) | (ulong)(128 >> 4) << 16 | (ulong)(X_TILE >> 4) << 32;
}

// The fragments of a panel and 64 k.
void unpack(uint4 codes, uint first, uint second, uint d_first, uint d_second, uint (*a)[4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint f0 = group_factors(first, h, d_first), f1 = group_factors(second, h, d_second);
    weight_fragment(word_of(codes, h * 2), f0, f1, a[h * 2]);
    weight_fragment(word_of(codes, h * 2 + 1), f0, f1, a[h * 2 + 1]);
  }
}

void multiply(float* sum, uint (*a)[4], uint x) {
  wgmma_begin(sum);
#pragma unroll
  for (int j = 0; j < 4; ++j) wgmma_128(sum, a[j], wgmma_operand(x + j * 256));
  wgmma_close();
}

// Waits for the product of chunk c - 1 of a segment and gives its stages back.
void release(const LocalMemory* p, Source* source, int c, int warp, int lane, float* sum) {
  wgmma_wait(sum);
  if (lane == 0) {
    mbarrier_arrive(bar_of_x(p, (c - 1) % X_STAGES) + 8);
    if (c % 4 == 0) mbarrier_arrive(bar_of_weights(p, c / 4 - 1) + 8);
  }
  if (warp == 0) bring(p, source, lane);
}

void put(__global float* y, int y_stride, int lane, const float* total) {
#pragma unroll
  for (int n = 0; n < 16; ++n) {
    __global float* const to = y + (ulong)(n * 8 + lane % 4 * 2) * y_stride + lane / 4;
    to[0] = total[n * 4];
    to[y_stride] = total[n * 4 + 1];
    to[8] = total[n * 4 + 2];
    to[y_stride + 8] = total[n * 4 + 3];
  }
}

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int blocks,
    __global const uchar* x, ulong tile_bytes, __global float* y, int y_stride) {
  __local uchar w_stages[2 * W_STAGE] __attribute__((aligned(128)));
  __local uchar x_stages[X_STAGES * X_STAGE] __attribute__((aligned(128)));
  __local ulong bars[2 * (2 + X_STAGES)];
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5, g = lane >> 2;
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
  float sum[64], total[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) sum[i] = total[i] = 0.0f;
#pragma unroll 1
  for (int segment = 0; segment < blocks / 2; ++segment) {
    uint4 first, second;
    uint d_first, d_second;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int stage = c / 4;  // of weights
      const uint at = p.weights + stage * W_STAGE + warp * BLOCK_BYTES;
      if (c % 4 == 0) {
        mbarrier_wait(bar_of_weights(&p, stage), segment & 1);
        first = load_4(at + SCALE_AT + g * 16);
        second = load_4(at + SCALE_AT + (g + 8) * 16);
        d_first = load_1(at + D_AT + g * 4);
        d_second = load_1(at + D_AT + (g + 8) * 4);
      }
      uint a[4][4];
      unpack(load_4(at + c % 4 * 512 + lane * 16), word_of(first, c % 4), word_of(second, c % 4),
             d_first, d_second, a);
      if (c > 0) release(&p, &source, c, warp, lane, sum);
      mbarrier_wait(bar_of_x(&p, c % X_STAGES), c / X_STAGES & 1);
      multiply(sum, a, p.x + c % X_STAGES * X_STAGE);
    }
    release(&p, &source, 8, warp, lane, sum);
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      total[i] += sum[i];
      sum[i] = 0.0f;
    }
  }
  put(y + (ulong)get_group_id(1) * 128 * y_stride + (get_group_id(0) * PANELS_OF_TILE + warp) * 16,
      y_stride, lane, total);
}
