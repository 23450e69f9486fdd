// 128 rows of Q4_K weights by 128 rows of x, by mma of halves: eight warps of 32 by 64, weights
// unpacked into fragments, x by cp.async in a ring of four stages of 32 k. Sums of 512 k are added
// in rising order. x: halves [eight rows][k32][lane][8], column g of a fragment is row g.
#define STAGES 4
#define STAGE_BYTES 8192
#define TILE_VECTORS 32  // of eight rows and 32 k

void take_stage(uint stages, __global const uint4* x, ulong tile_vectors, int step, int item) {
  const uint to = stages + step % STAGES * STAGE_BYTES;
  for (int j = 0; j < 2; ++j) {
    const int i = item + j * 256, tile = i / TILE_VECTORS;
    copy_16(to + i * 16, x + tile * tile_vectors + step * TILE_VECTORS + i % TILE_VECTORS);
  }
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int blocks,
    __global const uint4* x, ulong tile_vectors, __global float* y, int y_stride) {
  __local uint4 all_stages[STAGES * STAGE_BYTES / 16] __attribute__((aligned(128)));
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5, g = lane >> 2;
  const int down = warp >> 1, across = warp & 1, steps = blocks * 8;
  __global const uchar* mine =
      weights + weights_at + (ulong)(get_group_id(0) * 8 + down * 2) * panel_bytes;
  __global const uint4* rows = x + get_group_id(1) * 16 * tile_vectors;
  const uint stages = local_address(all_stages);
  for (int i = 0; i < STAGES - 1; ++i) {
    take_stage(stages, rows, tile_vectors, i, item);
    close_copies();
  }
  float sum[2][8][4], total[2][8][4];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    sum[i / 32][i / 4 % 8][i % 4] = total[i / 32][i / 4 % 8][i % 4] = 0.0f;
  }
  int step = 0;
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    __global const uchar* at = mine + (ulong)block * BLOCK_BYTES;
    uint4 pairs[2][2];
    uint d[2][2];
    for (int m = 0; m < 2; ++m) {
      for (int r = 0; r < 2; ++r) {
        pairs[m][r] = stream_4(at + m * panel_bytes + SCALE_AT + (g + r * 8) * 16);
        d[m][r] = *(__global const uint*)(at + m * panel_bytes + D_AT + (g + r * 8) * 4);
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      uint4 codes[2];
      for (int m = 0; m < 2; ++m) codes[m] = stream_4(at + m * panel_bytes + c * 512 + lane * 16);
#pragma unroll
      for (int h = 0; h < 2; ++h, ++step) {
        WAIT_COPIES(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step + STAGES - 1 < steps) {
          take_stage(stages, rows, tile_vectors, step + STAGES - 1, item);
        }
        close_copies();
        uint a[2][2][4];
        for (int m = 0; m < 2; ++m) {
          const uint f0 = group_factors(word_of(pairs[m][0], c), h, d[m][0]);
          const uint f1 = group_factors(word_of(pairs[m][1], c), h, d[m][1]);
          for (int j = 0; j < 2; ++j) {
            weight_fragment(word_of(codes[m], h * 2 + j), f0, f1, a[m][j]);
          }
        }
        const uint from = stages + step % STAGES * STAGE_BYTES + across * 4096 + lane * 16;
        for (int n = 0; n < 8; ++n) {
          const uint4 b = load_4(from + n * 512);
          for (int m = 0; m < 2; ++m) {
            mma_f16(sum[m][n], a[m][0], b.x, b.y);
            mma_f16(sum[m][n], a[m][1], b.z, b.w);
          }
        }
      }
    }
    if (block % 2 == 0 && block < blocks - 1) continue;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      total[i / 32][i / 4 % 8][i % 4] += sum[i / 32][i / 4 % 8][i % 4];
      sum[i / 32][i / 4 % 8][i % 4] = 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int m = i / 32, n = i / 4 % 8, j = i % 4;
    const int column = get_group_id(0) * 128 + down * 32 + m * 16 + g + j / 2 * 8;
    const int row = get_group_id(1) * 128 + across * 64 + n * 8 + lane % 4 * 2 + j % 2;
    y[(ulong)row * y_stride + column] = total[m][n][j];
  }
}
