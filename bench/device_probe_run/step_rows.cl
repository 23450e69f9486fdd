// Rows of a step: int8 panels, the residual with its squares, norms' factors, the greatest logit.
// Sixteen items have a panel's values; both halves of 32 items may have a panel each.

// e^x as the backend computes it (math.cl).
float exp_of(float x) {
  const float c = fmax(fmin(x, 89.0f), -110.0f);
  const float shifted = fma(c, 0x1.715476p0f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  float r = fma(n, -0x1.62e4p-1f, c);
  r = fma(n, -0x1.7f7d1cp-20f, r);
  float p = 0x1.a01a02p-13f;
  p = fma(p, r, 0x1.6c16c2p-10f);
  p = fma(p, r, 0x1.111112p-7f);
  p = fma(p, r, 0x1.555556p-5f);
  p = fma(p, r, 0x1.555556p-3f);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const int whole = as_int(shifted) - 0x4b400000;
  const int half_of = whole >> 1;
  const float first = as_float((half_of + 127) << 23);
  const float second = as_float((whole - half_of + 127) << 23);
  return x != x ? x : p * first * second;
}
float silu_of(float x) {
  return x / (1.0f + exp_of(-x));
}

// The sum of sixteen items' values by the tree of sum_16 (math.cl).
float sum_of_panel(float v) {
  for (int bit = 8; bit > 0; bit /= 2) v = v + exchange(v, bit);
  return v;
}

// Stores panel `panel` of an int8 row (int8_rows.cl) of which each of sixteen items has a value.
// In panels of odd spans the bytes of k 0 to 7 and of k 8 to 15 are exchanged, as products read
// them (add_block).
void put_int8(float v, int live, int panel, int lane, __global float* row) {
  float largest = fabs(v) <= FLT_MAX ? fabs(v) : INFINITY;
  for (int bit = 8; bit > 0; bit /= 2) largest = fmax(largest, exchange(largest, bit));
  const int finite = largest <= FLT_MAX, zeros = largest < 0x1p-100f;
  const float times = finite && !zeros ? 16256.0f / largest : 0.0f;
  const float one = !finite ? NAN : zeros ? 0.0f : largest / 16256.0f;
  const int code = times > 0.0f ? convert_int_rte(v * times) : 0;
  const int high = (code + 64) >> 7;
  int sum = code;
  for (int bit = 8; bit > 0; bit /= 2) sum += exchange_int(sum, bit);
  __global float* to = row + panel * 16;
  __global char* bytes = (__global char*)to + (lane ^ (panel >> 1 & 1) * 8);
  if (!live) return;
  bytes[0] = (char)high;
  bytes[16] = (char)(code - (high << 7));
  if (lane == 0) {
    to[8] = one;
    to[9] = (float)sum * one;
  }
}

// Stores a panel of the residual, its int8 row for the next norm, and its squares.
void put_residual(float v, int live, int panel, int lane, __global const float* norm,
                  __global float* state) {
  if (live) state[X_AT + panel * 16 + lane] = v;
  put_int8(v * norm[panel * 16 + lane], live, panel, lane, state + ROW_AT);
  const float square = sum_of_panel(v * v);
  if (live && lane == 0) state[SQUARES_AT + panel] = square;
}

// The factor of the residual's norm, by sixteen chains (norm_chain).
float factor_of_norm(__global const float* state, int lane) {
  __global const float* squares = state + SQUARES_AT + lane;
  float v[WIDTH / 256], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < WIDTH / 256; ++i) v[i] = load_new(squares + i * 16);
#pragma unroll
  for (int i = 0; i < WIDTH / 256; ++i) sum = sum + v[i];
  return 1.0f / sqrt(sum_of_panel(sum) / (float)WIDTH + 1e-5f);
}

// The greatest of 32 items' candidates, for all of them.
void greatest_of_32(float* value, int* index) {
  for (int bit = 16; bit > 0; bit /= 2) {
    const float other = exchange(*value, bit);
    const int at = exchange_int(*index, bit);
    const int better = other > *value || (other == *value && at < *index);
    *value = better ? other : *value;
    *index = better ? at : *index;
  }
}
// The token that the teams' candidates say. 32 items call.
int greatest_of_teams(__global const float* state, int teams, int item) {
  float value = -INFINITY;
  int index = VOCAB;
  for (int i = item; i < teams; i += 32) {
    const float other = load_new(state + BEST_AT + 2 * i);
    const int at = load_new_int(state + BEST_AT + 2 * i + 1);
    const int better = other > value || (other == value && at < index);
    value = better ? other : value;
    index = better ? at : index;
  }
  greatest_of_32(&value, &index);
  return min(max(index, 0), VOCAB - 1);
}

// Weight k of a panel's row `lane`.
float weight_of(__global const uchar* panel, int k, int lane) {
  __global const uchar* block = panel + k / 256 * BLOCK_BYTES;
  const int group = k % 256 / 32, unit = k % 256 / 8, i = k % 8;
  const uint code = block[320 + (unit * 16 + lane) * 4 + i % 4] >> (i / 4 * 4) & 15;
  const float d = vload_half(lane, (__global const half*)block);
  const float least = vload_half(16 + lane, (__global const half*)block);
  return fma((float)code, d * (float)block[64 + group * 16 + lane],
             -(least * (float)block[192 + group * 16 + lane]));
}

// The phase EMBED: 32 items of each team store the token's row.
void embed(__global const uchar* weights, __global const float* norm, __global float* state,
           int token_at, Member at) {
  const int lane = at.item & 15;
  int token = load_new_int(state + TOKENS_AT);
  if (token_at > 0) token = greatest_of_teams(state, at.groups * TEAMS, at.item);
  if (token_at > 0 && at.group == 0 && at.team == 0 && at.item == 0) {
    ((__global int*)state)[TOKENS_AT + token_at] = token;
  }
  __global const uchar* row = weights + LOGITS_AT + (ulong)(token / 16) * ROW_BYTES;
  for (int slot = first_slot(EMBED, at.team); slot * at.groups + at.group < WIDTH / 16;
       slot += TEAMS) {
    const int panel = slot * at.groups + at.group;
    const float v = weight_of(row, panel * 16 + lane, token % 16);
    put_residual(v, at.item < 16, panel, lane, norm, state);
  }
}
