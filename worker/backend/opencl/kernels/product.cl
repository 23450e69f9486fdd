// Products of batch rows with packed weights, with one definition of an output for any batch: spans
// of 32 k are dealt out to SLICES items (span s to item s mod SLICES), each sums its spans as one
// chain of fma over rising k, and the sums are added by a fixed tree. The number of rows that share
// a weight read does not matter.
//
// Rows that are to be normed (RMS) come as x * the norm's weights, with the sums of the squares of
// x by panels (spread_row): the norm's factor is the same for all k, so it is multiplied last.

// The sums of all slices of a row.
F sum_slices(__local const F* p) {
  return ((p[0] + p[4 * ITEMS]) + (p[2 * ITEMS] + p[6 * ITEMS])) +
         ((p[ITEMS] + p[5 * ITEMS]) + (p[3 * ITEMS] + p[7 * ITEMS]));
}

// The sum of the squares of a panel's values, of which each item has those of its lanes.
#if WIDE_LANES
float panel_squares(const float* mine, __local float* all, int slice, int lane) {
  const float16 v = vload16(0, mine);
  return sum_16(v * v);
}
#else
float panel_squares(const float* mine, __local float* all, int slice, int lane) {
  if (lane < LANES) all[slice * LANES + lane] = mine[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  const float16 v = vload16(0, all + slice * LANES);
  return sum_16(v * v);
}
#endif

// Parameters of all product kernels. The second matrix: with ONE there is none; with PAIR it lies
// as the first one does and is multiplied with the same rows, y = act(bias + product) * (second
// bias + second product); with CONCAT it is of another format (SECOND_SUMS) and has the panels from
// `border` on.
//
// Where `next_at` >= 0, y is the residual, whole and new: its rows are left spread for the next
// norm. Where `pack_int8`, only products read y: it is stored as int8 rows (int8_rows.cl).
#define ONE 0
#define PAIR 1
#define CONCAT 2
#define PRODUCT_PARAMETERS                                                                         \
  __global const uchar *weights, __global const uchar *second, __global const float *x,            \
      __global const float *squares, __global float *y, __global const float *vectors,             \
      __global const float *gate, __global const int *expert, __global float *next,                \
      __global float *next_squares, const ProductParameters p

// The group's panels and rows.
#define PRODUCT_INDICES(ROWS)                                                                      \
    const int lane = get_local_id(0), slice = get_local_id(1);                                     \
    const int panel = get_group_id(0), row0 = get_group_id(1) * ROWS;                              \
    int matrix = 0;                                                                                \
    if (p.experts > 0) matrix = expert[row0] - p.first_expert;                                     \
    const int here = p.experts == 0 || (matrix >= 0 && matrix < p.experts);                        \
    const ulong at = (ulong)((here ? matrix : 0) * p.panels_each + panel) * p.panel_bytes;         \
    /* the place of the expert's bias */                                                           \
    const int expert_bias = p.experts > 0 ? expert[row0] * p.panels_each * LANES : 0;

// The factors of the rows' norms, sixteen chains each (norm_chain).
#if WIDE_LANES
#define PRODUCT_CHAINS(ROWS)
#define ROW_FACTOR norm_factor(squares + (long)row * p.squares_n, p.squares_n, p.norm_n, p.norm_eps)
#else
#define PRODUCT_CHAINS(ROWS)                                                                       \
    __local float chains[ROWS * LANES];                                                            \
    for (int i = slice; i < (p.squares_n > 0 && lane < LANES ? ROWS : 0); i += SLICES) {           \
      const long row = min(row0 + i, p.rows - 1);                                                  \
      chains[i * LANES + lane] = norm_chain(squares + row * p.squares_n, p.squares_n, lane);       \
    }
#define ROW_FACTOR factor_of_chains(chains + mine * LANES, p.norm_n, p.norm_eps)
#endif

#if INT8_ROWS
#define PUT_BY_LANES(v, live, lane, values, to) put_panel_by_lanes(v, live, lane, values, to)
#else
#define PUT_BY_LANES(v, live, lane, values, to)
#endif

// Adds the sums of all slices and stores the results; items of slice r have row r, r + SLICES, ...
#define PRODUCT_END(ROWS, KIND)                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    for (int mine = slice; mine < max(ROWS, SLICES); mine += SLICES) {                             \
      const int row = row0 + mine;                                                                 \
      const int live = mine < ROWS && row < p.rows && here && lane < ITEMS;                        \
      float sums[ITEM_LANES], seconds[ITEM_LANES];                                                 \
      STORE_LANES((F)(0.0f), sums);                                                                \
      if (live) {                                                                                  \
        const float factor = p.squares_n > 0 ? ROW_FACTOR : 1.0f;                                  \
        const float times = p.gated ? p.scale * gate[row] : p.scale;                               \
        STORE_LANES(sum_slices(part + mine * SLICES * ITEMS + lane) * factor, sums);               \
        if (KIND == PAIR) {                                                                        \
          STORE_LANES(sum_slices(part + (ROWS + mine) * SLICES * ITEMS + lane) * factor, seconds); \
        }                                                                                          \
        for (int i = 0; i < ITEM_LANES; ++i) {                                                     \
          const int col = panel * LANES + lane + i;                                                \
          const long to = (long)row * p.y_stride + p.y_at + col;                                   \
          const int bias = p.bias_at + expert_bias + col;                                          \
          float v = p.bias_at >= 0 ? sums[i] + vectors[bias] : sums[i];                            \
          sums[i] = 0.0f;                                                                          \
          if (col >= p.y_cols) continue;                                                           \
          if (KIND == PAIR) {                                                                      \
            const int up_bias = p.second_bias_at + expert_bias + col;                              \
            const float up =                                                                       \
                p.second_bias_at >= 0 ? seconds[i] + vectors[up_bias] : seconds[i];                \
            v = gated_by(p.activation, v, up);                                                     \
          }                                                                                        \
          sums[i] = finish_output(y + to, v, p.mode, p.activation, times, p.cap);                  \
          if (!p.pack_int8) y[to] = sums[i];                                                       \
          if (p.next_at >= 0 && !INT8_ROWS) next[to] = sums[i] * vectors[p.next_at + p.y_at + col]; \
        }                                                                                          \
      }                                                                                            \
      if (INT8_ROWS && (p.pack_int8 || p.next_at >= 0)) {                                          \
        const int col = p.y_at + panel * LANES;                                                    \
        __global float* to = (p.next_at >= 0 ? next : y) + (long)row * p.y_stride + col;           \
        const int counts = live && panel * LANES + lane < p.y_cols;                                \
        const float by = p.next_at >= 0 && counts ? vectors[p.next_at + col + lane] : 1.0f;        \
        if (ROWS == 1) {                                                                           \
          PUT_BY_LANES(counts ? sums[0] * by : 0.0f, live, lane, all_lanes + slice * LANES, to);   \
        } else { /* by one item: NVIDIA's compiler then leaves the sums more registers */          \
          if (lane < LANES) all_lanes[slice * LANES + lane] = counts ? sums[0] * by : 0.0f;        \
          barrier(CLK_LOCAL_MEM_FENCE);                                                            \
          if (live && lane == 0) put_panel(vload16(0, all_lanes + slice * LANES), 0, to);          \
          barrier(CLK_LOCAL_MEM_FENCE);                                                            \
        }                                                                                          \
      }                                                                                            \
      if (p.next_at >= 0) {                                                                        \
        const float square = panel_squares(sums, all_lanes, slice, lane);                          \
        if (live && lane == 0) {                                                                   \
          next_squares[(long)row * p.next_squares_n + p.y_at / LANES + panel] = square;            \
        }                                                                                          \
        if (ROWS > SLICES) barrier(CLK_LOCAL_MEM_FENCE);                                           \
      }                                                                                            \
    }

// The sums of this item's slice for ROWS rows, then of all slices.
#define DEFINE_PRODUCT(NAME, ROWS, KIND, SUMS, SECOND_SUMS)                                        \
  __kernel __attribute__((reqd_work_group_size(LANES / ITEM_LANES, SLICES, 1))) void NAME(         \
      PRODUCT_PARAMETERS) {                                                                        \
    __local F part[(KIND == PAIR ? 2 : 1) * ROWS * SLICES * ITEMS];                                \
    __local float all_lanes[SLICES * LANES] __attribute__((aligned(16)));                          \
    PRODUCT_INDICES(ROWS)                                                                          \
    PRODUCT_CHAINS(ROWS)                                                                           \
    F acc[ROWS];                                                                                   \
    if (KIND == CONCAT && panel >= p.border) {                                                     \
      SECOND_SUMS(second + p.second_at + (ulong)(panel - p.border) * p.second_panel_bytes,         \
                  p.spans, slice, lane, x, p.x_stride, row0, p.rows, p.x_share, acc);              \
    } else {                                                                                       \
      SUMS(weights + p.weights_at + at, p.spans, slice, lane, x, p.x_stride, row0, p.rows,         \
           p.x_share, acc);                                                                        \
    }                                                                                              \
    for (int r = 0; r < ROWS; ++r) part[(r * SLICES + slice) * ITEMS + lane] = acc[r];             \
    if (KIND == PAIR) {                                                                            \
      SUMS(second + p.second_at + at, p.spans, slice, lane, x, p.x_stride, row0, p.rows,           \
           p.x_share, acc);                                                                        \
      for (int r = 0; r < ROWS; ++r) part[((ROWS + r) * SLICES + slice) * ITEMS + lane] = acc[r];  \
    }                                                                                              \
    PRODUCT_END(ROWS, KIND)                                                                        \
  }

// The same for one int8 row (row_ahead.cl): `record_spans` spans of the row, a multiple of SLICES, lie
// in local memory at a time. SECOND: the number of the second matrix's format.
#define BEGIN_SPANS(SECOND, from)                                                                  \
    if (in_second) {                                                                               \
      OF_NUMBER(begin_spans_, SECOND)(second_panel, from, end, slice, lane, ahead);                \
    } else {                                                                                       \
      begin_spans_0(first_panel, from, end, slice, lane, ahead);                                   \
    }
#define DEFINE_ROW_PRODUCT(NAME, KIND, SECOND)                                                     \
  __kernel __attribute__((reqd_work_group_size(LANES, SLICES, 1))) void NAME(                      \
      PRODUCT_PARAMETERS, int record_spans, __local uint4* records) {                              \
    __local float part[(KIND == PAIR ? 2 : 1) * SLICES * LANES];                                   \
    __local float all_lanes[SLICES * LANES] __attribute__((aligned(16)));                          \
    PRODUCT_INDICES(1)                                                                             \
    const int in_second = KIND == CONCAT && panel >= p.border;                                     \
    __global const uchar* first_panel = weights + p.weights_at + at;                               \
    __global const uchar* second_panel =                                                           \
        second + p.second_at +                                                                     \
        (KIND == CONCAT ? (ulong)max(panel - p.border, 0) * p.second_panel_bytes : at);            \
    __global const float* row = x + (long)(min(row0, p.rows - 1) / p.x_share) * p.x_stride;        \
    const int item = slice * LANES + lane;                                                         \
    uint ahead[SPANS_AHEAD * SPAN_WORDS] = {0};                                                    \
    float sum = 0.0f, second_sum = 0.0f;                                                           \
    int end = min(record_spans, p.spans);                                                          \
    BEGIN_SPANS(SECOND, 0)                                                                         \
    copy_records(row, 0, end * 2, records, item, SLICES * LANES);                                  \
    PRODUCT_CHAINS(1)                                                                              \
    for (int from = 0; from < p.spans;) {                                                          \
      records_copied();                                                                            \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                \
      if (in_second) {                                                                             \
        sum = OF_NUMBER(add_spans_, SECOND)(sum, second_panel, from, end, slice, lane, ahead, records); \
      } else {                                                                                     \
        sum = add_spans_0(sum, first_panel, from, end, slice, lane, ahead, records);               \
      }                                                                                            \
      if (KIND == PAIR) {                                                                          \
        begin_spans_0(second_panel, from, end, slice, lane, ahead);                                \
        second_sum = add_spans_0(second_sum, second_panel, from, end, slice, lane, ahead, records); \
      }                                                                                            \
      from = end;                                                                                  \
      end = min(from + record_spans, p.spans);                                                     \
      if (from < p.spans) {                                                                        \
        BEGIN_SPANS(SECOND, from)                                                                  \
      }                                                                                            \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                \
      copy_records(row, from * 2, end * 2, records, item, SLICES * LANES);                         \
    }                                                                                              \
    part[slice * LANES + lane] = sum;                                                              \
    if (KIND == PAIR) part[(SLICES + slice) * LANES + lane] = second_sum;                          \
    PRODUCT_END(1, KIND)                                                                           \
  }

// The same by matrix units (bytes.cl), 32 items a slice; not for experts' slots.
#define DEFINE_MATRIX_PRODUCT(NAME, ROWS, KIND, SUMS, SECOND_SUMS)                                 \
  __kernel __attribute__((reqd_work_group_size(MATRIX_ITEMS, SLICES, 1))) void NAME(               \
      PRODUCT_PARAMETERS) {                                                                        \
    __local float part[(KIND == PAIR ? 2 : 1) * ROWS * SLICES * LANES];                            \
    __local float all_lanes[SLICES * LANES] __attribute__((aligned(16)));                          \
    __local uint exchanged[SLICES * MATRIX_WORDS];                                                 \
    PRODUCT_INDICES(ROWS)                                                                          \
    PRODUCT_CHAINS(ROWS)                                                                           \
    __local uint* all = exchanged + slice * MATRIX_WORDS;                                          \
    if (KIND == CONCAT && panel >= p.border) {                                                     \
      SECOND_SUMS(second + p.second_at + (ulong)(panel - p.border) * p.second_panel_bytes,         \
                  p.spans, slice, lane, x, p.x_stride, row0, p.rows, part, all);                   \
    } else {                                                                                       \
      SUMS(weights + p.weights_at + at, p.spans, slice, lane, x, p.x_stride, row0, p.rows, part, all); \
    }                                                                                              \
    if (KIND == PAIR) {                                                                            \
      SUMS(second + p.second_at + at, p.spans, slice, lane, x, p.x_stride, row0, p.rows,           \
           part + ROWS * SLICES * LANES, all);                                                     \
    }                                                                                              \
    PRODUCT_END(ROWS, KIND)                                                                        \
  }

#if CONCAT_FORMATS
#if ROW_AHEAD
DEFINE_ROW_PRODUCT(concat_1, CONCAT, 1)
#else
DEFINE_PRODUCT(concat_1, 1, CONCAT, sums_1_0, sums_1_1)
#endif
#if BY_MATRIX
DEFINE_MATRIX_PRODUCT(concat_8, 8, CONCAT, sums_8_0, sums_8_1)
DEFINE_MATRIX_PRODUCT(concat_16, 16, CONCAT, sums_16_0, sums_16_1)
DEFINE_MATRIX_PRODUCT(concat_32, 32, CONCAT, sums_32_0, sums_32_1)
#else
DEFINE_PRODUCT(concat_4, 4, CONCAT, sums_4_0, sums_4_1)
DEFINE_PRODUCT(concat_8, 8, CONCAT, sums_8_0, sums_8_1)
#endif
#else
#if ROW_AHEAD
DEFINE_ROW_PRODUCT(one_1, ONE, 0)
DEFINE_ROW_PRODUCT(pair_1, PAIR, 0)
#else
DEFINE_PRODUCT(one_1, 1, ONE, sums_1_0, sums_1_0)
DEFINE_PRODUCT(pair_1, 1, PAIR, sums_1_0, sums_1_0)
#endif
#if BY_MATRIX
DEFINE_MATRIX_PRODUCT(one_8, 8, ONE, sums_8_0, sums_8_0)
DEFINE_MATRIX_PRODUCT(one_16, 16, ONE, sums_16_0, sums_16_0)
DEFINE_MATRIX_PRODUCT(one_32, 32, ONE, sums_32_0, sums_32_0)
DEFINE_MATRIX_PRODUCT(pair_8, 8, PAIR, sums_8_0, sums_8_0)
DEFINE_MATRIX_PRODUCT(pair_16, 16, PAIR, sums_16_0, sums_16_0)
DEFINE_MATRIX_PRODUCT(pair_32, 32, PAIR, sums_32_0, sums_32_0)
#else
DEFINE_PRODUCT(one_4, 4, ONE, sums_4_0, sums_4_0)
DEFINE_PRODUCT(one_8, 8, ONE, sums_8_0, sums_8_0)
DEFINE_PRODUCT(pair_4, 4, PAIR, sums_4_0, sums_4_0)
DEFINE_PRODUCT(pair_8, 8, PAIR, sums_8_0, sums_8_0)
#endif
#endif
