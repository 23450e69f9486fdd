// Prepares rows that are to be normed for products (product.cl): x * w as they read rows, and the
// sums of the squares of x by panels of 16. An item has whole panels; after the n floats of a row
// there are zeros.
void spread_row(__global const float* x, __global const float* w, int n, __global float* out,
                __global float* squares, int item) {
  for (int p = item; p * LANES < n; p += NORM_ITEMS) {
    const float16 v = panel_at(x + p * 16);
    put_panel(v * vload16(p, w), p, out);
    squares[p] = sum_16(v * v);
  }
}
