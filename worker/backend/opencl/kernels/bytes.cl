// Sums of products of one format's codes with int8 rows (int8_rows.cl), exact in 32-bit integers
// over the 16 k that share a scale: so the way of multiplying bytes does not enter the bits. Names
// of functions end with the format's number, as in weights.cl.

// Codes of four k of unit u of a span, a byte each, from the words that have their bits.
uint OF(code_word_of)(uint low, uint high, int u, int h) {
#if LOW_BITS == 8
  uint word = low;
#elif LOW_BITS == 4
  uint word = low >> (4 * h) & 0x0f0f0f0fu;
#else
  uint word = low >> (2 * (2 * (u & 1) + h)) & 0x03030303u;
#endif
#if HIGH_BITS == 1
  word |= (high >> (2 * u + h) & 0x01010101u) << LOW_BITS;
#elif HIGH_BITS == 2
  word |= (high >> (2 * (2 * (u & 1) + h)) & 0x03030303u) << LOW_BITS;
#endif
#if TABLE
  const uchar4 at = as_uchar4(word);
  word = as_uint((char4)(OF(kBytes)[at.x], OF(kBytes)[at.y], OF(kBytes)[at.z], OF(kBytes)[at.w]));
#endif
  return word;
}

// The words that have the codes of four k of a unit.
#undef LOW_WORD_OF
#if LOW_BITS == 8
#define LOW_WORD_OF(unit, h) ((unit) * 2 + (h))
#elif LOW_BITS == 4
#define LOW_WORD_OF(unit, h) (unit)
#else
#define LOW_WORD_OF(unit, h) ((unit) / 2)
#endif
#undef HIGH_WORD_OF
#define HIGH_WORD_OF(unit) (HIGH_BITS == 2 ? (unit) / 2 : (unit) / 4)

// The same for unit u of a block.
uint OF(code_word)(__global const uchar* block, int unit, int h, int lane) {
  __global const uint* low_words = (__global const uint*)(block + LOW_AT);
  const uint low = LANES_OF(low_words, LOW_WORD_OF(unit, h));
  uint high = 0;
#if HIGH_BITS != 0
  high = LANES_OF((__global const uint*)(block + HIGH_AT), HIGH_WORD_OF(unit));
#endif
  return OF(code_word_of)(low, high, unit & 3, h);
}

// Codes of the 16 k of half `half_at` of a block, and a and b of weight = byte * a + b.
void OF(half_words)(__global const uchar* block, int half_at, int lane, uint* word, float* a,
                    float* b) {
  OF(affine_of)(block, half_at * 16 / GROUP, lane, a, b);
#if TABLE
  *a *= 1.0f / TABLE_TIMES;  // a power of two
#endif
  for (int i = 0; i < 4; ++i) word[i] = OF(code_word)(block, 2 * half_at + i / 2, i % 2, lane);
}

// acc + the products of 16 k; `s` is the sum of bytes times codes.
float OF(add_half)(float acc, int s, float one, float sum, float a, float b) {
  acc = fma(a, (float)s * one, acc);
#if OFFSET != 0 || HAS_M
  acc = fma(b, sum, acc);
#endif
  return acc;
}

#define DEFINE_BYTE_SUMS(NAME, ROWS, SPANS)                                                        \
  void NAME(__global const uchar* at, int spans, int slice, int lane, __global const float* x,     \
            int x_stride, int row0, int rows, int x_share, F* acc) {                               \
    __global const float* xs[ROWS];                                                                \
    for (int r = 0; r < ROWS; ++r) {                                                               \
      xs[r] = x + (long)(min(row0 + r, rows - 1) / x_share) * x_stride;                            \
      acc[r] = 0.0f;                                                                               \
    }                                                                                              \
    for (int s0 = slice; s0 < spans; s0 += PASSES(SPANS) * SLICES) {                               \
      EACH_PASS(j, SPANS) {                                                                        \
        const int s = min(s0 + j * SLICES, spans - 1), counts = s0 + j * SLICES < spans;           \
        __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;                 \
        UNROLL_DOTS                                                                                \
        for (int h = 0; h < 2; ++h) {                                                              \
          uint w[4];                                                                               \
          float a, b;                                                                              \
          OF(half_words)(block, s % BLOCK_SPANS * 2 + h, lane, w, &a, &b);                         \
          UNROLL_DOTS                                                                              \
          for (int r = 0; r < ROWS; ++r) {                                                         \
            __global const uint4* panel = (__global const uint4*)(xs[r] + (s * 2 + h) * 16);       \
            const uint4 u = panel[0], v = panel[1];                                                \
            const float2 f = ((__global const float2*)panel)[4];                                   \
            const int high =                                                                       \
                dot_4(w[0], u.x, dot_4(w[1], u.y, dot_4(w[2], u.z, dot_4(w[3], u.w, 0))));         \
            const int both =                                                                       \
                dot_4(w[0], v.x, dot_4(w[1], v.y, dot_4(w[2], v.z, dot_4(w[3], v.w, high * 128))));\
            const float sum = OF(add_half)(acc[r], both, f.x, f.y, a, b);                          \
            acc[r] = counts ? sum : acc[r];                                                        \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
#if !ROW_AHEAD  // else row_ahead.cl has it
DEFINE_BYTE_SUMS(OF(sums_1), 1, 4)
#endif
#if !BY_MATRIX
DEFINE_BYTE_SUMS(OF(sums_4), 4, 2)
DEFINE_BYTE_SUMS(OF(sums_8), 8, 1)
#endif

#if BY_MATRIX
// An item's share of a panel's sixteen rows and of the 16 k of half `half_at` of a block, where 32
// items multiply it (add_matrix): four codes, and a and b, of rows g and g + 8.
void OF(matrix_words)(__global const uchar* block, int half_at, int item, uint* word, float* a,
                      float* b) {
  const int g = item / 4, t = item % 4;
  for (int i = 0; i < 2; ++i) {
    OF(affine_of)(block, half_at * 16 / GROUP, g + i * 8, &a[i], &b[i]);
#if TABLE
    a[i] *= 1.0f / TABLE_TIMES;
#endif
    word[i] = OF(code_word)(block, 2 * half_at + t / 2, t % 2, g + i * 8);
  }
}

// The sums of slice `slice` for ROWS rows, by 32 items, into part[row][slice][lane]; eight rows are
// a tile's columns. The last row is repeated beyond the end. Every item of the group calls.
#define DEFINE_MATRIX_SUMS(NAME, ROWS, SPANS)                                                      \
  void NAME(__global const uchar* at, int spans, int slice, int item, __global const float* x,     \
            int x_stride, int row0, int rows, __local float* part, __local uint* all) {            \
    int mine[ROWS / 8], first[ROWS / 8], second[ROWS / 8]; /* of b, and of c, in each eight rows */\
    float acc[ROWS / 2];                                                                           \
    UNROLL_DOTS                                                                                    \
    for (int n = 0; n < ROWS / 8; ++n) {                                                           \
      const int row = row0 + n * 8, column = row + item % 4 * 2;                                   \
      mine[n] = min(row + item / 4, rows - 1) * x_stride + item % 4;                               \
      first[n] = min(column, rows - 1) * x_stride + 8;                                             \
      second[n] = min(column + 1, rows - 1) * x_stride + 8;                                        \
      for (int j = 0; j < 4; ++j) acc[n * 4 + j] = 0.0f;                                           \
    }                                                                                              \
    for (int s0 = 0; s0 < spans; s0 += PASSES(SPANS) * SLICES) {                                   \
      EACH_PASS(i, SPANS) {                                                                        \
        const int s1 = s0 + i * SLICES + slice, counts = s1 < spans, s = min(s1, spans - 1);       \
        __global const uchar* block = at + (ulong)(s / BLOCK_SPANS) * BLOCK_BYTES;                 \
        UNROLL_DOTS                                                                                \
        for (int h = 0; h < 2; ++h) {                                                              \
          uint w[2];                                                                               \
          float a[2], b[2];                                                                        \
          OF(matrix_words)(block, s % BLOCK_SPANS * 2 + h, item, w, a, b);                         \
          __global const float* panel = x + (s * 2 + h) * 16;                                      \
          UNROLL_DOTS                                                                              \
          for (int n = 0; n < ROWS / 8; ++n) {                                                     \
            const uint high = as_uint(panel[mine[n]]), low = as_uint(panel[mine[n] + 4]);          \
            const float2 u = *(__global const float2*)(panel + first[n]);                          \
            const float2 v = *(__global const float2*)(panel + second[n]);                         \
            int c[4] = {0, 0, 0, 0};                                                               \
            add_matrix(w[0], w[1], high, c, item, all);                                            \
            for (int j = 0; j < 4; ++j) c[j] *= 128;                                               \
            add_matrix(w[0], w[1], low, c, item, all);                                             \
            for (int j = 0; j < 4; ++j) {                                                          \
              const float2 f = j % 2 == 0 ? u : v;                                                 \
              const float sum = OF(add_half)(acc[n * 4 + j], c[j], f.x, f.y, a[j / 2], b[j / 2]);  \
              acc[n * 4 + j] = counts ? sum : acc[n * 4 + j];                                      \
            }                                                                                      \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    UNROLL_DOTS                                                                                    \
    for (int i = 0; i < ROWS / 2; ++i) {                                                           \
      const int row = i / 4 * 8 + item % 4 * 2 + i % 2;                                            \
      part[(row * SLICES + slice) * LANES + item / 4 + i % 4 / 2 * 8] = acc[i];                    \
    }                                                                                              \
  }
DEFINE_MATRIX_SUMS(OF(sums_8), 8, 4)
DEFINE_MATRIX_SUMS(OF(sums_16), 16, 2)
DEFINE_MATRIX_SUMS(OF(sums_32), 32, 1)
#endif
