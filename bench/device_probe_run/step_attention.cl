// The phase ATTENTION of a step: a query head by one team, in the order of attention.cl (splits of
// 512 positions, page by page). A page of keys and one of values lie in local memory; the first
// come before the groups meet, for no phase of this token writes what is read of them.

// Starts the copy of a head's page. All 128 items call.
void copy_page(__global const uchar* page, __local uchar* to, int item) {
  for (int i = item; i < PAGE_BYTES / 16; i += TEAM_ITEMS) {
    copy_16(local_address(to + i * 16), page + i * 16);
  }
  close_copies();
}

typedef struct {
  __global uchar *keys, *values;  // of the head, page 0
  __local uchar *key_page, *value_page;
  __local float* q;        // HEAD_DIM
  __local float* weights;  // PAGE_TOKENS, then the scores
} Head;

#define PAGE_STEP ((ulong)KV_HEADS * PAGE_BYTES)

__global uchar* pages_of(__global uchar* pages, int layer, int head) {
  return pages + (ulong)layer * PAGES * PAGE_STEP + (ulong)(head / (HEADS / KV_HEADS)) * PAGE_BYTES;
}
void begin_attention(Head h, int item) {
  copy_page(h.keys, h.key_page, item);
  copy_page(h.values, h.value_page, item);
}

// Half of a rotation: item i has dimension i of a head.
float rotated(float v, __global const float* rope, int position, int item) {
  const float c = rope[(position * 2) * (HEAD_DIM / 2) + item / 2];
  const float s = rope[(position * 2 + 1) * (HEAD_DIM / 2) + item / 2];
  const float other = exchange(v, 1);
  return item % 2 == 0 ? fma(v, c, -(other * s)) : fma(other, s, v * c);
}

// The score of a token of the page: a chain over the head's dimensions.
float score_of(Head h, int token) {
  __local const half* keys = (__local const half*)h.key_page;
  float score = 0.0f;
#pragma unroll 16
  for (int d = 0; d < HEAD_DIM; ++d) {
    score = fma(vload_half(d * PAGE_TOKENS + token, keys), h.q[d], score);
  }
  return score * 0.088388347648f;
}

// One page of the online softmax; `tokens` of it are visible. Item i has dimension i of `o`.
float attend_page(Head h, int tokens, int more, ulong next, float* l, float* m, float o, int team,
                  int item) {
  __local float* scores = h.weights + PAGE_TOKENS;
  const int lane = item % 32;
  if (item < PAGE_TOKENS) scores[item] = item < tokens ? score_of(h, item) : -INFINITY;
  sync_team(team);
  if (more) copy_page(h.keys + next, h.key_page, item);
  if (!more) close_copies();
  float top = fmax(scores[lane], scores[lane + 32]);
  for (int bit = 16; bit > 0; bit /= 2) top = fmax(top, exchange(top, bit));
  const float base = *m > top ? *m : top;
  if (item < PAGE_TOKENS) {
    h.weights[item] = item < tokens ? exp_of(scores[item] - base) : 0.0f;
  }
  WAIT_COPIES(1);
  sync_team(team);
  float sum = h.weights[lane] + h.weights[lane + 32];
  for (int bit = 16; bit > 0; bit /= 2) sum = sum + exchange(sum, bit);
  const float shrink = exp_of(*m - base);
  *l = fma(*l, shrink, sum);
  *m = base;
  __local const half* values = (__local const half*)h.value_page;
  o = o * shrink;
#pragma unroll 8
  for (int t = 0; t < tokens; ++t) {
    o = fma(vload_half(t * HEAD_DIM + item, values), h.weights[t], o);
  }
  sync_team(team);
  if (more) copy_page(h.values + next, h.value_page, item);
  if (!more) close_copies();
  return o;
}

// Puts this token's key and value in their page, in local memory and, where `stores`, for all.
void put_fresh(Head h, float k, float v, int position, int stores, int item) {
  const int slot = position % PAGE_TOKENS;
  const int key_at = item * PAGE_TOKENS + slot, value_at = slot * HEAD_DIM + item;
  vstore_half_rte(k, key_at, (__local half*)h.key_page);
  vstore_half_rte(v, value_at, (__local half*)h.value_page);
  if (!stores) return;
  const ulong page = (ulong)(position / PAGE_TOKENS) * PAGE_STEP;
  vstore_half_rte(k, key_at, (__global half*)(h.keys + page));
  vstore_half_rte(v, value_at, (__global half*)(h.values + page));
}

// begin_attention() was called.
void attend(Head h, int head, int position, __global const float* rope, __global float* state,
            int team, int item) {
  const int share = HEADS / KV_HEADS;
  __global const float* qkv = state + QKV_AT;
  const float q = load_new(qkv + head * HEAD_DIM + item);
  const float key = load_new(qkv + WIDTH + head / share * HEAD_DIM + item);
  const float v = load_new(qkv + WIDTH + KV_WIDTH + head / share * HEAD_DIM + item);
  h.q[item] = rotated(q, rope, position, item);
  const float k = rotated(key, rope, position, item);
  float total = 0.0f, total_l = 0.0f, total_m = -INFINITY;
  float o = 0.0f, l = 0.0f, m = -INFINITY;
  for (int at = 0; at <= position; at += PAGE_TOKENS) {
    const int tokens = min(position + 1 - at, PAGE_TOKENS), more = at + PAGE_TOKENS <= position;
    if (more) {
      WAIT_COPIES(1);
    } else {
      WAIT_COPIES(0);
      sync_team(team);  // all parts of the page are there before the fresh ones
      put_fresh(h, k, v, position, head % share == 0, item);
    }
    sync_team(team);
    o = attend_page(h, tokens, more, (ulong)(at / PAGE_TOKENS + 1) * PAGE_STEP, &l, &m, o, team,
                    item);
    if (more && (at + PAGE_TOKENS) % SPLIT_TOKENS != 0) continue;
    const float base = total_m > m ? total_m : m;
    const float older = exp_of(total_m - base), newer = exp_of(m - base);
    total = fma(total, older, o * newer);
    total_l = fma(total_l, older, l * newer);
    total_m = base;
    o = l = 0.0f;
    m = -INFINITY;
  }
  put_int8(total / total_l, 1, head * (HEAD_DIM / 16) + item / 16, item % 16, state + MIXED_AT);
}
