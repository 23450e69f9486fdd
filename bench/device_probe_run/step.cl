// A decode step of a model as one kernel whose phases are separated by barriers of all groups; or a
// part of it, launch by launch. Products have the bits of product.cl's one_1 and pair_1.

#if CHUNK % 2 != 0 || WIDTH / 256 / CHUNK < 2
#error "a panel must have two stages at least, of an even number of blocks (multiply)"
#endif

// The group's local memory: records of the present row (of FF values at most), which attention
// shares, and each team's ring.
#define PAGES_AT (WIDTH / 16 * RECORD_BYTES)
#define FF_RECORDS (FF / 16 * RECORD_BYTES)
#define PAGES_END (PAGES_AT + 2 * PAGE_BYTES)
#define RECORDS_END (FF_RECORDS > PAGES_END ? FF_RECORDS : PAGES_END)
#define RINGS_AT ((RECORDS_END + 127) / 128 * 128)
#define LOCAL_BYTES (RINGS_AT + TEAMS * STAGES * STAGE_BYTES)

// sum + the products of the item's span of a block; records: of the span's two panels. Items of odd
// slices take words in another order (no two items of 32 then meet in a bank of local memory), as
// the row's panels do (put_int8).
float add_block(float sum, __local const uchar* block, __local const uchar* records, int slice,
                int lane) {
  __local const uint* words = (__local const uint*)(block + 320) + slice * 64 + lane;
  const float d = vload_half(lane, (__local const half*)block);
  const float least = vload_half(16 + lane, (__local const half*)block);
  const float a = d * (float)block[64 + slice * 16 + lane];
  const float b = -(least * (float)block[192 + slice * 16 + lane]);
  const int odd = slice & 1;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    __local const uint4* panel = (__local const uint4*)(records + h * RECORD_BYTES);
    const uint4 high = panel[0], low = panel[1];
    const float2 f = *(__local const float2*)(panel + 2);
    const uint first = words[(2 * h + odd) * 16], second = words[(2 * h + 1 - odd) * 16];
    const uint w0 = first & 0x0f0f0f0fu, w1 = first >> 4 & 0x0f0f0f0fu;
    const uint w2 = second & 0x0f0f0f0fu, w3 = second >> 4 & 0x0f0f0f0fu;
    int both = dot_4(w0, high.x, dot_4(w1, high.y, dot_4(w2, high.z, dot_4(w3, high.w, 0))));
    both = dot_4(w0, low.x, dot_4(w1, low.y, dot_4(w2, low.z, dot_4(w3, low.w, both * 128))));
    sum = fma(a, (float)both * f.x, sum);
    sum = fma(b, f.y, sum);
  }
  return sum;
}

// A team's position in the stream: the stage that comes next, and its parity.
typedef struct {
  int stage, parity;
} Reader;

// Adds a stage to the item's chains; `records` of its first block. With a pair, two blocks have the
// same records.
void add_stage(int is_pair, __local const uchar* block, __local const uchar* records, int slice,
               int lane, float* sum, float* second) {
  if (!is_pair) {
#pragma unroll
    for (int j = 0; j < CHUNK; ++j) {
      *sum = add_block(*sum, block + j * BLOCK_BYTES, records + j * 16 * RECORD_BYTES, slice, lane);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < CHUNK / 2; ++j) {
    __local const uchar* mine = records + j * 16 * RECORD_BYTES;
    *sum = add_block(*sum, block + j * BLOCK_BYTES, mine, slice, lane);
    *second = add_block(*second, block + (CHUNK / 2 + j) * BLOCK_BYTES, mine, slice, lane);
  }
}

// The item's chains over a panel, or a pair's two, into `part`; the team's first item fills the
// ring on behind them.
void multiply_panel(int kind, __local const uchar* local_memory, __local float* part,
                    Reader* reader, Ring* ring, int limit, __global const uchar* weights,
                    Member at) {
  const int lane = at.item & 15, slice = at.item >> 4, chunks = chunks_of(kind);
  const int is_pair = kind == GATE_UP, advance = (is_pair ? CHUNK / 2 : CHUNK) * 16 * RECORD_BYTES;
  __local const uchar* rings = local_memory + RINGS_AT + at.team * STAGES * STAGE_BYTES;
  __local const uchar* records = local_memory + slice * 2 * RECORD_BYTES;
  float sum = 0.0f, second = 0.0f;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    mbarrier_wait(ring->bars + reader->stage * 8, reader->parity);
    add_stage(is_pair, rings + reader->stage * STAGE_BYTES, records, slice, lane, &sum, &second);
    records += advance;
    if (chunk == chunks - 1) part[at.item] = sum;
    if (chunk == chunks - 1 && is_pair) part[TEAM_ITEMS + at.item] = second;
    sync_team(at.team);
    if (at.item == 0) {
      ++ring->free;
      refill(ring, limit, weights, at);
    }
    reader->stage = reader->stage + 1 == STAGES ? 0 : reader->stage + 1;
    reader->parity ^= reader->stage == 0;
  }
}

// The sums of all slices.
float sum_slices(__local const float* p) {
  return ((p[0] + p[64]) + (p[32] + p[96])) + ((p[16] + p[80]) + (p[48] + p[112]));
}

typedef struct {
  float value;
  int index;
} Best;

// Stores a panel's outputs, by the 32 first items of a team.
void end_panel(int kind, int panel, float factor, __local const float* part,
               __global const float* norm, __global float* state, Best* best, Member at) {
  const int lane = at.item & 15, live = at.item < 16;
  const float v = sum_slices(part + lane) * factor;
  if (kind == QKV) {
    if (live) state[QKV_AT + panel * 16 + lane] = v;
  } else if (kind == GATE_UP) {
    const float up = sum_slices(part + TEAM_ITEMS + lane) * factor;
    put_int8(silu_of(v) * up, live, panel, lane, state + FF_AT);
  } else if (kind == LOGITS) {
    const int index = panel * 16 + lane;
    if (live) state[LOGIT_AT + index] = v;
    best->index = v > best->value ? index : best->index;
    best->value = v > best->value ? v : best->value;
  } else {
    const float x = fma(v, 1.0f, load_new(state + X_AT + panel * 16 + lane));
    put_residual(x, live, panel, lane, norm, state);
  }
}

// Copies the row that a product reads into local memory.
void copy_records(int kind, __global const float* state, __local uchar* records, int item) {
  const int at = kind == OUT ? MIXED_AT : kind == DOWN ? FF_AT : ROW_AT;
  const uint quads = (kind == DOWN ? FF : WIDTH) / 16 * 3;
  __global const uchar* row = (__global const uchar*)(state + at);
  for (uint i = item; i < quads; i += GROUP_ITEMS) {
    copy_16(local_address(records + i * 16), row + i / 3 * 64 + i % 3 * 16);
  }
  close_copies();
}

// A phase that is a product. part: a panel's sums of two products, for the team; items write them
// after they met in an earlier stage of the panel, when the last panel's are no longer read.
void multiply(int phase, __local uchar* local_memory, __local float* part, Reader* reader,
              Ring* ring, int limit, __global const uchar* weights, __global const float* norms,
              __global float* state, Member at) {
  const int kind = kind_of(phase), layer = layer_of(phase);
  const int normed = kind != OUT && kind != DOWN;
  __global const float* norm =
      norms + (kind == OUT ? 2 * layer + 1 : 2 * layer + 2) * WIDTH;  // the next one's
  copy_records(kind, state, local_memory, at.team * TEAM_ITEMS + at.item);
  float factor = 1.0f;
  if (normed && at.item < 32) factor = factor_of_norm(state, at.item & 15);
  WAIT_COPIES(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  Best best = {-INFINITY, VOCAB};
#pragma unroll 1
  for (int slot = first_slot(kind, at.team); slot * at.groups + at.group < panels_of(kind);
       slot += TEAMS) {
    multiply_panel(kind, local_memory, part, reader, ring, limit, weights, at);
    if (at.item < 32) {
      end_panel(kind, slot * at.groups + at.group, factor, part, norm, state, &best, at);
    }
  }
  if (kind == LOGITS && at.item < 32) {
    greatest_of_32(&best.value, &best.index);
    __global float* to = state + BEST_AT + (at.team * at.groups + at.group) * 2;
    if (at.item == 0) to[0] = best.value;
    if (at.item == 0) ((__global int*)to)[1] = best.index;
  }
}

// The group's query head, or -1.
int head_of(Member at) {
  const int each = at.groups / HEADS, head = at.group / each;
  return at.group % each == 0 && head < HEADS ? head : -1;
}

// The team's empty ring. `rings` and `bars` have those of all teams.
Ring ring_of(Member at, int from, int end, __local uchar* rings, __local ulong* bars) {
  Ring ring = {{from, first_slot(kind_of(from), at.team), 0, 0, 0}, 0, STAGES, end,
               local_address(rings + at.team * STAGES * STAGE_BYTES),
               local_address(bars + at.team * STAGES)};
  if (at.item == 0) settle(&ring.next, end, at);
  return ring;
}
// Waits for copies that are under way, which must end before the group's local memory is another's.
void drain(Ring* ring, Reader* reader) {
  for (; ring->free < STAGES; ++ring->free) {
    mbarrier_wait(ring->bars + reader->stage * 8, reader->parity);
    reader->stage = reader->stage + 1 == STAGES ? 0 : reader->stage + 1;
    reader->parity ^= reader->stage == 0;
  }
}

// Runs phases [from, to). `position` is that of token 0. words: arrivals, abort; of group 0, at 6,
// nanoseconds and cycles of the launch; from 8 on, cycles of each kind of phase, with the meeting.
__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void step(
    __global const uchar* weights, __global const float* norms, __global const float* rope,
    __global uchar* key_pages, __global uchar* value_pages, __global float* state,
    __global uint* words, int from, int to, int position, int flags) {
  __local uchar local_memory[LOCAL_BYTES] __attribute__((aligned(128)));
  __local ulong bars[TEAMS * STAGES];
  __local float parts[TEAMS * 2 * TEAM_ITEMS], head_memory[HEAD_DIM + 2 * PAGE_TOKENS];
  __local int stop;
  __local uint spent[8];
  const int item = get_local_id(0);
  const Member at = {get_group_id(0), get_num_groups(0), item / TEAM_ITEMS, item % TEAM_ITEMS};
  if (item < TEAMS * STAGES) mbarrier_start(local_address(bars + item));
  if (item == 0) stop = 0;
  if (item < 8) spent[item] = 0;
  const ulong began = nanoseconds();
  const uint first_cycle = cycles();
  uint last_cycle = first_cycle;
  mbarriers_started();
  barrier(CLK_LOCAL_MEM_FENCE);
  const int end = (flags & MULTIPLY) != 0 ? to : from;
  Ring ring = ring_of(at, from, end, local_memory + RINGS_AT, bars);
  Reader reader = {0, 0};
  const int head = at.team == 0 && (flags & ATTEND) != 0 ? head_of(at) : -1;
  int begun = 0, good = 1;
  uint target = 0;
#pragma unroll 1
  for (int phase = from; phase < to && good; ++phase) {
    const int kind = kind_of(phase), layer = layer_of(phase);
    const int limit = (flags & PREFETCH) != 0 ? to : phase + 1;
    if (at.item == 0) refill(&ring, limit, weights, at);
    const Head h = {pages_of(key_pages, layer, max(head, 0)),
                    pages_of(value_pages, layer, max(head, 0)),
                    local_memory + PAGES_AT,
                    local_memory + PAGES_AT + PAGE_BYTES,
                    head_memory,
                    head_memory + HEAD_DIM};
    if (kind == EMBED) {
      if (at.item < 32) embed(weights, norms, state, phase / PHASES, at);
    } else if (kind == ATTENTION) {
      if (head >= 0 && !begun) begin_attention(h, at.item);
      if (head >= 0) attend(h, head, position + phase / PHASES, rope, state, at.team, at.item);
      begun = 0;
    } else if ((flags & MULTIPLY) != 0) {
      multiply(phase, local_memory, parts + at.team * (2 * TEAM_ITEMS), &reader, &ring, limit,
               weights, norms, state, at);
      if (kind == QKV && head >= 0 && phase + 1 < to && (flags & PREFETCH) != 0) {
        begin_attention(h, at.item);
        begun = 1;
      }
    }
    if ((flags & MEET) != 0 && phase + 1 < to) {
      target += at.groups;
      good = meet_groups(words, target, &stop, item);
    }
    if (item == 0) {
      const uint now = cycles();
      spent[kind] += now - last_cycle;
      last_cycle = now;
    }
  }
  if (item == 0 && at.group == 0) {
    words[6] = (uint)(nanoseconds() - began);
    words[7] = last_cycle - first_cycle;
    for (int i = 0; i < 7; ++i) words[8 + i] = spent[i];
  }
  if (at.item == 0) drain(&ring, &reader);
}

// Random weights in words [0, n): d about 2.5e-4, dmin about 2e-3, scales and minima below 64.
__kernel void fill_weights(__global uint* weights, ulong n) {
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint at = (uint)(i % (BLOCK_BYTES / 4));
    uint h = (uint)i * 2654435761u + (uint)(i >> 32);
    h = (h ^ h >> 15) * 2246822519u;
    h = (h ^ h >> 13) * 3266489917u;
    h ^= h >> 16;
    weights[i] = at < 8     ? 0x0a800a80u + (h & 0x007f007fu)
                 : at < 16  ? 0x16201620u + (h & 0x007f007fu)
                 : at < 80  ? h & 0x3f3f3f3fu
                            : h;
  }
}
