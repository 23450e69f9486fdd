// Eight, 16 or 32 rows (8 * COLUMNS) times Q4_K weights by mma of halves. A group has a panel of 16
// weight rows; each of its warps takes every fourth segment of 512 k, by a ring of its own. Sums of
// segments are added in a warp in rising order, then those of the warps.
//
// x: halves [row][k64][t][16], where t's sixteen are k 16 j + {2t, 2t + 1, 2t + 8, 2t + 9}, j < 4.
#define WARPS 4
#define STAGES 2
#define SEGMENT_BYTES (2 * BLOCK_BYTES)
#define PART_FLOATS (COLUMNS * 8 * 16)

void add_block(uint at, int lane, __global const uint4* x, ulong row_vectors, int block,
               float (*sum)[4]) {
  const int g = lane / 4, t = lane % 4;
  const uint4 first = load_4(at + SCALE_AT + g * 16), second = load_4(at + SCALE_AT + (g + 8) * 16);
  const uint d_first = load_1(at + D_AT + g * 4), d_second = load_1(at + D_AT + (g + 8) * 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 codes = load_4(at + i * 512 + lane * 16);
    uint4 b[COLUMNS][2];
    for (int n = 0; n < COLUMNS; ++n) {
      __global const uint4* from =
          x + (ulong)(n * 8 + g) * row_vectors + (block * 4 + i) * 8 + t * 2;
      b[n][0] = from[0];
      b[n][1] = from[1];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint f0 = group_factors(word_of(first, i), h, d_first);
      const uint f1 = group_factors(word_of(second, i), h, d_second);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint a[4];
        weight_fragment(word_of(codes, h * 2 + j), f0, f1, a);
        for (int n = 0; n < COLUMNS; ++n) {
          mma_f16(sum[n], a, word_of(b[n][h], j * 2), word_of(b[n][h], j * 2 + 1));
        }
      }
    }
  }
}

void start_ring(uint ring, uint bar, ulong from, int warp, int segments) {
  for (int i = 0; i < STAGES; ++i) mbarrier_start(bar + i * 8);
  mbarriers_started();
  for (int i = 0; i < STAGES; ++i) {
    const int segment = warp + i * WARPS;
    if (segment >= segments) break;
    bulk_copy(ring + i * SEGMENT_BYTES, from + (ulong)segment * SEGMENT_BYTES, SEGMENT_BYTES,
              bar + i * 8);
  }
}

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int segments,
    __global const uint4* x, ulong row_vectors, __global float* y, int y_stride) {
  __local uchar rings[WARPS * STAGES * SEGMENT_BYTES] __attribute__((aligned(128)));
  __local ulong bars[WARPS * STAGES];
  __local float part[WARPS * PART_FLOATS];
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
  const uint ring = local_address(rings) + warp * STAGES * SEGMENT_BYTES;
  const uint bar = local_address(bars) + warp * STAGES * 8;
  const ulong from = (ulong)weights + weights_at + get_group_id(0) * panel_bytes;
  if (lane == 0) start_ring(ring, bar, from, warp, segments);
  sync_warp();
  int stage = 0;
  uint parity = 0;
  float total[COLUMNS][4];
  for (int n = 0; n < COLUMNS; ++n) {
    for (int j = 0; j < 4; ++j) total[n][j] = 0.0f;
  }
  for (int segment = warp; segment < segments; segment += WARPS) {
    float sum[COLUMNS][4];
    for (int n = 0; n < COLUMNS; ++n) {
      for (int j = 0; j < 4; ++j) sum[n][j] = 0.0f;
    }
    mbarrier_wait(bar + stage * 8, parity);
#pragma unroll 1
    for (int k = 0; k < 2; ++k) {
      add_block(ring + stage * SEGMENT_BYTES + k * BLOCK_BYTES, lane, x, row_vectors,
                segment * 2 + k, sum);
    }
    sync_warp();
    const int next = segment + STAGES * WARPS;
    if (lane == 0 && next < segments) {
      bulk_copy(ring + stage * SEGMENT_BYTES, from + (ulong)next * SEGMENT_BYTES, SEGMENT_BYTES,
                bar + stage * 8);
    }
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
    for (int n = 0; n < COLUMNS; ++n) {
      for (int j = 0; j < 4; ++j) total[n][j] += sum[n][j];
    }
  }
  for (int n = 0; n < COLUMNS; ++n) {
    for (int j = 0; j < 4; ++j) {
      const int row = n * 8 + lane % 4 * 2 + j % 2;
      part[warp * PART_FLOATS + row * 16 + lane / 4 + j / 2 * 8] = total[n][j];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < PART_FLOATS; i += 32 * WARPS) {
    float v = part[i];
    for (int w = 1; w < WARPS; ++w) v += part[w * PART_FLOATS + i];
    y[(ulong)(i / 16) * y_stride + get_group_id(0) * 16 + i % 16] = v;
  }
}
