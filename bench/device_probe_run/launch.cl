// Kernels that do next to nothing, for the costs of launching.

__kernel void empty_1(__global int* x) {
  if (get_global_size(0) == 0) x[0] = 1;
}

#define FOUR(N) int a##N, int b##N, int c##N, int d##N
__kernel void empty_40(__global int* x, __global int* y, __global int* z, __global int* w, FOUR(0),
                       FOUR(1), FOUR(2), FOUR(3), FOUR(4), FOUR(5), FOUR(6), FOUR(7), FOUR(8)) {
  if (get_global_size(0) == 0) x[0] = a0 + b1 + c2 + d3 + a4 + b5 + c6 + d7 + a8;
}

// y[0] = x[0] + 1; x or y may be memory of the host.
__kernel void add_one(__global const volatile int* x, __global volatile int* y) {
  y[0] = x[0] + 1;
}
