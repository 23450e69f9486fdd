// What goes over whole rows of floats: norms, copies, scales. One group a row.

// out = y, or out += scale * y.
void put(__global float* out, float y, int add, float scale) {
  *out = add ? fma(y, scale, *out) : y;
}

// y = x / sqrt(mean(x^2) + eps) * w over the first n of `stored` floats that count; what lies between
// (padding of heads) is zero.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void norm_rms(
    __global const float* x, int x_at, int x_stride, __global const float* vectors, int w_at,
    int b_at, int stored, int n, float eps, __global float* out, int out_at, int out_stride,
    int add, float scale) {
  __local float part[NORM_ITEMS];
  const int item = get_local_id(0), row = get_group_id(0);
  __global const float* from = x + x_at + (long)row * x_stride;
  __global float* to = out + out_at + (long)row * out_stride;
  float sum = 0.0f;
  for (int i = item; i < stored; i += NORM_ITEMS) sum = fma(from[i], from[i], sum);
  const float mean = group_sum(sum, part, item, NORM_ITEMS) / (float)n;
  const float factor = 1.0f / sqrt(mean + eps);
  for (int i = item; i < stored; i += NORM_ITEMS) {
    put(to + i, from[i] * factor * vectors[w_at + i], add, scale);
  }
}

// y = (x - mean) / sqrt(variance + eps) * w + b.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void norm_layer(
    __global const float* x, int x_at, int x_stride, __global const float* vectors, int w_at,
    int b_at, int stored, int n, float eps, __global float* out, int out_at, int out_stride,
    int add, float scale) {
  __local float part[NORM_ITEMS];
  const int item = get_local_id(0), row = get_group_id(0);
  __global const float* from = x + x_at + (long)row * x_stride;
  __global float* to = out + out_at + (long)row * out_stride;
  float sum = 0.0f;
  for (int i = item; i < n; i += NORM_ITEMS) sum = sum + from[i];
  const float mean = group_sum(sum, part, item, NORM_ITEMS) / (float)n;
  float squares = 0.0f;
  for (int i = item; i < n; i += NORM_ITEMS) {
    const float d = from[i] - mean;
    squares = fma(d, d, squares);
  }
  const float variance = group_sum(squares, part, item, NORM_ITEMS) / (float)n;
  const float factor = 1.0f / sqrt(variance + eps);
  for (int i = item; i < n; i += NORM_ITEMS) {
    float y = (from[i] - mean) * factor * vectors[w_at + i];
    if (b_at >= 0) y = y + vectors[b_at + i];
    put(to + i, y, add, scale);
  }
}

// out[i] = x[wanted[i]]
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void gather(
    __global const float* x, int x_stride, __global const int* wanted, int wanted_at,
    __global float* out, int n) {
  const long row = wanted[wanted_at + get_group_id(0)];
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
