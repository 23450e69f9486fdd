// One row times packed Q4_K weights (worker/weights/layout.h), with the bits of product.cl's
// one_1, and with the loads of DEEP blocks in flight. x: int8 rows (int8_rows.cl). Items: 16 rows
// of a panel by 8 slices; slice s has span s of every block.
#define BLOCK_BYTES 2368
#define SCALE_AT 64
#define MINIMUM_AT 192
#define LOW_AT 320
#define RECORD_VECTORS 3  // sixteen bytes each, that products read of a panel's four

#ifdef PTX
int dot_4(uint a, uint b, int c) {
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
// Loads that stay where the program has them: a compiler moves others to their use.
uint word_at(__global const uchar* p) {
  uint v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(v) : "l"((ulong)p));
  return v;
}
uint byte_at(__global const uchar* p) {
  uint v;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"((ulong)p));
  return v;
}
uint half_at(__global const uchar* p) {
  uint v;
  asm volatile("{ .reg .u16 h; ld.global.nc.u16 h, [%1]; cvt.u32.u16 %0, h; }"
               : "=r"(v)
               : "l"((ulong)p));
  return v;
}
float float_at(uint bits) {
  return float_of_half(bits);
}
#else
int dot_4(uint a, uint b, int c) {
  const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return products.x + products.y + products.z + products.w + c;
}
uint word_at(__global const uchar* p) {
  return *(__global const uint*)p;
}
uint byte_at(__global const uchar* p) {
  return *p;
}
uint half_at(__global const uchar* p) {
  return *(__global const ushort*)p;
}
float float_at(uint bits) {
  const ushort half_bits = (ushort)bits;
  return vload_half(0, (const half*)&half_bits);
}
#endif

// An item's share of a block: 32 codes, scale and minimum, d and dmin.
typedef struct {
  uint codes[4], scale, minimum, d, dmin;
} Share;

Share load_share(__global const uchar* block, int slice, int lane) {
  Share s;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    s.codes[i] = word_at(block + LOW_AT + (slice * 4 + i) * 64 + lane * 4);
  }
  s.scale = byte_at(block + SCALE_AT + slice * 16 + lane);
  s.minimum = byte_at(block + MINIMUM_AT + slice * 16 + lane);
  s.d = half_at(block + lane * 2);
  s.dmin = half_at(block + 32 + lane * 2);
  return s;
}

// sum + the products of a share with its span of x.
float add_share(float sum, Share s, __local const uint4* span) {
  const float a = float_at(s.d) * (float)s.scale, b = -(float_at(s.dmin) * (float)s.minimum);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    __local const uint4* panel = span + h * RECORD_VECTORS;
    const uint4 high = panel[0], low = panel[1], last = panel[2];
    const uint w0 = s.codes[h * 2] & 0x0f0f0f0fu, w1 = s.codes[h * 2] >> 4 & 0x0f0f0f0fu;
    const uint w2 = s.codes[h * 2 + 1] & 0x0f0f0f0fu, w3 = s.codes[h * 2 + 1] >> 4 & 0x0f0f0f0fu;
    const int first =
        dot_4(w0, high.x, dot_4(w1, high.y, dot_4(w2, high.z, dot_4(w3, high.w, 0))));
    const int both =
        dot_4(w0, low.x, dot_4(w1, low.y, dot_4(w2, low.z, dot_4(w3, low.w, first * 128))));
    sum = fma(a, (float)both * as_float(last.x), sum);
    sum = fma(b, as_float(last.y), sum);
  }
  return sum;
}

// records: 16 * RECORD_VECTORS vectors for each block.
__kernel __attribute__((reqd_work_group_size(16, 8, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int blocks,
    __global const uint4* x, __global float* y, __local uint4* records) {
  __local float part[128];
  const int lane = get_local_id(0), slice = get_local_id(1), item = slice * 16 + lane;
  __global const uchar* at = weights + weights_at + get_group_id(0) * panel_bytes;
  Share ahead[DEEP];
#pragma unroll
  for (int j = 0; j < DEEP; ++j) {
    ahead[j] = load_share(at + (ulong)min(j, blocks - 1) * BLOCK_BYTES, slice, lane);
  }
  for (int i = item; i < blocks * 16 * RECORD_VECTORS; i += 128) {
    records[i] = x[i / RECORD_VECTORS * 4 + i % RECORD_VECTORS];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0.0f;
  for (int first = 0; first < blocks; first += DEEP) {
#pragma unroll
    for (int j = 0; j < DEEP; ++j) {
      const int block = min(first + j, blocks - 1);
      const Share now = ahead[j];
      ahead[j] = load_share(at + (ulong)min(first + j + DEEP, blocks - 1) * BLOCK_BYTES, slice,
                            lane);
      const float added = add_share(sum, now, records + (block * 8 + slice) * 2 * RECORD_VECTORS);
      sum = first + j < blocks ? added : sum;
    }
  }
  part[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < 16) {
    __local const float* p = part + item;
    y[get_group_id(0) * 16 + item] = ((p[0] + p[64]) + (p[32] + p[96])) +
                                     ((p[16] + p[80]) + (p[48] + p[112]));
  }
}
