// Packed weights to floats, for one format: its layout (worker/backend/cpu/layout.h) comes as macros.
// A panel holds 16 rows side by side; an item reads the lane of one row.

// a and b of weight = code * a + b for group g of a block.
void affine_of(__global const uchar* block, int g, int lane, float* a, float* b) {
  *a = 0.0f;
  *b = 0.0f;
#if HAS_D
#if D_BF16
  *a = bfloat_at((__global const ushort*)block + lane);
#else
  *a = vload_half(D_EACH * g * 16 + lane, (__global const half*)block);
#endif
  __global const uchar* scale = block + SCALE_AT + g * 16 + lane;
#if NIBBLES
  *a *= (float)(*scale & 15);
  *b = -(vload_half(16 + lane, (__global const half*)block) * (float)(*scale >> 4));
#elif HAS_MINIMUM
  *a *= (float)*scale;
  *b = -(vload_half(16 + lane, (__global const half*)block) *
         (float)block[MINIMUM_AT + g * 16 + lane]);
#else
#if HAS_SCALE
  *a *= (float)(char)*scale;
#endif
#if HAS_M
  *b = vload_half(16 + lane, (__global const half*)block);
#endif
#endif
#if OFFSET != 0
  *b = *a * (float)(-OFFSET);
#endif
#endif
}

// The code of byte i of a dword whose codes start at bit `shift`.
#define BYTE_CODE(word, shift, i, mask) ((word) >> ((shift) + 8 * (i)) & (mask))

// Codes of half h (k = 4h + i) of unit u of a block, as floats; for plain types the weights.
void codes_of(__global const uchar* block, int unit, int h, int lane, float* out) {
  __global const uint* low = (__global const uint*)(block + LOW_AT);
  const int u = unit & 3;
#if LOW_BITS == 32
  for (int i = 0; i < 4; ++i) {
    out[i] = ((__global const float*)low)[(unit * 8 + 4 * h + i) * 16 + lane];
  }
#elif LOW_BITS == 16
  for (int i = 0; i < 4; ++i) {
    const int at = (unit * 8 + 4 * h + i) * 16 + lane;
#if PLAIN_BF16
    out[i] = bfloat_at((__global const ushort*)low + at);
#else
    out[i] = vload_half(at, (__global const half*)low);
#endif
  }
#elif LOW_BITS == 8
  const uint word = low[(unit * 2 + h) * 16 + lane];
  for (int i = 0; i < 4; ++i) out[i] = (float)(char)(word >> 8 * i & 255);
#else
#if LOW_BITS == 4
  const uint word = low[unit * 16 + lane];
  const int shift = 4 * h;
#else
  const uint word = low[unit / 2 * 16 + lane];
  const int shift = 2 * (2 * (u & 1) + h);
#endif
#if HIGH_BITS == 1
  const uint high = ((__global const uint*)(block + HIGH_AT))[unit / 4 * 16 + lane];
  const int high_shift = 2 * u + h;
#elif HIGH_BITS == 2
  const uint high = ((__global const uint*)(block + HIGH_AT))[unit / 2 * 16 + lane];
  const int high_shift = 2 * (2 * (u & 1) + h);
#endif
  for (int i = 0; i < 4; ++i) {
    uint code = BYTE_CODE(word, shift, i, (1 << LOW_BITS) - 1);
#if HIGH_BITS != 0
    code |= BYTE_CODE(high, high_shift, i, (1 << HIGH_BITS) - 1) << LOW_BITS;
#endif
#if TABLE
    out[i] = kTable[code];
#else
    out[i] = (float)code;
#endif
  }
#endif
}

#define GROUP_UNITS (GROUP >= 32 ? 4 : GROUP / 8)
#define BLOCK_SPANS (BLOCK / 32)

// Weights of the eight k of unit u of a span.
void unit_weights(__global const uchar* block, int span, int u, int lane, float a, float b,
                  float* w) {
  const int unit = span * 4 + u;
  codes_of(block, unit, 0, lane, w);
  codes_of(block, unit, 1, lane, w + 4);
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
