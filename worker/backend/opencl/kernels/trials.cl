// Trials that tell if a capability gives the right result on a device (probe.cpp). One work-group
// of 64 items, in two dimensions as that of products where this matters.
#if TRIAL == 1  // 64 numbers; their sum and their largest, by every item
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f(__global int* x) {
  __local float part[64];
  const int item = get_local_id(0);
  const float v = (float)x[item];
  x[item] = (int)group_sum(v, part, item, 64);
  x[64 + item] = (int)group_max(v, part, item, 64);
}
#elif TRIAL == 2  // a, b, c of each item; a b + c
__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void f(__global int* x) {
  const int item = get_local_id(1) * 16 + get_local_id(0);
  x[item] = dot_4(as_uint(x[item]), as_uint(x[64 + item]), x[128 + item]);
}
#else  // a (two words), b and c (four) of each item of two tiles; c
__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void f(__global int* x) {
#if MATRIX == 1
  __local uint all[2 * MATRIX_WORDS];
#else
  __local uint all[2];
#endif
  const int item = get_local_id(1) * 16 + get_local_id(0);
  int c[4];
  for (int j = 0; j < 4; ++j) c[j] = x[192 + item * 4 + j];
  add_matrix(as_uint(x[item]), as_uint(x[64 + item]), as_uint(x[128 + item]), c, item % 32,
             all + (MATRIX == 1 ? item / MATRIX_ITEMS * MATRIX_WORDS : 0));
  for (int j = 0; j < 4; ++j) x[192 + item * 4 + j] = c[j];
}
#endif
