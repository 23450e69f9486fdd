// Packed weights to floats, for one format: its layout (worker/backend/cpu/layout.h) comes as macros.
// A panel holds 16 rows side by side. An item reads the lane of one row, or (WIDE_LANES, on devices
// that add vectors) all of them; the operations on a row are the same ones.
#if WIDE_LANES
#define F float16
#define U uint16
#define ITEM_LANES 16
#define TO_FLOAT(x) convert_float16(x)
#define LANES_OF(p, at) vload16(at, p)
#define HALVES_OF(p, at) vload_half16(at, p)
#define SIGNED_BYTES(x) convert_float16(as_char16(x))
#define BITS_AS_FLOATS(x) as_float16(convert_uint16(x) << 16)
#define LOW_BYTE_SIGNED(x) convert_float16(as_int16((x) << 24) >> 24)
#define LOOK_UP(x) shuffle(kTable, x)
#else
#define F float
#define U uint
#define ITEM_LANES 1
#define TO_FLOAT(x) (float)(x)
#define LANES_OF(p, at) (p)[(at) * 16 + lane]
#define HALVES_OF(p, at) vload_half((at) * 16 + lane, p)
#define SIGNED_BYTES(x) (float)as_char(x)
#define BITS_AS_FLOATS(x) as_float((uint)(x) << 16)
#define LOW_BYTE_SIGNED(x) (float)(as_int((x) << 24) >> 24)
#define LOOK_UP(x) kTable[x]
#endif

// a and b of weight = code * a + b for group g of a block.
void affine_of(__global const uchar* block, int g, int lane, F* a, F* b) {
  *a = (F)(0.0f);
  *b = (F)(0.0f);
#if HAS_D
#if D_BF16
  *a = BITS_AS_FLOATS(LANES_OF((__global const ushort*)block, 0));
#else
  *a = HALVES_OF((__global const half*)block, D_EACH * g);
#endif
#if NIBBLES
  const F m = HALVES_OF((__global const half*)block, 1);
  *a *= TO_FLOAT(LANES_OF(block + SCALE_AT, g) & (uchar)15);
  *b = -(m * TO_FLOAT(LANES_OF(block + SCALE_AT, g) >> (uchar)4));
#elif HAS_MINIMUM
  const F m = HALVES_OF((__global const half*)block, 1);
  *a *= TO_FLOAT(LANES_OF(block + SCALE_AT, g));
  *b = -(m * TO_FLOAT(LANES_OF(block + MINIMUM_AT, g)));
#else
#if HAS_SCALE
  *a *= SIGNED_BYTES(LANES_OF(block + SCALE_AT, g));
#endif
#if HAS_M
  *b = HALVES_OF((__global const half*)block, 1);
#endif
#endif
#if OFFSET != 0
  *b = *a * (float)(-OFFSET);
#endif
#endif
}

// Codes of half h (k = 4h + i) of unit u of a block, as floats; for plain types the weights.
void codes_of(__global const uchar* block, int unit, int h, int lane, F* out) {
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

#define GROUP_UNITS (GROUP >= 32 ? 4 : GROUP / 8)
#define BLOCK_SPANS (BLOCK / 32)

// Weights of the eight k of unit u of a span.
void unit_weights(__global const uchar* block, int span, int u, int lane, F a, F b, F* w) {
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
