// Sums of r3-f16 (r3_model.h) over 256 k, of PANELS panels of 16 weight rows by COLUMNS tiles of
// eight rows of x, by mma of halves; weights and x lie in local memory.
//
// x: halves [tile][k32][lane][8] (Batch::half_tiles); with ONE_ROW halves [k64][t][16]
// (Batch::half_rows), which every column of the fragment reads: the first one's sums are used.
#define STAGE_BYTES (PANELS * BLOCK_BYTES)
#ifdef ONE_ROW
#define X_TILE_SEGMENT 1024  // bytes of a tile of 512 k
#else
#define X_TILE_SEGMENT 8192
#endif
#define X_SEGMENT (COLUMNS * X_TILE_SEGMENT)

uint4 x_fragment(uint x, int n, int i, int h, int lane) {
#ifdef ONE_ROW
  return load_4(x + i * 128 + lane % 4 * 32 + h * 16);
#else
  return load_4(x + n * X_TILE_SEGMENT + (i * 2 + h) * 512 + lane * 16);
#endif
}

#ifdef RING_ONLY
// Reads the words and sums them, which says what the ring and the split of work reach.
void add_block(uint at, uint x, int lane, float (*sum)[COLUMNS][4]) {
  for (int p = 0; p < PANELS; ++p) {
    uint4 words = load_4(at + p * BLOCK_BYTES + SCALE_AT + lane / 2 * 16);
    for (int i = 0; i < 4; ++i) words ^= load_4(at + p * BLOCK_BYTES + i * 512 + lane * 16);
    sum[p][0][0] += as_float((words.x ^ words.y ^ words.z ^ words.w) & 0x3fffffffu);
  }
}
#else
void add_block(uint at, uint x, int lane, float (*sum)[COLUMNS][4]) {
  uint4 pairs[PANELS][2];
  uint d[PANELS][2];
  for (int p = 0; p < PANELS; ++p) {
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + r * 8;
      pairs[p][r] = load_4(at + p * BLOCK_BYTES + SCALE_AT + row * 16);
      d[p][r] = load_1(at + p * BLOCK_BYTES + D_AT + row * 4);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint4 codes[PANELS], b[COLUMNS][2];
    for (int p = 0; p < PANELS; ++p) codes[p] = load_4(at + p * BLOCK_BYTES + i * 512 + lane * 16);
    for (int n = 0; n < COLUMNS * 2; ++n) b[n / 2][n % 2] = x_fragment(x, n / 2, i, n % 2, lane);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      for (int p = 0; p < PANELS; ++p) {
        const uint f0 = group_factors(word_of(pairs[p][0], i), h, d[p][0]);
        const uint f1 = group_factors(word_of(pairs[p][1], i), h, d[p][1]);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          uint a[4];
          weight_fragment(word_of(codes[p], h * 2 + j), f0, f1, a);
          for (int n = 0; n < COLUMNS; ++n) {
            mma_f16(sum[p][n], a, word_of(b[n][h], j * 2), word_of(b[n][h], j * 2 + 1));
          }
        }
      }
    }
  }
}
#endif

void clear(float (*sum)[COLUMNS][4]) {
#pragma unroll
  for (int i = 0; i < PANELS * COLUMNS * 4; ++i) {
    sum[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] = 0.0f;
  }
}

// A lane's part of 16 weight rows by eight rows to y.
void put_fragment(__global float* y, int y_stride, int panel, int n, int lane, float4 v) {
  const int row = n * 8 + lane % 4 * 2, column = panel * 16 + lane / 4;
#ifdef ONE_ROW
  if (row > 0) return;
#endif
  __global float* const at = y + (ulong)row * y_stride + column;
  at[0] = v.x;
  at[8] = v.z;
#ifndef ONE_ROW
  at[y_stride] = v.y;
  at[y_stride + 8] = v.w;
#endif
}

// Fills a stage of a warp's ring with a block of PANELS panels, by one item.
void fill_stage(uint to, uint bar, ulong from, ulong panel_bytes) {
  mbarrier_expect(bar, STAGE_BYTES);
  for (int p = 0; p < PANELS; ++p) {
    bulk_copy_part(to + p * BLOCK_BYTES, from + p * panel_bytes, BLOCK_BYTES, bar);
  }
}
// Brings a segment of x, by one item.
void fill_x(uint to, uint bar, ulong x, ulong tile_bytes, int segment) {
  mbarrier_expect(bar, X_SEGMENT);
  for (int n = 0; n < COLUMNS; ++n) {
    bulk_copy_part(to + n * X_TILE_SEGMENT, x + n * tile_bytes + (ulong)segment * X_TILE_SEGMENT,
                   X_TILE_SEGMENT, bar);
  }
}
