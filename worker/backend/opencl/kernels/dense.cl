// Our own part of products by CLBlast (single/dense.cpp): blocks of rows before them, the epilogue
// after them.

// Rows [row0, row0 + groups) of x, `columns` floats each and nothing between them; zeros after the
// last of `rows`. Work-groups: (row, NORM_ITEMS columns).
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void pad_rows(
    __global const float* x, int x_stride, int row0, int rows, int columns, __global float* out) {
  const int here = get_group_id(0), column = get_group_id(1) * NORM_ITEMS + get_local_id(0);
  if (column >= columns) return;
  const int row = row0 + here;
  out[(long)here * columns + column] = row < rows ? x[(long)row * x_stride + column] : 0.0f;
}

// The epilogue of the sums of a block of rows. Work-groups: (row, NORM_ITEMS columns).
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void finish_rows(
    __global const float* sums, __global const float* squares, __global float* y,
    __global const float* vectors, __global const float* gate, const DenseParameters p) {
  __local float chains[LANES];
  const int item = get_local_id(0), here = get_group_id(0), row = p.row0 + here;
  if (p.squares_n > 0 && item < LANES) {
    chains[item] = norm_chain(squares + (long)row * p.squares_n, p.squares_n, item);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int column = get_group_id(1) * NORM_ITEMS + item;
  if (column >= p.y_cols) return;
  const float factor = p.squares_n > 0 ? factor_of_chains(chains, p.norm_n, p.norm_eps) : 1.0f;
  const float times = p.gated ? p.scale * gate[row] : p.scale;
  const float sum = sums[(long)here * p.sums_stride + column] * factor;
  const float v = p.bias_at >= 0 ? sum + vectors[p.bias_at + column] : sum;
  __global float* to = y + (long)row * p.y_stride + p.y_at + column;
  *to = finish_output(to, v, p.mode, p.activation, times, p.cap);
}
