// Packed weights to floats, and sums of their products, for one format. Its layout
// (worker/weights/layout.h) comes as macros; the names of its functions end with its number in
// the program, FORMAT: OF(f). A panel holds 16 rows; an item has one of them, or (WIDE_LANES) all.

// a and b of weight = code * a + b, from a group's d and m, its scale and its minimum, where the
// format has them.
void OF(affine)(F d, F m, F scale, F minimum, F* a, F* b) {
  *a = d;
  *b = (F)(0.0f);
#if NIBBLES || HAS_MINIMUM
  *a *= scale;
  *b = -(m * minimum);
#else
#if HAS_SCALE
  *a *= scale;
#endif
#if HAS_M
  *b = m;
#endif
#endif
#if OFFSET != 0
  *b = *a * (float)(-OFFSET);
#endif
}

// The same for group g of a block.
void OF(affine_of)(__global const uchar* block, int g, int lane, F* a, F* b) {
  F d = (F)(0.0f), m = (F)(0.0f), scale = (F)(0.0f), minimum = (F)(0.0f);
#if HAS_D
#if D_BF16
  d = BITS_AS_FLOATS(LANES_OF((__global const ushort*)block, 0));
#else
  d = HALVES_OF((__global const half*)block, D_EACH * g);
#endif
#if NIBBLES || HAS_MINIMUM || HAS_M
  m = HALVES_OF((__global const half*)block, 1);
#endif
#if NIBBLES
  scale = TO_FLOAT(LANES_OF(block + SCALE_AT, g) & (uchar)15);
  minimum = TO_FLOAT(LANES_OF(block + SCALE_AT, g) >> (uchar)4);
#elif HAS_MINIMUM
  scale = TO_FLOAT(LANES_OF(block + SCALE_AT, g));
  minimum = TO_FLOAT(LANES_OF(block + MINIMUM_AT, g));
#elif HAS_SCALE
  scale = SIGNED_BYTES(LANES_OF(block + SCALE_AT, g));
#endif
  OF(affine)(d, m, scale, minimum, a, b);
#else
  *a = *b = (F)(0.0f);
#endif
}

// Codes of half h (k = 4h + i) of unit u of a block, as floats; for plain types the weights.
void OF(codes_of)(__global const uchar* block, int unit, int h, int lane, F* out) {
  __global const uint* low = (__global const uint*)(block + LOW_AT);
  const int u = unit & 3;
#if LOW_BITS == 32
  for (int i = 0; i < 4; ++i) out[i] = LANES_OF((__global const float*)low, unit * 8 + 4 * h + i);
#elif LOW_BITS == 16
  for (int i = 0; i < 4; ++i) {
    const int at = unit * 8 + 4 * h + i;
#if PLAIN_BF16
    out[i] = BITS_AS_FLOATS(LANES_OF((__global const ushort*)low, at));
#else
    out[i] = HALVES_OF((__global const half*)low, at);
#endif
  }
#elif LOW_BITS == 8
  const U word = LANES_OF(low, unit * 2 + h);
  for (int i = 0; i < 4; ++i) out[i] = LOW_BYTE_SIGNED(word >> (uint)(8 * i));
#else
#if LOW_BITS == 4
  const U word = LANES_OF(low, unit);
  const int shift = 4 * h;
#else
  const U word = LANES_OF(low, unit / 2);
  const int shift = 2 * (2 * (u & 1) + h);
#endif
#if HIGH_BITS == 1
  const U high = LANES_OF((__global const uint*)(block + HIGH_AT), unit / 4);
  const int high_shift = 2 * u + h;
#elif HIGH_BITS == 2
  const U high = LANES_OF((__global const uint*)(block + HIGH_AT), unit / 2);
  const int high_shift = 2 * (2 * (u & 1) + h);
#endif
  for (int i = 0; i < 4; ++i) {
    U code = word >> (uint)(shift + 8 * i) & (uint)((1 << LOW_BITS) - 1);
#if HIGH_BITS != 0
    code |= (high >> (uint)(high_shift + 8 * i) & (uint)((1 << HIGH_BITS) - 1)) << (uint)LOW_BITS;
#endif
#if TABLE
    out[i] = LOOK_UP(code);
#else
    out[i] = TO_FLOAT(code);
#endif
  }
#endif
}

// Weights of the eight k of unit u of a span.
void OF(unit_weights)(__global const uchar* block, int span, int u, int lane, F a, F b, F* w) {
  const int unit = span * 4 + u;
  OF(codes_of)(block, unit, 0, lane, w);
  OF(codes_of)(block, unit, 1, lane, w + 4);
#if HAS_D
  for (int j = 0; j < 8; ++j) {
#if OFFSET != 0 || HAS_M
    w[j] = fma(w[j], a, b);
#else
    w[j] = w[j] * a;
#endif
  }
#endif
}

#if !INT8_ROWS || !HAS_D  // else bytes.cl has them
// The part of slice `slice` of k in the products of ROWS rows with a panel: one chain of fma a row
// over rising k. The last row is repeated beyond the end. ITEM_LANES results for each row.
#define DEFINE_SUMS(NAME, ROWS, SPANS)                                                             \
  void NAME(__global const uchar* at, int spans, int slice, int lane, __global const float* x,     \
            int x_stride, int row0, int rows, int x_share, F* acc) {                               \
    __global const float* xs[ROWS];                                                                \
    for (int r = 0; r < ROWS; ++r) {                                                               \
      xs[r] = x + (long)(min(row0 + r, rows - 1) / x_share) * x_stride;                            \
      acc[r] = (F)(0.0f);                                                                          \
    }                                                                                              \
    for (int s0 = slice; s0 < spans; s0 += PASSES(SPANS) * SLICES) {                               \
      EACH_PASS(j, SPANS) {                                                                        \
        const int s = min(s0 + j * SLICES, spans - 1), counts = s0 + j * SLICES < spans;           \
        __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;                 \
        const int span = s % BLOCK_SPANS;                                                          \
        F a = (F)(0.0f), b = (F)(0.0f);                                                            \
        for (int u = 0; u < 4; ++u) {                                                              \
          if (u % GROUP_UNITS == 0) OF(affine_of)(block, (span * 32 + u * 8) / GROUP, lane, &a, &b);\
          F w[8];                                                                                  \
          OF(unit_weights)(block, span, u, lane, a, b, w);                                         \
          for (int r = 0; r < ROWS; ++r) {                                                         \
            const float8 v = eight_of(xs[r], s * 4 + u);                                           \
            F sum = acc[r];                                                                        \
            sum = fma(w[0], (F)(v.s0), sum);                                                       \
            sum = fma(w[1], (F)(v.s1), sum);                                                       \
            sum = fma(w[2], (F)(v.s2), sum);                                                       \
            sum = fma(w[3], (F)(v.s3), sum);                                                       \
            sum = fma(w[4], (F)(v.s4), sum);                                                       \
            sum = fma(w[5], (F)(v.s5), sum);                                                       \
            sum = fma(w[6], (F)(v.s6), sum);                                                       \
            sum = fma(w[7], (F)(v.s7), sum);                                                       \
            acc[r] = counts ? sum : acc[r];                                                        \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
DEFINE_SUMS(OF(sums_1), 1, 2)
DEFINE_SUMS(OF(sums_4), 4, 1)
DEFINE_SUMS(OF(sums_8), 8, 1)
#endif
