// The numbers of kernels that take many, a block a kernel. The host includes this file too
// (single/kernel_parameters.h), so that both sides have one definition. Numbers of eight bytes come
// first, and no block has gaps: blocks are compared byte by byte.

// A product (product.cl).
typedef struct ProductParameters {
  ulong weights_at, panel_bytes;
  ulong second_at, second_panel_bytes;
  int spans, panels_each;
  int border;  // the first panel of the second matrix
  int x_stride, rows, x_share;
  int squares_n, norm_n;  // squares_n 0: rows are not normed
  float norm_eps;
  int y_at, y_stride, y_cols;
  int bias_at, second_bias_at;  // in `vectors`; -1: none
  int mode, activation;
  float scale, cap;
  int gated;
  int first_expert, experts;  // experts 0: rows are not of experts
  int next_squares_n, next_at;  // next_at -1: the result is not spread
  int pack_int8;
} ProductParameters;

// A product of many rows (tile.cl, byte_tile.cl).
typedef struct TileParameters {
  ulong weights_at, panel_bytes;
  int spans, panels;
  int x_stride, rows;
  int squares_n, norm_n;
  float norm_eps;
  int y_at, y_stride, y_cols;
  int bias_at;
  int mode, activation;
  float scale, cap;
  int gated;
} TileParameters;

// The epilogue of a block of rows that CLBlast multiplied (dense.cl).
typedef struct DenseParameters {
  int row0, sums_stride;
  int squares_n, norm_n;
  float norm_eps;
  int y_at, y_stride, y_cols;
  int bias_at;
  int mode, activation;
  float scale, cap;
  int gated;
} DenseParameters;

// norm_rms and norm_layer (rows.cl).
typedef struct NormParameters {
  int x_at, x_stride;
  int w_at, b_at;  // in `vectors`; b_at -1: none
  int stored, n;   // floats of a row, and those of them that count
  float eps;
  int out_at, out_stride;
  int add;
  float scale;
  int next_squares_n, next_at;  // next_at -1: the result is not spread
} NormParameters;

// Heads of q, k and v in a row of `qkv`, head_pad floats apart, and their pages (pages.cl).
typedef struct HeadParameters {
  ulong page_bytes;  // of one layer's keys or values
  int stride, head_dim, head_pad, heads, kv_heads;
  int keys_wait;  // finish_head: keys go back to `qkv`
} HeadParameters;

// Bias, norm and rotation of heads (finish_value of pages.cl).
typedef struct FinishParameters {
  ulong sin_at;  // in the RoPE table, after the cosines
  ulong q_at;    // of the queries' table, after that of keys; 0: the same table
  int bias_at, q_norm_at, k_norm_at;  // in `vectors`; -1: none
  float eps;
  int pairs, neox;
} FinishParameters;

// Attention besides its heads (attention.cl).
typedef struct AttentionParameters {
  int window;
  float scale, cap;
  int out_at, out_stride;
  int sides, fresh;
  int sinks_at;
  int pack_int8;
} AttentionParameters;

// A gated delta net (delta.cl).
typedef struct DeltaParameters {
  ulong state_floats, layer_at;
  int m_stride, gate_stride, z_stride;
  int conv_at, norm_at, rate_at, bias_at;  // in `vectors`
  int row_floats;
  int heads, groups, neighbours;
  float eps;
  int out_stride;
  int pad;
} DeltaParameters;
