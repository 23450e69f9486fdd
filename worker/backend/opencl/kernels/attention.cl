// Attention over pages of 64 tokens. One definition for prefill and decode, that of the CPU
// (attention.inc): splits of 512 absolute positions; inside a split an online softmax, page by page;
// splits merged in order. In a page a score is a chain over the head's dimensions, an output a chain
// over the page's visible tokens. Tokens that a query does not see are left out, not multiplied by
// zero, so what else lies in a page never matters. One group a (head, token); an item is a token of
// the page, then a dimension of the head.
__kernel __attribute__((reqd_work_group_size(PAGE_TOKENS, 1, 1))) void attention(
    __global const float* qkv, int stride, int head_dim, int head_pad, int group, int kv_heads,
    __global const int4* tokens, __global const int* tables, __global const uchar* k_pages,
    __global const uchar* v_pages, ulong page_bytes, int window, float scale, float cap,
    __global float* out, int out_at, int out_stride) {
  __local float q[HEAD_DIM_MOST], o[HEAD_DIM_MOST], total[HEAD_DIM_MOST];
  __local float p[PAGE_TOKENS], part[PAGE_TOKENS];
  const int item = get_local_id(0), head = get_group_id(0);
  const int4 token = tokens[get_group_id(1)];
  const int end = token.w;  // positions below it are seen
  const int first = window > 0 ? max(token.y + 1 - window, 0) : 0;
  const ulong head_at = (ulong)(head / group) * (page_bytes / kv_heads);
  for (int d = item; d < head_pad; d += PAGE_TOKENS) {
    q[d] = qkv[(long)get_group_id(1) * stride + head * head_pad + d];
    total[d] = 0.0f;
  }
  float total_l = 0.0f, total_m = -INFINITY;
  for (int split = first / SPLIT_TOKENS * SPLIT_TOKENS; split < end; split += SPLIT_TOKENS) {
    float l = 0.0f, m = -INFINITY;
    for (int d = item; d < head_pad; d += PAGE_TOKENS) o[d] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int begin = max(split, first / PAGE_TOKENS * PAGE_TOKENS);
    const int stop = min(split + SPLIT_TOKENS, end);
    for (int at = begin; at < stop; at += PAGE_TOKENS) {
      const ulong page = (ulong)tables[token.z + at / PAGE_TOKENS] * page_bytes + head_at;
      __global const uchar* keys = k_pages + page;
      __global const uchar* values = v_pages + page;
      const int from = max(first - at, 0), to = min(end - at, PAGE_TOKENS);
      const int seen = item >= from && item < to;
      float score = 0.0f;
      if (seen) {
        float key_scale = 1.0f;
#if KV_TYPE == 3
        key_scale = scales_of(keys, head_pad)[item];
#endif
        for (int d = 0; d < head_dim; ++d) {
          score = fma(load_element(keys, d * PAGE_TOKENS + item, key_scale), q[d], score);
        }
        score = capped(score * scale, cap);
      }
      const float top = group_max(seen ? score : -INFINITY, part, item, PAGE_TOKENS);
      const float base = m > top ? m : top;
      const float weight = seen ? exp_of(score - base) : 0.0f;
      p[item] = weight;
      const float shrink = exp_of(m - base);
      l = fma(l, shrink, group_sum(weight, part, item, PAGE_TOKENS));
      m = base;
      for (int d = item; d < head_pad; d += PAGE_TOKENS) {
        float sum = o[d] * shrink;
        for (int t = from; t < to; ++t) {
          float value_scale = 1.0f;
#if KV_TYPE == 3
          value_scale = scales_of(values, head_pad)[t];
#endif
          sum = fma(load_element(values, (long)t * head_pad + d, value_scale), p[t], sum);
        }
        o[d] = sum;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float base = total_m > m ? total_m : m;
    const float older = exp_of(total_m - base), newer = exp_of(m - base);
    for (int d = item; d < head_pad; d += PAGE_TOKENS) {
      total[d] = fma(total[d], older, o[d] * newer);
    }
    total_l = fma(total_l, older, l * newer);
    total_m = base;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int d = item; d < head_dim; d += PAGE_TOKENS) {
    out[(long)get_group_id(1) * out_stride + out_at + head * head_dim + d] = total[d] / total_l;
  }
}
