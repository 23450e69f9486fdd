// A head of a gated delta net over the tokens of one segment, one after the other, as on the CPU
// (worker/backend/cpu/delta.inc) except for the order of sums over a head. An item has a column of
// the state: KEYS numbers that it holds from token to token. One work-group a head and segment. The
// program defines KEYS, VALUES, TAPS and DELTA_ITEMS (a power of two, at least VALUES).

#define STATE_STRIDE ((VALUES + 15) / 16 * 16)
#define MIXED (2 * KEYS + VALUES)

// ln(1 + t) of t in [0, 1]: 2 artanh(t / (t + 2)).
float log1p_of(float t) {
  const float s = t / (t + 2.0f);
  const float q = s * s;
  float p = 1.0f / 17.0f;
  for (int n = 15; n > 0; n -= 2) p = fma(p, q, 1.0f / (float)n);
  return s * 2.0f * p;
}
float softplus_of(float x) {
  return x != x ? x : fmax(x, 0.0f) + log1p_of(exp_of(-fabs(x)));
}

// A segment, as plan_states() of states.cpp writes it.
typedef struct {
  int first;   // row of the batch
  int tokens;
  int fresh;   // the state begins anew
  int from;    // state that it continues, and which half of it has the rows
  int from_second;
  int state;
  int state_second;
  int snapshot_after;    // tokens after which a state snapshot is taken, 0: none
  int snapshot_state;
  int pad;
} Run;

// Row `t` of the convolution's input; 0 where there was none.
__global const float* row_of(__global const float* m, int stride, __global const float* before,
                             int row_floats, Run run, int t) {
  if (t >= 0) return m + (long)(run.first + t) * stride;
  return run.fresh ? 0 : before + (t + TAPS - 1) * row_floats;
}

// Columns of the head: its query, its key, its value.
int column_of(int i, int head, int group, int groups) {
  return i < KEYS       ? group * KEYS + i
         : i < 2 * KEYS ? (groups + group) * KEYS + i - KEYS
                        : 2 * groups * KEYS + head * VALUES + i - 2 * KEYS;
}

// Saves the rows that come before token `end`, for the next segment.
void save_conv_state(__global const float* m, int stride, __global const float* before, int row_floats,
               Run run, int end, __global float* to, int head, int group, int groups, int keys_too,
               int item) {
  for (int i = item + (keys_too ? 0 : 2 * KEYS); i < MIXED; i += DELTA_ITEMS) {
    const int c = column_of(i, head, group, groups);
    for (int j = 0; j < TAPS - 1; ++j) {
      __global const float* row = row_of(m, stride, before, row_floats, run, end + j - (TAPS - 1));
      to[j * row_floats + c] = row != 0 ? row[c] : 0.0f;
    }
  }
}

__kernel __attribute__((reqd_work_group_size(DELTA_ITEMS, 1, 1))) void delta(
    __global const float* m, __global const float* gates, __global const float* z,
    __global const float* vectors, __global float* states, __global const Run* runs,
    __global float* out, const DeltaParameters p) {
  __local float x[MIXED];
  __local float part[DELTA_ITEMS];
  const int item = get_local_id(0), head = get_group_id(0);
  const Run run = runs[get_group_id(1)];
  const int shared = p.heads / p.groups, hp = (p.heads + 15) / 16 * 16;
  const int group = p.neighbours ? head / shared : head % p.groups;
  const int keys_too = p.neighbours ? head % shared == 0 : head < p.groups;
  const int beta_at = p.neighbours ? group * 2 * shared + head % shared : head;
  const int alpha_at = beta_at + (p.neighbours ? shared : hp);
  const int rows = (TAPS - 1) * p.row_floats;
  const ulong matrix_at = p.layer_at + 2 * rows + (ulong)head * KEYS * STATE_STRIDE;
  __global const float* before =
      states + run.from * p.state_floats + p.layer_at + (run.from_second ? rows : 0);
  const int mine = item < VALUES;
  float s[KEYS];
  for (int i = 0; i < KEYS; ++i) {
    s[i] = run.fresh || !mine
               ? 0.0f
               : states[run.from * p.state_floats + matrix_at + i * STATE_STRIDE + item];
  }
  for (int t = 0; t < run.tokens; ++t) {
    for (int i = item; i < MIXED; i += DELTA_ITEMS) {
      const int c = column_of(i, head, group, p.groups);
      float sum = 0.0f;
      for (int j = 0; j < TAPS; ++j) {
        __global const float* row =
            row_of(m, p.m_stride, before, p.row_floats, run, t + j - (TAPS - 1));
        if (row != 0) sum = fma(row[c], vectors[p.conv_at + c * TAPS + j], sum);
      }
      x[i] = silu_of(sum);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float q2 = 0.0f, k2 = 0.0f;
    for (int i = item; i < KEYS; i += DELTA_ITEMS) {
      q2 = fma(x[i], x[i], q2);
      k2 = fma(x[KEYS + i], x[KEYS + i], k2);
    }
    const float q_by = 1.0f / sqrt((float)KEYS) / sqrt(group_sum(q2, part, item, DELTA_ITEMS) + 1e-6f);
    const float k_by = 1.0f / sqrt(group_sum(k2, part, item, DELTA_ITEMS) + 1e-6f);
    const long row = run.first + t;
    const float beta = 1.0f / (1.0f + exp_of(-gates[row * p.gate_stride + beta_at]));
    const float time =
        softplus_of(gates[row * p.gate_stride + alpha_at] + vectors[p.bias_at + head]);
    const float decay = exp_of(time * vectors[p.rate_at + head]);
    float kv_mem = 0.0f, y = 0.0f;
    for (int i = 0; i < KEYS; ++i) kv_mem = fma(s[i], x[KEYS + i] * k_by, kv_mem);
    const float v = mine ? x[2 * KEYS + (mine ? item : 0)] : 0.0f;
    const float d = (v - decay * kv_mem) * beta;
    for (int i = 0; i < KEYS; ++i) {
      s[i] = fma(d, x[KEYS + i] * k_by, s[i] * decay);
      y = fma(s[i], x[i] * q_by, y);
    }
    if (!mine) y = 0.0f;
    const float mean = group_sum(y * y, part, item, DELTA_ITEMS) / (float)VALUES;
    if (mine) {
      const int c = head * VALUES + item;
      out[row * p.out_stride + c] = y * (1.0f / sqrt(mean + p.eps)) * vectors[p.norm_at + item] *
                                  silu_of(z[row * p.z_stride + c]);
    }
    if (t + 1 != run.snapshot_after) continue;  // the same for all items
    __global float* snapshot = states + run.snapshot_state * p.state_floats;
    for (int i = 0; i < KEYS && mine; ++i) snapshot[matrix_at + i * STATE_STRIDE + item] = s[i];
    save_conv_state(m, p.m_stride, before, p.row_floats, run, t + 1, snapshot + p.layer_at, head,
                    group, p.groups, keys_too, item);
  }
  __global float* to = states + run.state * p.state_floats;
  for (int i = 0; i < KEYS && mine; ++i) to[matrix_at + i * STATE_STRIDE + item] = s[i];
  save_conv_state(m, p.m_stride, before, p.row_floats, run, run.tokens,
                  to + p.layer_at + (run.state_second ? rows : 0), head, group, p.groups, keys_too,
                  item);
}

// a = a sigmoid(z); heads are head_pad floats apart in z.
__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1))) void gate_heads(
    __global float* a, int a_stride, __global const float* z, int z_stride, int head_dim,
    int head_pad, int n) {
  const long row = get_group_id(0);
  for (int i = get_local_id(0); i < n; i += NORM_ITEMS) {
    const float gate = z[row * z_stride + i / head_dim * head_pad + i % head_dim];
    a[row * a_stride + i] = a[row * a_stride + i] / (1.0f + exp_of(-gate));
  }
}
