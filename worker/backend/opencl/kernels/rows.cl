// Kernels over whole rows of floats: norms, copies, scales. One work-group a row.

// out = y, or out += scale * y.
void put(__global float* out, float y, int add, float scale) {
  *out = add ? fma(y, scale, *out) : y;
}

__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void spread(
    __global const float* x, int x_stride, __global const float* vectors, int w_at, int n,
    __global float* out, __global float* squares, int squares_n) {
  const long row = get_group_id(0);
  spread_row(x + row * x_stride, vectors + w_at, n, out + row * x_stride, squares + row * squares_n,
             get_local_id(0));
}

// y = x / sqrt(mean(x^2) + eps) * w over `stored` floats, of which n count; the others (padding of
// heads) are zero.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void norm_rms(
    __global const float* x, __global const float* vectors, __global float* out,
    __global float* next, __global float* next_squares, const NormParameters p) {
  __local float part[NORM_ITEMS];
  const int item = get_local_id(0), row = get_group_id(0);
  __global const float* from = x + p.x_at + (long)row * p.x_stride;
  __global float* to = out + p.out_at + (long)row * p.out_stride;
  float sum = 0.0f;
  for (int i = item; i < p.stored; i += NORM_ITEMS) sum = fma(from[i], from[i], sum);
  const float mean = group_sum(sum, part, item, NORM_ITEMS) / (float)p.n;
  const float factor = 1.0f / sqrt(mean + p.eps);
  for (int i = item; i < p.stored; i += NORM_ITEMS) {
    put(to + i, from[i] * factor * vectors[p.w_at + i], p.add, p.scale);
  }
  if (p.next_at < 0) return;  // else `out` is the residual, which the next norm reads
  barrier(CLK_GLOBAL_MEM_FENCE);
  spread_row(to, vectors + p.next_at, p.n, next + (long)row * p.out_stride,
             next_squares + (long)row * p.next_squares_n, item);
}

// y = (x - mean) / sqrt(variance + eps) * w + b.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void norm_layer(
    __global const float* x, __global const float* vectors, __global float* out,
    __global float* next, __global float* next_squares, const NormParameters p) {
  __local float part[NORM_ITEMS];
  const int item = get_local_id(0), row = get_group_id(0);
  __global const float* from = x + p.x_at + (long)row * p.x_stride;
  __global float* to = out + p.out_at + (long)row * p.out_stride;
  float sum = 0.0f;
  for (int i = item; i < p.n; i += NORM_ITEMS) sum = sum + from[i];
  const float mean = group_sum(sum, part, item, NORM_ITEMS) / (float)p.n;
  float squares = 0.0f;
  for (int i = item; i < p.n; i += NORM_ITEMS) {
    const float d = from[i] - mean;
    squares = fma(d, d, squares);
  }
  const float variance = group_sum(squares, part, item, NORM_ITEMS) / (float)p.n;
  const float factor = 1.0f / sqrt(variance + p.eps);
  for (int i = item; i < p.n; i += NORM_ITEMS) {
    float y = (from[i] - mean) * factor * vectors[p.w_at + i];
    if (p.b_at >= 0) y = y + vectors[p.b_at + i];
    put(to + i, y, p.add, p.scale);
  }
  if (p.next_at < 0) return;  // else `out` is the residual, which the next norm reads
  barrier(CLK_GLOBAL_MEM_FENCE);
  spread_row(to, vectors + p.next_at, p.n, next + (long)row * p.out_stride,
             next_squares + (long)row * p.next_squares_n, item);
}

#if INT8_ROWS
// Stores rows of n values as products read them; out may be x. The memory after the values may hold
// remains of earlier int8 rows.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void int8_rows(
    __global const float* x, int stride, int n, __global float* out) {
  const long row = get_group_id(0);
  const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int p = get_local_id(0); p * 16 < n; p += NORM_ITEMS) {
    const float16 v = panel_at(x + row * stride + p * 16);
    put_panel(select((float16)(0.0f), v, lanes < (int16)(n - p * 16)), p, out + row * stride);
  }
}
#endif

// out[i] = x[indices[i]]
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void gather(
    __global const float* x, int x_stride, __global const int* indices, int indices_at,
    __global float* out, int n) {
  const long row = indices[indices_at + get_group_id(0)];
  for (int i = get_local_id(0); i < n; i += NORM_ITEMS) {
    out[(long)get_group_id(0) * x_stride + i] = x[row * x_stride + i];
  }
}

// x = x * scale, then + a vector if there is one.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void rescale(
    __global float* x, int x_stride, float scale, __global const float* vectors, int add_at,
    int n) {
  __global float* row = x + (long)get_group_id(0) * x_stride;
  for (int i = get_local_id(0); i < n; i += NORM_ITEMS) {
    const float y = row[i] * scale;
    row[i] = add_at >= 0 ? y + vectors[add_at + i] : y;
  }
}

// A whole number in the order of floats, zeros of either sign alike.
uint order_of(float v) {
  const uint u = as_uint(v == 0.0f ? 0.0f : v);
  return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}

// The first k of a row's n logits by falling logit, ties by rising index, as pairs (logit, index),
// TOP_MOST pairs a row. Each row has its k in `tables`, from tops_at on; 0: none. The first index
// is -1 if one of the logits is not finite. The k-th greatest is found byte by byte, by counting
// how many logits have each byte, which needs no order. One work-group a row.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void top_k(
    __global const float* logits, int stride, int n, __global const int* tables, int tops_at,
    __global int* pairs) {
  __local int counts[256], at[NORM_ITEMS], index[TOP_MOST], found, chosen, odd;
  __local float value[TOP_MOST];
  const int item = get_local_id(0);
  __global const float* row = logits + (long)get_group_id(0) * stride;
  __global int* out = pairs + (long)get_group_id(0) * (2 * TOP_MOST);
  const int k = min(tables[tops_at + get_group_id(0)], n);
  uint least = 0, prefix_mask = 0;  // known bytes of the k-th greatest, and their mask
  int left = k;               // still to take of those that begin with these bytes
  if (item == 0) found = 0;
  if (item == 0) odd = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = item; i < 256; i += NORM_ITEMS) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < (k > 0 ? n : 0); i += NORM_ITEMS) {
      const uint order = order_of(row[i]);
      if (!(fabs(row[i]) <= FLT_MAX)) odd = 1;
      if ((order & prefix_mask) == least) atomic_inc(&counts[order >> shift & 255]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      int byte = 255;
      for (; byte > 0 && counts[byte] < left; --byte) left -= counts[byte];
      chosen = byte;
      at[0] = left;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    left = at[0];
    least |= (uint)chosen << shift;
    prefix_mask |= 255u << shift;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  // Logits above it, in any order, then as many equal ones as are left, lowest index first.
  for (int i = item; i < (k > 0 ? n : 0); i += NORM_ITEMS) {
    if (order_of(row[i]) <= least) continue;
    const int to = atomic_inc(&found);
    value[to] = row[i];
    index[to] = i;
  }
  int last = -1;
  for (int t = k - left; t < k; ++t) {
    int lowest = n;
    for (int i = last + 1 + item; i < n && lowest == n; i += NORM_ITEMS) {
      if (order_of(row[i]) == least) lowest = i;
    }
    at[item] = lowest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = NORM_ITEMS / 2; width > 0; width /= 2) {
      if (item < width) at[item] = min(at[item], at[item + width]);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    last = at[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0 && last < n) {
      value[t] = row[last];
      index[t] = last;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < k; i += NORM_ITEMS) {
    int rank = 0;
    for (int j = 0; j < k; ++j) {
      rank += value[j] > value[i] || (value[j] == value[i] && index[j] < index[i]);
    }
    out[2 * rank] = as_int(value[i]);
    out[2 * rank + 1] = index[i];
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (item == 0 && odd) out[1] = -1;
}

// The greatest of two candidates, by value, then by the lower index.
void take_greater(float value, int index, float* greatest, int* at) {
  const int other = value > *greatest || (value == *greatest && index < *at);
  *at = other ? index : *at;
  *greatest = fmax(*greatest, value);
}

// The greatest of the group's candidates, for item 0. Every item calls.
void greatest_of_group(float* greatest, int* at, __local float* tops, __local int* indices,
                       int item) {
  tops[item] = *greatest;
  indices[item] = *at;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = NORM_ITEMS / 2; width > 0; width /= 2) {
    if (item < width) {
      take_greater(tops[item + width], indices[item + width], greatest, at);
      tops[item] = *greatest;
      indices[item] = *at;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// For each part of a row's n logits: the greatest, and its lowest index, as a pair at
// found[parts_at]; infinity where one of them is not finite. Work-groups: (row, part).
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void best_parts(
    __global const float* logits, int stride, int n, __global int* found, int parts_at) {
  __local float tops[NORM_ITEMS];
  __local int indices[NORM_ITEMS];
  const int item = get_local_id(0), part = get_group_id(1), parts = get_num_groups(1);
  __global const float* row = logits + (long)get_group_id(0) * stride;
  const int each = (n + parts - 1) / parts, end = min((part + 1) * each, n);
  float greatest = -INFINITY;
  int at = n, finite = 1;
  for (int i = part * each + item; i < end; i += NORM_ITEMS) {
    const float v = row[i];
    finite &= fabs(v) <= FLT_MAX;
    at = v > greatest ? i : at;
    greatest = v > greatest ? v : greatest;
  }
  if (!finite) greatest = INFINITY;
  greatest_of_group(&greatest, &at, tops, indices, item);
  if (item == 0) {
    __global int* pair = found + parts_at + (get_group_id(0) * parts + part) * 2;
    pair[0] = as_int(greatest);
    pair[1] = at;
  }
}

// The lowest index of the greatest of a row's logits, of `parts` pairs as above; -1 if one of them
// is not finite. One work-group a row.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void best(
    __global int* found, int parts_at, int parts) {
  __local float tops[NORM_ITEMS];
  __local int indices[NORM_ITEMS];
  const int item = get_local_id(0);
  __global const int* pairs = found + parts_at + get_group_id(0) * parts * 2;
  float greatest = -INFINITY;
  int at = INT_MAX;
  for (int i = item; i < parts; i += NORM_ITEMS) {
    take_greater(as_float(pairs[2 * i]), pairs[2 * i + 1], &greatest, &at);
  }
  greatest_of_group(&greatest, &at, tops, indices, item);
  if (item == 0) found[get_group_id(0)] = greatest <= FLT_MAX ? at : -1;
}
