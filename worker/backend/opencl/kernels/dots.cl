// c + the products of four signed bytes, and of tiles of 16 by 16 and 16 by 8 bytes. Whole numbers:
// the result is the same however a device computes it.
#if DOT
#define UNROLL_DOTS _Pragma("unroll")
#else
#define UNROLL_DOTS _Pragma("unroll 1")  // a processor's compiler takes minutes
#endif
#if DOT == 1
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
int dot_4(uint a, uint b, int c) {
  return dot_4x8packed_ss_int(a, b) + c;
}
#elif DOT == 2
int dot_4(uint a, uint b, int c) {
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
#else
int dot_4(uint a, uint b, int c) {
  const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return products.x + products.y + products.z + products.w + c;
}
#endif

// A share of c[16][8] += a[16][16 k] * b[8][16 k] for each of 32 adjacent items, in the layout of
// PTX's mma.m16n8k16 (PTX ISA; item i: g = i / 4, t = i % 4). Of a: k 4t.. of rows g (first) and g
// + 8; of b: k 4t.. of row g; c[0], c[1]: row g, columns 2t and 2t + 1; c[2], c[3]: row g + 8.
#define MATRIX_ITEMS 32
#define MATRIX_WORDS (MATRIX == 1 ? 3 * MATRIX_ITEMS : 1)  // that the items exchange
#if MATRIX == 2
void add_matrix(uint a_first, uint a_second, uint b, int* c, int item, __local uint* all) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a_first), "r"(a_second), "r"(b));
}
#elif MATRIX == 1
// By ordinary operations, for devices without matrix units and for tests. `all`: the words of these
// items; every item of the group calls.
void add_matrix(uint a_first, uint a_second, uint b, int* c, int item, __local uint* all) {
  all[item] = a_first;
  all[MATRIX_ITEMS + item] = a_second;
  all[2 * MATRIX_ITEMS + item] = b;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < 4; ++j) {
    __local const uint* row = all + j / 2 * MATRIX_ITEMS + item / 4 * 4;
    __local const uint* column = all + 2 * MATRIX_ITEMS + (item % 4 * 2 + j % 2) * 4;
    for (int k = 0; k < 4; ++k) c[j] = dot_4(row[k], column[k], c[j]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
#endif
