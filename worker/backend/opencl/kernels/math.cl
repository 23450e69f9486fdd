// Functions of one number that all kernels share, from additions, multiplications and fma alone:
// exp differs from driver to driver. The polynomials are the CPU's (rows.inc).
#pragma OPENCL FP_CONTRACT OFF

// A loop whose passes wait for memory has an inner loop of n passes, unrolled on a GPU so that all
// of them load before the first one computes: nothing else hides the latency. Elsewhere n is 1.
#if AHEAD
#define PASSES(n) n
#define EACH_PASS(j, n) _Pragma("unroll") for (int j = 0; j < PASSES(n); ++j)
#else
#define PASSES(n) 1
#define EACH_PASS(j, n) for (int j = 0; j < 1; ++j)
#endif

// Prefetches bytes that the group reads later; all items call. (Prefetching weights before their
// products makes these slower.)
#define FETCH_LINE 128
#if AHEAD == 2
void fetch_line(__global const uchar* at) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"((ulong)at));
}
#elif AHEAD
void fetch_line(__global const uchar* at) {
  prefetch(at, FETCH_LINE);
}
#endif
void fetch(__global const uchar* from, ulong bytes, int item, int items) {
#if AHEAD
  for (ulong at = (ulong)item * FETCH_LINE; at < bytes; at += (ulong)items * FETCH_LINE) {
    fetch_line(from + at);
  }
#endif
}

// Prefetches n floats that the group reads soon, line `line` of them, as near as the device can.
void fetch_near(__global const float* from, int n, int line) {
#if AHEAD == 2
  if (line >= 0 && line * (FETCH_LINE / 4) < n) {
    asm volatile("prefetch.global.L1 [%0];" : : "l"((ulong)(from + line * (FETCH_LINE / 4))));
  }
#endif
}

// Sixteen values of a row. Rows and their panels begin at multiples of 64 bytes; with vload the
// compiler assumes the alignment of one value only, and a GPU then loads them one by one.
float16 panel_at(__global const float* panel) {
  __global const float4* v = (__global const float4*)panel;
  return (float16)(v[0], v[1], v[2], v[3]);
}

// e^x to about 1 ulp, subnormal results rounded once; NaN stays NaN, above 88.72 infinity, below
// -104 zero. x = n ln2 + r, |r| <= ln2 / 2; the polynomial is the Taylor series of e^r to r^7.
float exp_of(float x) {
  const float c = fmax(fmin(x, 89.0f), -110.0f);
  const float shifted = fma(c, 0x1.715476p0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  float r = fma(n, -0x1.62e4p-1f, c);
  r = fma(n, -0x1.7f7d1cp-20f, r);
  float p = 0x1.a01a02p-13f;
  p = fma(p, r, 0x1.6c16c2p-10f);
  p = fma(p, r, 0x1.111112p-7f);
  p = fma(p, r, 0x1.555556p-5f);
  p = fma(p, r, 0x1.555556p-3f);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const int whole = as_int(shifted) - 0x4b400000;
  const int half_of = whole >> 1;  // two factors: 2^n alone does not reach -149 or 128
  const float first = as_float((half_of + 127) << 23);
  const float second = as_float((whole - half_of + 127) << 23);
  return x != x ? x : p * first * second;
}

// tanh x: near 0 its Taylor series, beyond (1 - e^-2|x|) / (1 + e^-2|x|).
float tanh_of(float x) {
  const float y = fabs(x);
  const float e = exp_of(y * -2.0f);
  const float far = (1.0f - e) / (1.0f + e);
  const float z = y * y;
  float p = -1382.0f / 155925.0f;
  p = fma(p, z, 62.0f / 2835.0f);
  p = fma(p, z, -17.0f / 315.0f);
  p = fma(p, z, 2.0f / 15.0f);
  p = fma(p, z, -1.0f / 3.0f);
  p = fma(p * z, y, y);
  const float size = y < 0.25f ? p : far;
  return x != x ? x : x < 0.0f ? -size : size;
}

float capped(float y, float cap) {
  return cap > 0.0f ? tanh_of(y / cap) * cap : y;
}

float silu_of(float x) {
  return x / (1.0f + exp_of(-x));
}
// x (1 + tanh u) / 2 is x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
float gelu_tanh_of(float x) {
  const float u = fma(x * x * x, 0.044715f, x) * -1.5957691216057308f;
  return x / (1.0f + exp_of(u));
}
// x Phi(x); erfc after Abramowitz and Stegun 7.1.26, to 1.5e-7.
float gelu_erf_of(float x) {
  const float y = fabs(x) * 0.70710678118654752f;
  const float t = 1.0f / fma(y, 0.3275911f, 1.0f);
  float p = 1.061405429f;
  p = fma(p, t, -1.453152027f);
  p = fma(p, t, 1.421413741f);
  p = fma(p, t, -0.284496736f);
  p = fma(p, t, 0.254829592f);
  const float erfc_of = p * t * exp_of(-(y * y));
  const float twice = x < 0.0f ? erfc_of : 2.0f - erfc_of;
  return x != x ? x : x * 0.5f * twice;
}

// g sigma(1.702 g) (u + 1), g at most 7 and u within 7 of 0.
float swiglu_oai_of(float gate, float up) {
  const float g = gate > 7.0f ? 7.0f : gate;
  const float u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
  return g / (1.0f + exp_of(g * -1.702f)) * (u + 1.0f);
}

// max(x, 0)^2.
float relu_squared_of(float x) {
  return x < 0.0f ? 0.0f : x * x;
}

// The activation `which`, a number of cpu::Activate.
float activated(int which, float x) {
  return which == 0   ? silu_of(x)
         : which == 1 ? gelu_tanh_of(x)
         : which == 2 ? gelu_erf_of(x)
                      : relu_squared_of(x);
}
float gated_by(int which, float gate, float up) {
  return which == 3 ? swiglu_oai_of(gate, up) : activated(which, gate) * up;
}

float bfloat_at(__global const ushort* p) {
  return as_float((uint)*p << 16);
}

// The value of the item `width` above this one in 32; only results of lower items count. All 32
// call.
#if SHUFFLE == 1
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle_relative : enable
float shuffle_down(float v, int width) {
  return sub_group_shuffle_down(v, (uint)width);
}
#elif SHUFFLE == 2
float shuffle_down(float v, int width) {
  float upper;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=f"(upper)
               : "f"(v), "r"(width));
  return upper;
}
#endif

// The sum, or the largest, of one number an item, by a fixed tree; every item of the group calls
// and gets it. `part` has a float an item; items are a power of two, at least 64. The last levels
// of the same tree go without local memory where items can exchange numbers directly.
#if SHUFFLE == 1  // a compiler may choose smaller sub-groups for another kernel
#define LOCAL_WIDTH (get_max_sub_group_size() >= 32 ? 32 : 1)
#elif SHUFFLE == 2
#define LOCAL_WIDTH 32
#else
#define LOCAL_WIDTH 1
#endif
//
// fold_sum() and fold_max() leave `part` in use: the caller has a barrier before it writes there.
#if SHUFFLE == 2
#define FOLD(name, result_of)                                                       \
  float name(float v, __local float* part, int item, int items) {                   \
    part[item] = v;                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                   \
    for (int width = items / 2; width > LOCAL_WIDTH; width /= 2) {                  \
      if (item < width) part[item] = v = result_of(v, part[item + width]);          \
      barrier(CLK_LOCAL_MEM_FENCE);                                                 \
    }                                                                               \
    if (item < LOCAL_WIDTH) {                                                       \
      v = result_of(v, part[item + LOCAL_WIDTH]);                                   \
      for (int width = LOCAL_WIDTH / 2; width > 0; width /= 2) {                    \
        v = result_of(v, shuffle_down(v, width));                                   \
      }                                                                             \
      if (item == 0) part[0] = v;                                                   \
    }                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                   \
    return part[0];                                                                 \
  }
#else
#define FOLD(name, result_of)                                                       \
  float name(float v, __local float* part, int item, int items) {                   \
    part[item] = v;                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                   \
    for (int width = items / 2; width >= LOCAL_WIDTH; width /= 2) {                 \
      if (item < width) part[item] = result_of(part[item], part[item + width]);     \
      barrier(CLK_LOCAL_MEM_FENCE);                                                 \
    }                                                                               \
    FOLD_BY_SHUFFLES(result_of)                                                     \
    return part[0];                                                                 \
  }
#if SHUFFLE
#define FOLD_BY_SHUFFLES(result_of)                                                 \
  const int wide = LOCAL_WIDTH == 32;                                               \
  if (wide && item < 32) {                                                          \
    float mine = part[item];                                                        \
    for (int width = 16; width > 0; width /= 2) {                                   \
      mine = result_of(mine, shuffle_down(mine, width));                            \
    }                                                                               \
    if (item == 0) part[0] = mine;                                                  \
  }                                                                                 \
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define FOLD_BY_SHUFFLES(result_of)
#endif
#endif
float sum_of(float a, float b) {
  return a + b;
}
float larger_of(float a, float b) {
  return b > a ? b : a;
}
FOLD(fold_sum, sum_of)
FOLD(fold_max, larger_of)

float group_sum(float v, __local float* part, int item, int items) {
  const float sum = fold_sum(v, part, item, items);
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}
float group_max(float v, __local float* part, int item, int items) {
  const float largest = fold_max(v, part, item, items);
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

// The sum of sixteen numbers by a fixed tree.
float sum_16(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

// The factor of an RMS norm over n numbers from the sums of their squares by panels; `squares_n` is
// a multiple of 16, with zeros at the end.
float norm_factor(__global const float* squares, int squares_n, int n, float eps) {
  float16 sum = (float16)(0.0f);
  for (int i = 0; i < squares_n / 16; ++i) sum += panel_at(squares + i * 16);
  return 1.0f / sqrt(sum_16(sum) / (float)n + eps);
}

// The same by sixteen items: each sums its chain, and the factor is made of all chains.
float norm_chain(__global const float* squares, int squares_n, int lane) {
  __global const float* chain = squares + lane;
  float sum = 0.0f;
  int left = squares_n / 16;
#pragma unroll 1
  for (; left >= PASSES(16); left -= PASSES(16), chain += PASSES(16) * 16) {
    EACH_PASS(j, 16) sum = sum + chain[j * 16];
  }
#pragma unroll 1
  for (; left > 0; --left, chain += 16) sum = sum + chain[0];
  return sum;
}
float factor_of_chains(__local const float* chains, int n, float eps) {
  return 1.0f / sqrt(sum_16(vload16(0, chains)) / (float)n + eps);
}
