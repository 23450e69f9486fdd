// The product of one int8 row with a panel. An item loads the words of SPANS_AHEAD spans of its
// slice before it uses those that it loaded before: nothing else keeps a GPU's memory busy where
// groups are few. (The loads come together: an NVIDIA multiprocessor waits for loads by six
// counters an item, so loads between uses would be waited for too.) The row's panels lie in local
// memory, which the group fills while the first words are on their way. Names of functions end with
// the format's number, as in weights.cl.

#if ROW_AHEAD

// Words that an item holds of a span: codes, then for each group d, scale and minimum, then m.
#define SPAN_GROUPS (GROUP < 32 ? 32 / GROUP : 1)
#define HIGH_WORD LOW_BITS
#define D_WORD (HIGH_WORD + HIGH_BITS)
#define SCALE_WORD (D_WORD + SPAN_GROUPS)
#define MINIMUM_WORD (SCALE_WORD + SPAN_GROUPS)
#define M_WORD (MINIMUM_WORD + SPAN_GROUPS)

#ifndef SPAN_WORDS  // the same for all formats of a program
#define SPAN_WORDS 13

// Loads that a compiler may not move to where they are used. They do nothing if `!live`.
#if AHEAD == 2
void load_word(__global const uchar* at, int live, uint* to) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %2, 0;"
      " @p ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];}"
      : "+r"(*to)
      : "l"((ulong)at), "r"(live));
}
void load_short(__global const uchar* at, int live, uint* to) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.nc.u16 %0, [%1];}"
      : "+r"(*to)
      : "l"((ulong)at), "r"(live));
}
void load_byte(__global const uchar* at, int live, uint* to) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.nc.u8 %0, [%1];}"
      : "+r"(*to)
      : "l"((ulong)at), "r"(live));
}
float half_of(uint bits) {
  float f;
  asm("{.reg .b16 t; cvt.u16.u32 t, %1; cvt.f32.f16 %0, t;}" : "=f"(f) : "r"(bits));
  return f;
}
#else
void load_word(__global const uchar* at, int live, uint* to) {
  if (live) *to = *(__global const uint*)at;
}
void load_short(__global const uchar* at, int live, uint* to) {
  if (live) *to = *(__global const ushort*)at;
}
void load_byte(__global const uchar* at, int live, uint* to) {
  if (live) *to = *at;
}
float half_of(uint bits) {
  const ushort half_bits = bits;
  return vload_half(0, (const half*)&half_bits);
}
#endif

// Copies panels [from, end) of an int8 row into local memory, RECORD_QUADS of each panel's four
// quads; items that follow one another copy quads that do. records_copied() and a barrier follow.
// (Devices that have matrix units copy without registers.)
#define RECORD_QUADS 3
void copy_quad(__global const uint4* from, __local uint4* to) {
#if MATRIX == 2
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
               :
               : "r"((uint)(ulong)to), "l"((ulong)from)
               : "memory");
#else
  *to = *from;
#endif
}
void copy_records(__global const float* row, int from, int end, __local uint4* records, int item,
                  int items) {
  __global const uint4* quads = (__global const uint4*)row + from * (LANES / 4);
  for (uint i = item; i < (uint)(end - from) * RECORD_QUADS; i += items) {
    copy_quad(quads + i / RECORD_QUADS * (LANES / 4) + i % RECORD_QUADS, records + i);
  }
}
void records_copied(void) {
#if MATRIX == 2
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}
#endif

#if M_WORD >= SPAN_WORDS
#error "SPAN_WORDS is too small for this format"
#endif

// Bytes from a span of a slice to the slice's next one: SLICES is a multiple of BLOCK_SPANS, so that
// a slice's spans are at one place of their blocks.
#define SLICE_STEP (SLICES / BLOCK_SPANS * BLOCK_BYTES)

// The block of a slice's first span, of those from span `from` on.
__global const uchar* OF(slice_of)(__global const uchar* panel, int from, int slice) {
  return panel + (ulong)((from + slice) / BLOCK_SPANS) * BLOCK_BYTES;
}

// Loads the words of the span at place `span` of a block.
void OF(load_span)(__global const uchar* block, int span, int live, int lane, uint* words) {
  __global const uchar* low = block + (uint)(span * (LOW_BITS * LANES * 4) + lane * 4);
  for (int i = 0; i < LOW_BITS; ++i) load_word(low + LOW_AT + i * LANES * 4, live, words + i);
#if HIGH_BITS != 0
  __global const uchar* high = block + (uint)(span * (HIGH_BITS * LANES * 4) + lane * 4);
  for (int i = 0; i < HIGH_BITS; ++i) {
    load_word(high + HIGH_AT + i * LANES * 4, live, words + HIGH_WORD + i);
  }
#endif
  const uint group = (uint)span * 32 / GROUP;
  __global const uchar* d = block + (uint)(lane * 2);
  for (int i = 0; i < (D_EACH ? SPAN_GROUPS : 1); ++i) {
    load_short(d + (D_EACH ? group * LANES * 2 : 0) + i * LANES * 2, live, words + D_WORD + i);
  }
#if NIBBLES || HAS_MINIMUM || HAS_M
  load_short(d + LANES * 2, live, words + M_WORD);
#endif
  __global const uchar* bytes = block + (group * LANES + lane);
  for (int i = 0; i < SPAN_GROUPS; ++i) {
#if NIBBLES || HAS_SCALE
    load_byte(bytes + SCALE_AT + i * LANES, live, words + SCALE_WORD + i);
#endif
#if HAS_MINIMUM
    load_byte(bytes + MINIMUM_AT + i * LANES, live, words + MINIMUM_WORD + i);
#endif
  }
}

// a and b of group i of such a span.
void OF(affine_in)(const uint* words, int i, float* a, float* b) {
  const uint d = words[D_WORD + D_EACH * i], scale = words[SCALE_WORD + i];
#if NIBBLES
  const float times = (float)(scale & 15), minimum = (float)(scale >> 4);
#elif HAS_MINIMUM
  const float times = (float)scale, minimum = (float)words[MINIMUM_WORD + i];
#else
  const float times = (float)(as_int(scale << 24) >> 24), minimum = 0.0f;
#endif
  OF(affine)(D_BF16 ? as_float(d << 16) : half_of(d), half_of(words[M_WORD]), times, minimum, a, b);
#if TABLE
  *a *= 1.0f / TABLE_TIMES;  // a power of two
#endif
}

// acc + the products of a span, whose panels' records are given.
float OF(add_span)(float acc, const uint* words, __local const uint4* records) {
  UNROLL_DOTS
  for (int h = 0; h < 2; ++h) {
    float a, b;
    OF(affine_in)(words, h * 16 / GROUP, &a, &b);
    uint w[4];
    for (int i = 0; i < 4; ++i) {
      const int u = 2 * h + i / 2;
      w[i] = OF(code_word_of)(words[LOW_WORD_OF(u, i % 2)], words[HIGH_WORD + HIGH_WORD_OF(u)], u,
                              i % 2);
    }
    const uint4 high = records[h * RECORD_QUADS], low = records[h * RECORD_QUADS + 1];
    const float2 f = *(__local const float2*)(records + h * RECORD_QUADS + 2);
    int sum = dot_4(w[0], high.x, dot_4(w[1], high.y, dot_4(w[2], high.z, dot_4(w[3], high.w, 0))));
    sum *= 128;
    sum = dot_4(w[0], low.x, dot_4(w[1], low.y, dot_4(w[2], low.z, dot_4(w[3], low.w, sum))));
    acc = OF(add_half)(acc, sum, f.x, f.y, a, b);
  }
  return acc;
}

#if AHEAD
#define UNROLL_AHEAD _Pragma("unroll")
#else
#define UNROLL_AHEAD _Pragma("unroll 1")
#endif

// The number of the slice's spans in [from, end); `from` is a multiple of SLICES.
int OF(slice_spans)(int from, int end, int slice) {
  return (end - from - slice + SLICES - 1) / SLICES;
}

// Loads spans first, ... of the slice, as far as there are n.
void OF(load_ahead)(__global const uchar* block, int first, int n, int slice, int lane,
                    uint* ahead) {
  UNROLL_AHEAD
  for (int j = 0; j < SPANS_AHEAD; ++j) {
    OF(load_span)(block + j * SLICE_STEP, slice % BLOCK_SPANS, first + j < n, lane,
                  ahead + j * SPAN_WORDS);
  }
}

// acc + the products of spans first, ... of the slice, as far as there are n. Records beyond them
// are read and not used.
float OF(add_ahead)(float acc, const uint* ahead, int first, int n, __local const uint4* records) {
  UNROLL_AHEAD
  for (int j = 0; j < SPANS_AHEAD; ++j) {
    const float sum = OF(add_span)(acc, ahead + j * SPAN_WORDS,
                                   records + (first + j) * SLICES * 2 * RECORD_QUADS);
    acc = first + j < n ? sum : acc;
  }
  return acc;
}

// Loads the first SPANS_AHEAD of the slice's spans in [from, end).
void OF(begin_spans)(__global const uchar* panel, int from, int end, int slice, int lane,
                     uint* ahead) {
  OF(load_ahead)(OF(slice_of)(panel, from, slice), 0, OF(slice_spans)(from, end, slice), slice,
                 lane, ahead);
}

// acc + the slice's part of spans [from, end): one chain over rising k. begin_spans() was called
// for them; `records` has their panels, and room for a whole number of 2 * SPANS_AHEAD * SLICES
// spans.
float OF(add_spans)(float acc, __global const uchar* panel, int from, int end, int slice, int lane,
                    uint* ahead, __local const uint4* records) {
  __global const uchar* block = OF(slice_of)(panel, from, slice);
  __local const uint4* mine = records + slice * 2 * RECORD_QUADS;
  const int n = OF(slice_spans)(from, end, slice);
  uint later[SPANS_AHEAD * SPAN_WORDS] = {0};
#pragma unroll 1
  for (int i = 0; i < n; i += 2 * SPANS_AHEAD) {
    block += SPANS_AHEAD * SLICE_STEP;
    OF(load_ahead)(block, i + SPANS_AHEAD, n, slice, lane, later);
    acc = OF(add_ahead)(acc, ahead, i, n, mine);
    block += SPANS_AHEAD * SLICE_STEP;
    OF(load_ahead)(block, i + 2 * SPANS_AHEAD, n, slice, lane, ahead);
    acc = OF(add_ahead)(acc, later, i + SPANS_AHEAD, n, mine);
  }
  return acc;
}

#endif
