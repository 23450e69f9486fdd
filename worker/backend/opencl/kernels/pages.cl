// Keys and values in pages of 64 tokens, as on the CPU (kv.inc): keys [head_dim][64], so that an
// item is a token; values [64][head_pad]. KV_TYPE: 0 float, 1 half, 2 bfloat16, 3 eight bits with a
// scale for each token (floats [64] after the head_pad * 64 bytes), 4 E4M3.

ushort bfloat_bits(float f) {
  const uint u = as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (ushort)(u >> 16 | 0x40);
  return (ushort)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#if KV_TYPE == 4
float fp8_at(uchar x) {
  const uint size = x & 0x7f;
  const float f = size == 0x7f ? NAN
                  : size < 8   ? (float)size * 0x1p-9f
                               : as_float((size << 20) + (120u << 23));
  return (x & 0x80) != 0 ? -f : f;
}

uchar fp8_bits(float f) {
  const uint u = as_uint(f) & 0x7fffffffu;
  const uchar sign = as_uint(f) >> 24 & 0x80;
  if (u >= 0x7f800000u) return sign | 0x7f;
  if (u > 0x43e00000u) return sign | 0x7e;
  if (u < 0x3c800000u) return sign | (as_uint(fma(fabs(f), 0x1p9f, 0x1.8p23f)) - 0x4b400000u);
  return sign | (((u + 0x7ffff + (u >> 20 & 1)) >> 20) - (120u << 3));
}
#endif

#if KV_TYPE == 3
__global const float* scales_of(__global const uchar* page, int head_pad) {
  return (__global const float*)(page + (long)head_pad * PAGE_TOKENS);
}
#endif

// Element `at` of a page; `scale` is its token's.
float load_element(__global const uchar* page, int at, float scale) {
#if KV_TYPE == 0
  return ((__global const float*)page)[at];
#elif KV_TYPE == 1
  return vload_half(at, (__global const half*)page);
#elif KV_TYPE == 2
  return bfloat_at((__global const ushort*)page + at);
#elif KV_TYPE == 4
  return fp8_at(page[at]);
#else
  return (float)((__global const char*)page)[at] * scale;
#endif
}

// `times` converts a number to an eight-bit code.
void store_element(__global uchar* page, int at, float v, float times) {
#if KV_TYPE == 0
  ((__global float*)page)[at] = v;
#elif KV_TYPE == 1
  vstore_half_rte(v, at, (__global half*)page);
#elif KV_TYPE == 2
  ((__global ushort*)page)[at] = bfloat_bits(v);
#elif KV_TYPE == 4
  page[at] = fp8_bits(v);
#else
  const float code = fma(v, times, 0x1.8p23f);  // round to nearest, ties to even
  ((__global char*)page)[at] = times == 0.0f ? (char)0 : (char)(as_int(code) - 0x4b400000);
#endif
}

// Puts head `head` of a row into `value`: bias, norm (which: 0 q, 1 k, 2 v), rotation. Every item
// of the group calls.
void finish_value(__global const float* row, int head, int which, int head_dim, int head_pad,
                  int position, __global const float* vectors, __global const float* rope_table,
                  FinishParameters f, __local float* value, __local float* part, int item) {
  __global const float* from = row + head * head_pad;
  float squares = 0.0f;
  for (int d = item; d < head_pad; d += PAGE_TOKENS) {
    const float v = from[d] + (f.bias_at >= 0 ? vectors[f.bias_at + head * head_pad + d] : 0.0f);
    value[d] = v;
    squares = fma(v, v, squares);
  }
  const int norm_at = which == 0 ? f.q_norm_at : which == 1 ? f.k_norm_at : -1;
#if !AHEAD  // a processor's compiler takes minutes for barriers in a branch
  const float mean = group_sum(squares, part, item, PAGE_TOKENS) / (float)head_dim;
#endif
  if (norm_at >= 0) {
#if AHEAD
    const float mean = group_sum(squares, part, item, PAGE_TOKENS) / (float)head_dim;
#endif
    const float factor = 1.0f / sqrt(mean + f.eps);
    for (int d = item; d < head_dim; d += PAGE_TOKENS) {
      value[d] = value[d] * factor * vectors[norm_at + d];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global const float* table = rope_table + (which == 0 ? f.q_at : 0);
  for (int i = item; i < (which < 2 ? f.pairs : 0); i += PAGE_TOKENS) {
    const int a = f.neox ? i : 2 * i, b = f.neox ? i + f.pairs : 2 * i + 1;
    const float c = table[(long)position * f.pairs + i];
    const float s = table[f.sin_at + (long)position * f.pairs + i];
    const float first = value[a], second = value[b];
    value[a] = fma(first, c, -(second * s));
    value[b] = fma(first, s, second * c);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// Stores a token's key or value from `value` into its head's part of a page. Every item calls.
void store_kv(__local const float* value, int is_key, int head_dim, int head_pad, int slot,
                __global uchar* page, __local float* part, int item) {
  float times = 0.0f;
#if KV_TYPE == 3
  float largest = 0.0f;
  int bad = 0;
  for (int d = item; d < head_pad; d += PAGE_TOKENS) {
    bad |= !(fabs(value[d]) <= FLT_MAX);
    largest = fmax(largest, fabs(value[d]));
  }
  largest = group_max(bad ? INFINITY : largest, part, item, PAGE_TOKENS);
  const int finite = largest <= FLT_MAX, tiny = largest < 0x1p-100f;
  times = !finite || tiny ? 0.0f : 127.0f / largest;
  if (item == 0) {
    ((__global float*)(page + (long)head_pad * PAGE_TOKENS))[slot] =
        !finite ? NAN : tiny ? 0.0f : largest / 127.0f;
  }
#endif
  for (int d = item; d < (is_key ? head_dim : head_pad); d += PAGE_TOKENS) {
    store_element(page, is_key ? d * PAGE_TOKENS + slot : slot * head_pad + d, value[d], times);
  }
}

// Finishes one head of a token: bias, norm, rotation, and storing into the pages. Work-groups:
// (head, token). Queries go back to `qkv`; so do keys while `keys_wait`.
__kernel __attribute__((reqd_work_group_size(PAGE_TOKENS, 1, 1))) void finish_head(
    __global float* qkv, __global const int4* tokens, __global const int* tables,
    __global const float* vectors, __global const float* rope_table, __global uchar* k_pages,
    __global uchar* v_pages, const HeadParameters h, const FinishParameters f) {
  __local float value[HEAD_DIM_MOST];
  __local float part[PAGE_TOKENS];
  const int item = get_local_id(0), head = get_group_id(0);
  const int which = head < h.heads ? 0 : head < h.heads + h.kv_heads ? 1 : 2;
  __global float* row = qkv + (long)get_group_id(1) * h.stride;
  const int4 token = tokens[get_group_id(1)];
  finish_value(row, head, which, h.head_dim, h.head_pad, token.y, vectors, rope_table, f, value,
               part, item);
  if (which == 0 || (which == 1 && h.keys_wait)) {
    for (int d = item; d < h.head_pad; d += PAGE_TOKENS) row[head * h.head_pad + d] = value[d];
    return;
  }
  const int kv_head = which == 1 ? head - h.heads : head - h.heads - h.kv_heads;
  const ulong page_of = tables[token.z + token.y / PAGE_TOKENS];
  __global uchar* page = (which == 1 ? k_pages : v_pages) + page_of * h.page_bytes +
                         (ulong)kv_head * (h.page_bytes / h.kv_heads);
  store_kv(value, which == 1, h.head_dim, h.head_pad, token.y % PAGE_TOKENS, page, part, item);
}
