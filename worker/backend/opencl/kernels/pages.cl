// Keys and values in pages of 64 tokens, as on the CPU (kv.inc): keys [head_dim][64], so that an item
// is a token, values [64][head_pad]. KV_TYPE: 0 float, 1 half, 2 bfloat16, 3 eight bits with a scale
// for each token (floats [64] behind the head_pad * 64 bytes).

ushort bfloat_bits(float f) {
  const uint u = as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (ushort)(u >> 16 | 0x40);
  return (ushort)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#if KV_TYPE == 3
__global const float* scales_of(__global const uchar* page, int head_pad) {
  return (__global const float*)(page + (long)head_pad * PAGE_TOKENS);
}
#endif

// Element `at` of a page; `scale` is its token's.
float load_element(__global const uchar* page, long at, float scale) {
#if KV_TYPE == 0
  return ((__global const float*)page)[at];
#elif KV_TYPE == 1
  return vload_half(at, (__global const half*)page);
#elif KV_TYPE == 2
  return bfloat_at((__global const ushort*)page + at);
#else
  return (float)((__global const char*)page)[at] * scale;
#endif
}

// `times` is what makes a number a code of eight bits.
void store_element(__global uchar* page, long at, float v, float times) {
#if KV_TYPE == 0
  ((__global float*)page)[at] = v;
#elif KV_TYPE == 1
  vstore_half_rte(v, at, (__global half*)page);
#elif KV_TYPE == 2
  ((__global ushort*)page)[at] = bfloat_bits(v);
#else
  const float code = fma(v, times, 0x1.8p23f);  // to the nearest, ties to even
  ((__global char*)page)[at] = times == 0.0f ? (char)0 : (char)(as_int(code) - 0x4b400000);
#endif
}

// One head of q, k or v of a token: bias, norm, rotation, and its way into the pages. Groups: (head,
// token), heads of q, then of k, then of v as they lie in a row of `qkv`. Queries go back to `qkv`,
// keys too while `keys_wait`.
__kernel __attribute__((reqd_work_group_size(PAGE_TOKENS, 1, 1))) void finish_head(
    __global float* qkv, int stride, int head_dim, int head_pad, int heads, int kv_heads,
    __global const int4* tokens, __global const int* tables, __global const float* vectors,
    int bias_at, int q_norm_at, int k_norm_at, float eps, __global const float* turns, ulong sin_at,
    int pairs, int neox, int keys_wait, __global uchar* k_pages, __global uchar* v_pages,
    ulong page_bytes) {
  __local float value[HEAD_DIM_MOST];
  __local float part[PAGE_TOKENS];
  const int item = get_local_id(0), head = get_group_id(0);
  const int which = head < heads ? 0 : head < heads + kv_heads ? 1 : 2;
  __global float* from = qkv + (long)get_group_id(1) * stride + head * head_pad;
  const int4 token = tokens[get_group_id(1)];
  float squares = 0.0f, largest = 0.0f;
  for (int d = item; d < head_pad; d += PAGE_TOKENS) {
    const float v = from[d] + (bias_at >= 0 ? vectors[bias_at + head * head_pad + d] : 0.0f);
    value[d] = v;
    squares = fma(v, v, squares);
  }
  const float mean = group_sum(squares, part, item, PAGE_TOKENS) / (float)head_dim;
  const int norm_at = which == 0 ? q_norm_at : which == 1 ? k_norm_at : -1;
  if (norm_at >= 0) {
    const float factor = 1.0f / sqrt(mean + eps);
    for (int d = item; d < head_dim; d += PAGE_TOKENS) {
      value[d] = value[d] * factor * vectors[norm_at + d];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (which < 2) {
    for (int i = item; i < pairs; i += PAGE_TOKENS) {
      const int a = neox ? i : 2 * i, b = neox ? i + pairs : 2 * i + 1;
      const float c = turns[(long)token.y * pairs + i];
      const float s = turns[sin_at + (long)token.y * pairs + i];
      const float first = value[a], second = value[b];
      value[a] = fma(first, c, -(second * s));
      value[b] = fma(first, s, second * c);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (which == 0 || (which == 1 && keys_wait)) {
    for (int d = item; d < head_pad; d += PAGE_TOKENS) from[d] = value[d];
  }
  float times = 0.0f;
  const long slot = token.y % PAGE_TOKENS;
  const int kv_head = which == 1 ? head - heads : head - heads - kv_heads;
  const long page_of = tables[token.z + token.y / PAGE_TOKENS];
  const ulong head_bytes = page_bytes / kv_heads;
  __global uchar* page = (which == 1 ? k_pages : v_pages) + page_of * page_bytes +
                         (ulong)max(kv_head, 0) * head_bytes;
#if KV_TYPE == 3
  int bad = 0;
  for (int d = item; d < head_pad; d += PAGE_TOKENS) {
    bad |= !(fabs(value[d]) <= FLT_MAX);
    largest = fmax(largest, fabs(value[d]));
  }
  largest = group_max(bad ? INFINITY : largest, part, item, PAGE_TOKENS);
  const int finite = largest <= FLT_MAX, tiny = largest < 0x1p-100f;
  times = !finite || tiny ? 0.0f : 127.0f / largest;
#endif
  if (which == 0 || (which == 1 && keys_wait)) return;
#if KV_TYPE == 3
  if (item == 0) {
    ((__global float*)(page + (long)head_pad * PAGE_TOKENS))[slot] =
        !finite ? NAN : tiny ? 0.0f : largest / 127.0f;
  }
#endif
  for (int d = item; d < (which == 1 ? head_dim : head_pad); d += PAGE_TOKENS) {
    store_element(page, which == 1 ? d * PAGE_TOKENS + slot : slot * head_pad + d, value[d], times);
  }
}
