// Kernels that last a given time, for what a launch costs beside them.

#define FOUR(N) int a##N, int b##N, int c##N, int d##N

void spin(uint ns) {
  const ulong until = nanoseconds() + ns;
  while (nanoseconds() < until) {
  }
}

__kernel void spin_1(uint ns) {
  spin(ns);
}

__kernel void spin_40(__global int* x, __global int* y, __global int* z, __global int* w, FOUR(0),
                      FOUR(1), FOUR(2), FOUR(3), FOUR(4), FOUR(5), FOUR(6), FOUR(7), FOUR(8)) {
  if (get_global_size(0) == 0) x[0] = y[0] + z[0] + w[0] + b1 + c2 + d3 + a4 + b5 + c6 + d7 + a8;
  spin((uint)a0);
}
