// Sums of products of one format's codes with records (records.cl), exact in whole numbers of 32
// bits over the 16 k that share a scale: so how the bytes are multiplied does not enter the bits.
// Functions have the format's number behind their names, as in weights.cl.

// Codes of four k of unit u of a block, a byte each.
uint OF(code_word)(__global const uchar* block, int unit, int h, int lane) {
  __global const uint* low = (__global const uint*)(block + LOW_AT);
  const int u = unit & 3;
#if LOW_BITS == 8
  uint word = LANES_OF(low, unit * 2 + h);
#elif LOW_BITS == 4
  uint word = LANES_OF(low, unit) >> (4 * h) & 0x0f0f0f0fu;
#else
  uint word = LANES_OF(low, unit / 2) >> (2 * (2 * (u & 1) + h)) & 0x03030303u;
#endif
#if HIGH_BITS == 1
  const uint high = LANES_OF((__global const uint*)(block + HIGH_AT), unit / 4);
  word |= (high >> (2 * u + h) & 0x01010101u) << LOW_BITS;
#elif HIGH_BITS == 2
  const uint high = LANES_OF((__global const uint*)(block + HIGH_AT), unit / 2);
  word |= (high >> (2 * (2 * (u & 1) + h)) & 0x03030303u) << LOW_BITS;
#endif
#if TABLE
  const uchar4 at = as_uchar4(word);
  word = as_uint((char4)(OF(kBytes)[at.x], OF(kBytes)[at.y], OF(kBytes)[at.z], OF(kBytes)[at.w]));
#endif
  return word;
}

// Those of the 16 k of half `half` of a block, and a and b of weight = byte * a + b.
void OF(half_words)(__global const uchar* block, int half_at, int lane, uint* word, float* a,
                    float* b) {
  OF(affine_of)(block, half_at * 16 / GROUP, lane, a, b);
#if TABLE
  *a *= 1.0f / TABLE_TIMES;  // a power of two
#endif
  for (int i = 0; i < 4; ++i) word[i] = OF(code_word)(block, 2 * half_at + i / 2, i % 2, lane);
}

// acc + the products of 16 k: `s` sums up bytes times codes.
float OF(add_half)(float acc, int s, float one, float sum, float a, float b) {
  acc = fma(a, (float)s * one, acc);
#if OFFSET != 0 || HAS_M
  acc = fma(b, sum, acc);
#endif
  return acc;
}

#define DEFINE_BYTE_SUMS(NAME, ROWS)                                                              \
  void NAME(__global const uchar* at, int spans, int slice, int lane, __global const float* x,    \
            int x_stride, int row0, int rows, int x_share, F* acc) {                              \
    __global const float* xs[ROWS];                                                               \
    for (int r = 0; r < ROWS; ++r) {                                                              \
      xs[r] = x + (long)(min(row0 + r, rows - 1) / x_share) * x_stride;                           \
      acc[r] = 0.0f;                                                                              \
    }                                                                                             \
    for (int s = slice; s < spans; s += SLICES) {                                                 \
      __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;                  \
      UNROLL_DOTS                                                                                 \
      for (int h = 0; h < 2; ++h) {                                                               \
        uint w[4];                                                                                \
        float a, b;                                                                               \
        OF(half_words)(block, s % BLOCK_SPANS * 2 + h, lane, w, &a, &b);                          \
        UNROLL_DOTS                                                                               \
        for (int r = 0; r < ROWS; ++r) {                                                          \
          __global const float* panel = xs[r] + (s * 2 + h) * 16;                                 \
          const uint8 v = vload8(0, (__global const uint*)panel);                                 \
          const float2 f = vload2(4, panel);                                                      \
          const int high =                                                                        \
              dot_4(w[0], v.s0, dot_4(w[1], v.s1, dot_4(w[2], v.s2, dot_4(w[3], v.s3, 0))));      \
          const int both = dot_4(                                                                 \
              w[0], v.s4, dot_4(w[1], v.s5, dot_4(w[2], v.s6, dot_4(w[3], v.s7, high * 128))));   \
          acc[r] = OF(add_half)(acc[r], both, f.x, f.y, a, b);                                    \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }
DEFINE_BYTE_SUMS(OF(sums_1), 1)
DEFINE_BYTE_SUMS(OF(sums_4), 4)
DEFINE_BYTE_SUMS(OF(sums_8), 8)
