// The rate of matrix units: eight chains that do not wait for each other, operands in registers.

#define CHAINS 8

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void rate_f16(
    __global float* y, int rounds, uint first) {
  float c[CHAINS][4];
  const uint item = get_local_id(0);
  const uint a[4] = {first + item, first ^ item, first, first};
  for (int i = 0; i < CHAINS; ++i) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0.0f;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) mma_f16(c[i], a, first + item, first);
  }
  float sum = 0.0f;
  for (int i = 0; i < CHAINS; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  y[get_global_id(0)] = sum;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void rate_s8(
    __global int* y, int rounds, uint first) {
  int c[CHAINS][4];
  const uint item = get_local_id(0);
  const uint a[4] = {first + item, first ^ item, first, first};
  for (int i = 0; i < CHAINS; ++i) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) mma_s8(c[i], a, first + item, first);
  }
  int sum = 0;
  for (int i = 0; i < CHAINS; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  y[get_global_id(0)] = sum;
}
