// Four or eight rows (4 * COLUMNS) times Q4_K weights by mma of bytes, exact in integers over a
// block of 256 k. Weights: q4k.h, kBytes. Groups, warps and rings as in ring16.cl.
//
// x: codes of 14 bits, 64 * high + low, with a scale for each 256 k. fragments: [four rows][block]
// [lane][4 vectors]: column g of the tile is row g / 2, high (even g) or low; sums: [row][block][2
// vectors]: the codes' sums over 32 k as bytes low, middle, high (8 each), then the scale.
#define BLOCK_BYTES 2368
#define SCALE_AT 2048
#define MINIMUM_AT 2176
#define D_AT 2304
#define WARPS 4
#define STAGES 2
#define SEGMENT_BYTES (2 * BLOCK_BYTES)
#define PART_FLOATS (COLUMNS * 4 * 16)

uint word_of(uint4 v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The sum of a row's minima times the sums of x.
int minima_sum(uint2 minima, uint4 u, uint4 v) {
  const int low = dot_us(minima.x, u.x, dot_us(minima.y, u.y, 0));
  const int middle = dot_us(minima.x, u.z, dot_us(minima.y, u.w, 0));
  const int high = dot_us(minima.x, v.x, dot_us(minima.y, v.y, 0));
  return low + middle * 256 + high * 65536;
}

void add_block(uint at, int lane, __global const uint4* x, ulong tile_vectors,
               __global const uint4* sums, ulong row_vectors, int block, float (*total)[2]) {
  const int g = lane / 4, t = lane % 4;
  const uint2 scales[2] = {load_2(at + SCALE_AT + g * 8), load_2(at + SCALE_AT + (g + 8) * 8)};
  int sum[COLUMNS][2];
  for (int n = 0; n < COLUMNS; ++n) sum[n][0] = sum[n][1] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 codes = load_4(at + i * 512 + lane * 16);
    uint4 b[COLUMNS];
    for (int n = 0; n < COLUMNS; ++n) b[n] = x[n * tile_vectors + block * 128 + lane * 4 + i];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint w0 = word_of(codes, h * 2), w1 = word_of(codes, h * 2 + 1);
      const uint a0 = w0 & 0x0f0f0f0fu, a1 = w0 >> 4 & 0x0f0f0f0fu;
      const uint a2 = w1 & 0x0f0f0f0fu, a3 = w1 >> 4 & 0x0f0f0f0fu;
      int scale[2];
      for (int r = 0; r < 2; ++r) {
        const uint four = i < 2 ? scales[r].x : scales[r].y;
        scale[r] = (int)select_bytes(four, 0u, 0x4440u + (i * 2 + h) % 4);
      }
      for (int n = 0; n < COLUMNS; ++n) {
        int c[4] = {0, 0, 0, 0};
        mma_u8_s8(c, a0, a1, a2, a3, word_of(b[n], h * 2), word_of(b[n], h * 2 + 1));
        sum[n][0] += scale[0] * (c[0] * 64 + c[1]);
        sum[n][1] += scale[1] * (c[2] * 64 + c[3]);
      }
    }
  }
  for (int n = 0; n < COLUMNS; ++n) {
    __global const uint4* p = sums + (n * 4 + t) * row_vectors + block * 2;
    const uint4 u = p[0], v = p[1];
    for (int r = 0; r < 2; ++r) {
      const uint d = load_1(at + D_AT + (g + r * 8) * 4);
      const int least = minima_sum(load_2(at + MINIMUM_AT + (g + r * 8) * 8), u, v);
      const float value = fma(float_of_half(d & 0xffff), (float)sum[n][r],
                              float_of_half(d >> 16) * (float)least);
      total[n][r] = fma(as_float(v.z), value, total[n][r]);
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
    __global const uint4* x, ulong tile_vectors, __global const uint4* sums, ulong row_vectors,
    __global float* y, int y_stride) {
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
  float total[COLUMNS][2];
  for (int n = 0; n < COLUMNS; ++n) total[n][0] = total[n][1] = 0.0f;
  for (int segment = warp; segment < segments; segment += WARPS) {
    mbarrier_wait(bar + stage * 8, parity);
#pragma unroll 1
    for (int k = 0; k < 2; ++k) {
      add_block(ring + stage * SEGMENT_BYTES + k * BLOCK_BYTES, lane, x, tile_vectors, sums,
                row_vectors, segment * 2 + k, total);
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
  }
  for (int n = 0; n < COLUMNS; ++n) {
    for (int r = 0; r < 2; ++r) {
      part[warp * PART_FLOATS + (n * 4 + lane % 4) * 16 + lane / 4 + r * 8] = total[n][r];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < PART_FLOATS; i += 32 * WARPS) {
    float v = part[i];
    for (int w = 1; w < WARPS; ++w) v += part[w * PART_FLOATS + i];
    y[(ulong)(i / 16) * y_stride + get_group_id(0) * 16 + i % 16] = v;
  }
}
