// Attention over pages of 64 tokens, with one definition for prefill and decode, that of the CPU
// (attention.inc): splits of 512 absolute positions; inside a split an online softmax, page by
// page; splits merged in order. In a page, a score is a chain over the head's dimensions, and an
// output is a chain over the page's visible tokens. Tokens that a query does not see are left out,
// not multiplied by zero, so what else lies in a page never matters. One work-group a (head,
// token); an item is a token of the page, then a dimension of the head.
//
// With `sides` > 0, splits run in parallel: one work-group a (head, split, token) writes its
// split's result to `partials` ([token][head][sides]: o [head_pad], l, m), and merge_splits merges
// them in the same order by the same operations.
//
// With `fresh`, q, k and v are as the products left them, and each sequence has few tokens in the
// batch: a work-group finishes its query, and the keys and values of this batch that it reads.
// Several work-groups may finish the same key or value: all write the same bytes.
//
// With `sinks_at` >= 0, every softmax has one more score, its head's in `vectors`, without a value.
//
// With `pack_int8` (int8_rows.cl), heads are whole panels, and products read the result.

// Dimension d of token t's value.
float value_at(__global const uchar* values, int t, int d, int head_pad) {
#if KV_TYPE == 3
  return load_element(values, t * head_pad + d, scales_of(values, head_pad)[t]);
#else
  return load_element(values, t * head_pad + d, 1.0f);
#endif
}

#if INT8_ROWS
// Stores value[d] / by for `dims` dimensions, as int8 rows if `pack_int8`; a panel by 16 items.
// Every item of the group calls; `part` has a float an item.
void put_values(__local const float* value, float by, int dims, int pack_int8, __local float* part,
                int item, __global float* to) {
  for (int at = 0; at < dims; at += PAGE_TOKENS) {
    const int d = at + item, live = d < dims;
    const float v = live ? value[d] / by : 0.0f;
    if (pack_int8) {
      put_panel_by_lanes(v, live, item % LANES, part + item / LANES * LANES,
                         to + d / LANES * LANES);
    } else if (live) {
      to[d] = v;
    }
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(PAGE_TOKENS, 1, 1))) void attention(
    __global const float* qkv, __global const int4* tokens, __global const int* tables,
    __global uchar* k_pages, __global uchar* v_pages, __global float* out,
    __global float* partials, __global const float* vectors, __global const float* rope_table,
    const HeadParameters h, const FinishParameters f, const AttentionParameters a) {
  __local float q[HEAD_DIM_MOST], o[HEAD_DIM_MOST], total[HEAD_DIM_MOST];
  __local float p[PAGE_TOKENS], weights[PAGE_TOKENS];
  __local float part[PAGE_TOKENS] __attribute__((aligned(16)));
  const int item = get_local_id(0), head = get_group_id(0) % h.heads;
  const int side = get_group_id(0) / h.heads, kv_head = head / (h.heads / h.kv_heads);
  const int4 token = tokens[get_group_id(1)];
  const int end = token.w;  // positions below it are visible
  const int first = a.window > 0 ? max(token.y + 1 - a.window, 0) : 0;
  const ulong head_at = (ulong)kv_head * (h.page_bytes / h.kv_heads);
  int split = first / SPLIT_TOKENS * SPLIT_TOKENS, last = end;
  if (a.sides > 0) {  // the split of this group, if the token sees any of it
    last = side * SPLIT_TOKENS < split ? 0 : min(end, (side + 1) * SPLIT_TOKENS);
    split = side * SPLIT_TOKENS;
  }
  __global const float* row = qkv + (long)get_group_id(1) * h.stride;
  const int first_page = max(split, first / PAGE_TOKENS * PAGE_TOKENS);
  if (first_page < last) {
    const ulong page = (ulong)tables[token.z + first_page / PAGE_TOKENS] * h.page_bytes + head_at;
    fetch(k_pages + page, h.page_bytes / h.kv_heads, item, PAGE_TOKENS);
    fetch(v_pages + page, h.page_bytes / h.kv_heads, item, PAGE_TOKENS);
  }
  if (a.fresh) {  // sixteen lines each of q, k and v, eight of each table, by an item a line
    fetch_near(row + head * h.head_pad, h.head_pad, item);
    fetch_near(row + (h.heads + kv_head) * h.head_pad, h.head_pad, item - 16);
    fetch_near(row + (h.heads + h.kv_heads + kv_head) * h.head_pad, h.head_pad, item - 32);
    fetch_near(rope_table + (long)token.y * f.pairs, f.pairs, item - 48);
    fetch_near(rope_table + f.sin_at + (long)token.y * f.pairs, f.pairs, item - 56);
    // Begins at the sequence's first token in the batch: its tokens share a page table.
    const int index = get_group_id(1);
    int older = 0;
    while (older < index && tokens[index - older - 1].z == token.z) ++older;
    for (int position = max(token.y - older, split); position < min(token.y + 1, last); ++position) {
      __global const float* from = qkv + (long)(index - (token.y - position)) * h.stride;
      const ulong page = (ulong)tables[token.z + position / PAGE_TOKENS] * h.page_bytes + head_at;
      const int slot = position % PAGE_TOKENS;
      finish_value(from, h.heads + kv_head, 1, h.head_dim, h.head_pad, position, vectors,
                   rope_table, f, o, part, item);
      store_kv(o, 1, h.head_dim, h.head_pad, slot, k_pages + page, part, item);
      barrier(CLK_LOCAL_MEM_FENCE);
      finish_value(from, h.heads + h.kv_heads + kv_head, 2, h.head_dim, h.head_pad, position,
                   vectors, rope_table, f, o, part, item);
      store_kv(o, 0, h.head_dim, h.head_pad, slot, v_pages + page, part, item);
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    finish_value(row, head, 0, h.head_dim, h.head_pad, token.y, vectors, rope_table, f, q, part,
                 item);
  } else {
    for (int d = item; d < h.head_pad; d += PAGE_TOKENS) q[d] = row[head * h.head_pad + d];
  }
  for (int d = item; d < h.head_pad; d += PAGE_TOKENS) total[d] = 0.0f;
  float total_l = a.sinks_at < 0 ? 0.0f : 1.0f;
  float total_m = a.sinks_at < 0 ? -INFINITY : vectors[a.sinks_at + head];
  for (; split < last; split += SPLIT_TOKENS) {
    float l = 0.0f, m = -INFINITY;
    for (int d = item; d < h.head_pad; d += PAGE_TOKENS) o[d] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int begin = max(split, first / PAGE_TOKENS * PAGE_TOKENS);
    const int stop = min(split + SPLIT_TOKENS, end);
    for (int at = begin; at < stop; at += PAGE_TOKENS) {
      const ulong page = (ulong)tables[token.z + at / PAGE_TOKENS] * h.page_bytes + head_at;
      __global const uchar* keys = k_pages + page;
      __global const uchar* values = v_pages + page;
      if (at + PAGE_TOKENS < stop) {
        const ulong next = (ulong)tables[token.z + at / PAGE_TOKENS + 1] * h.page_bytes + head_at;
        fetch(k_pages + next, h.page_bytes / h.kv_heads, item, PAGE_TOKENS);
        fetch(v_pages + next, h.page_bytes / h.kv_heads, item, PAGE_TOKENS);
      }
      const int from = max(first - at, 0), to = min(end - at, PAGE_TOKENS);
      const int visible = item >= from && item < to;
      float score = 0.0f;
      if (visible) {
        float key_scale = 1.0f;
#if KV_TYPE == 3
        key_scale = scales_of(keys, h.head_pad)[item];
#endif
        int d = 0;
        for (; d + PASSES(32) <= h.head_dim; d += PASSES(32)) {
          EACH_PASS(j, 32) {
            const float key = load_element(keys, (d + j) * PAGE_TOKENS + item, key_scale);
            score = fma(key, q[d + j], score);
          }
        }
        for (; d < h.head_dim; ++d) {
          score = fma(load_element(keys, d * PAGE_TOKENS + item, key_scale), q[d], score);
        }
        score = capped(score * a.scale, a.cap);
      }
      const float top = fold_max(visible ? score : -INFINITY, part, item, PAGE_TOKENS);
      const float base = m > top ? m : top;
      const float weight = visible ? exp_of(score - base) : 0.0f;
      p[item] = weight;
      const float shrink = exp_of(m - base);
      l = fma(l, shrink, fold_sum(weight, weights, item, PAGE_TOKENS));
      m = base;
      for (int d = item; d < h.head_pad; d += PAGE_TOKENS) {
        float sum = o[d] * shrink;
        int t = from;
        for (; t + PASSES(32) <= to; t += PASSES(32)) {
          EACH_PASS(j, 32) sum = fma(value_at(values, t + j, d, h.head_pad), p[t + j], sum);
        }
        for (; t + PASSES(4) <= to; t += PASSES(4)) {
          EACH_PASS(j, 4) sum = fma(value_at(values, t + j, d, h.head_pad), p[t + j], sum);
        }
        for (; t < to; ++t) sum = fma(value_at(values, t, d, h.head_pad), p[t], sum);
        o[d] = sum;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (a.sides > 0) {
      __global float* to =
          partials + (((long)get_group_id(1) * h.heads + head) * a.sides + side) * (h.head_pad + 2);
      for (int d = item; d < h.head_pad; d += PAGE_TOKENS) to[d] = o[d];
      if (item == 0) to[h.head_pad] = l;
      if (item == 0) to[h.head_pad + 1] = m;
    } else {
      const float base = total_m > m ? total_m : m;
      const float older = exp_of(total_m - base), newer = exp_of(m - base);
      for (int d = item; d < h.head_pad; d += PAGE_TOKENS) {
        total[d] = fma(total[d], older, o[d] * newer);
      }
      total_l = fma(total_l, older, l * newer);
      total_m = base;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  __global float* to = out + (long)get_group_id(1) * a.out_stride + a.out_at + head * h.head_dim;
  const int dims = a.sides > 0 ? 0 : h.head_dim;
#if INT8_ROWS
  put_values(total, total_l, dims, a.pack_int8, part, item, to);
#else
  for (int d = item; d < dims; d += PAGE_TOKENS) to[d] = total[d] / total_l;
#endif
}

// Merges the results of splits: total = total * older + o * newer, split by split. One work-group a
// (head, token).
__kernel __attribute__((reqd_work_group_size(PAGE_TOKENS, 1, 1))) void merge_splits(
    __global const int4* tokens, int window, int head_dim, int head_pad, int heads, int sides,
    __global const float* partials, __global float* out, int out_at, int out_stride,
    __global const float* vectors, int sinks_at, int pack_int8) {
#if INT8_ROWS
  __local float value[HEAD_DIM_MOST], part[PAGE_TOKENS] __attribute__((aligned(16)));
#endif
  const int head = get_group_id(0);
  const int4 token = tokens[get_group_id(1)];
  const int first = window > 0 ? max(token.y + 1 - window, 0) : 0;
  __global const float* from =
      partials + ((long)get_group_id(1) * heads + head) * sides * (head_pad + 2);
  __global float* to = out + (long)get_group_id(1) * out_stride + out_at + head * head_dim;
  for (int d = get_local_id(0); d < head_dim; d += PAGE_TOKENS) {
    float total = 0.0f, total_l = sinks_at < 0 ? 0.0f : 1.0f;
    float total_m = sinks_at < 0 ? -INFINITY : vectors[sinks_at + head];
    for (int s = first / SPLIT_TOKENS; s * SPLIT_TOKENS < token.w; ++s) {
      __global const float* one = from + (long)s * (head_pad + 2);
      const float l = one[head_pad], m = one[head_pad + 1];
      const float base = total_m > m ? total_m : m;
      const float older = exp_of(total_m - base), newer = exp_of(m - base);
      total = fma(total, older, one[d] * newer);
      total_l = fma(total_l, older, l * newer);
      total_m = base;
    }
#if INT8_ROWS
    value[d] = total / total_l;
#else
    to[d] = total / total_l;
#endif
  }
#if INT8_ROWS
  barrier(CLK_LOCAL_MEM_FENCE);
  put_values(value, 1.0f, head_dim, pack_int8, part, get_local_id(0), to);
#endif
}
