// Tiles of matrix units from and to memory, row by row: a[tile][step][16][k], b[tile][step][8][k],
// c and d[tile][16][8]; d = c + the steps' products in their order. A warp has a tile.

void f16_fragment(__global const uint* a, int lane, uint* word) {
  const int at = lane / 4 * 8 + lane % 4;
  word[0] = a[at];
  word[1] = a[at + 64];
  word[2] = a[at + 4];
  word[3] = a[at + 68];
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void tiles_f16(
    __global const uint* a, __global const uint* b, __global const float* c, __global float* d,
    int steps) {
  const int lane = get_local_id(0) % 32;
  const ulong tile = get_global_id(0) / 32, at = tile * 128 + lane / 4 * 8 + lane % 4 * 2;
  float sum[4] = {c[at], c[at + 1], c[at + 64], c[at + 65]};
  for (int step = 0; step < steps; ++step) {
    uint word[4];
    f16_fragment(a + (tile * steps + step) * 128, lane, word);
    __global const uint* column = b + (tile * steps + step) * 64 + lane / 4 * 8 + lane % 4;
    mma_f16(sum, word, column[0], column[4]);
  }
  d[at] = sum[0];
  d[at + 1] = sum[1];
  d[at + 64] = sum[2];
  d[at + 65] = sum[3];
}

// The same of bytes, with k of 32: the words lie as those of 16 halves.
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void tiles_s8(
    __global const uint* a, __global const uint* b, __global const int* c, __global int* d,
    int steps) {
  const int lane = get_local_id(0) % 32;
  const ulong tile = get_global_id(0) / 32, at = tile * 128 + lane / 4 * 8 + lane % 4 * 2;
  int sum[4] = {c[at], c[at + 1], c[at + 64], c[at + 65]};
  for (int step = 0; step < steps; ++step) {
    uint word[4];
    f16_fragment(a + (tile * steps + step) * 128, lane, word);
    __global const uint* column = b + (tile * steps + step) * 64 + lane / 4 * 8 + lane % 4;
    mma_s8(sum, word, column[0], column[4]);
  }
  d[at] = sum[0];
  d[at + 1] = sum[1];
  d[at + 64] = sum[2];
  d[at + 65] = sum[3];
}
