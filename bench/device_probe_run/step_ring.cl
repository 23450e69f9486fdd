// A decode step as one kernel: its shape, its phases, and the ring that brings their weights.
//
// A work-group has TEAMS teams of 128 items. Panel p of a product belongs to group p mod groups;
// a group's panels are dealt out to its teams in turn. A team's weights are one stream of stages
// (CHUNK blocks each) over all phases of the launch, so its ring goes on filling while the groups
// meet: weights depend on no phase.
#pragma OPENCL FP_CONTRACT OFF

#define TEAM_ITEMS 128
#define GROUP_ITEMS (TEAMS * TEAM_ITEMS)
#define HEAD_DIM 128
#define PAGE_TOKENS 64
#define SPLIT_TOKENS 512
#define PAGE_BYTES (HEAD_DIM * PAGE_TOKENS * 2)  // of a head's keys or values
#define BLOCK_BYTES 2368
#define STAGE_BYTES (CHUNK * BLOCK_BYTES)
#define RECORD_BYTES 48  // that products read of a panel of an int8 row

#define KV_WIDTH (KV_HEADS * HEAD_DIM)
#define QKV_WIDTH (WIDTH + 2 * KV_WIDTH)
#define ROW_BYTES ((ulong)(WIDTH / 256) * BLOCK_BYTES)
#define FF_BYTES ((ulong)(FF / 256) * BLOCK_BYTES)
#define OUT_AT (QKV_WIDTH / 16 * ROW_BYTES)
#define GATE_AT (OUT_AT + WIDTH / 16 * ROW_BYTES)
#define UP_AT (GATE_AT + FF / 16 * ROW_BYTES)
#define DOWN_AT (UP_AT + FF / 16 * ROW_BYTES)
#define LAYER_BYTES (DOWN_AT + WIDTH / 16 * FF_BYTES)
#define LOGITS_AT (LAYERS * LAYER_BYTES)

// Where `state` has what, in words.
#define X_AT 0
#define ROW_AT (X_AT + WIDTH)
#define SQUARES_AT (ROW_AT + WIDTH)
#define QKV_AT (SQUARES_AT + WIDTH / 16)
#define MIXED_AT (QKV_AT + QKV_WIDTH)
#define FF_AT (MIXED_AT + WIDTH)
#define LOGIT_AT (FF_AT + FF)
#define TOKENS_AT (LOGIT_AT + VOCAB)
#define BEST_AT (TOKENS_AT + 1024)

// Phases of a token: EMBED, then five for each layer, then LOGITS.
#define QKV 0
#define ATTENTION 1
#define OUT 2
#define GATE_UP 3
#define DOWN 4
#define LOGITS 5
#define EMBED 6
#define PHASES (2 + 5 * LAYERS)

// Bits of `flags`: what a launch does.
#define PREFETCH 1
#define ATTEND 2
#define MULTIPLY 4
#define MEET 8

int kind_of(int phase) {
  const int at = phase % PHASES;
  return at == 0 ? EMBED : at == PHASES - 1 ? LOGITS : (at - 1) % 5;
}
int layer_of(int phase) {
  return (phase % PHASES - 1) / 5;
}
int panels_of(int kind) {
  return kind == QKV       ? QKV_WIDTH / 16
         : kind == GATE_UP ? FF / 16
         : kind == LOGITS  ? VOCAB / 16
                           : WIDTH / 16;
}
// Stages of a panel; with GATE_UP a stage has CHUNK / 2 blocks of each matrix, gate first.
int chunks_of(int kind) {
  return kind == EMBED || kind == ATTENTION ? 0
         : kind == GATE_UP                  ? 2 * (WIDTH / 256 / CHUNK)
                                            : (kind == DOWN ? FF : WIDTH) / 256 / CHUNK;
}
// The first of the group's panels that the team has; products of few panels begin with the last
// team, which has least to do in the others.
int first_slot(int kind, int team) {
  const int is_small = kind == OUT || kind == DOWN || kind == EMBED;
  return is_small ? (team + 1) % TEAMS : team;
}

// Which item this is.
typedef struct {
  int group, groups, team, item;  // item of the team
} Member;

// The next stage that a team's ring is to get: `left` stages of a panel from byte `source` on.
typedef struct {
  int phase, slot, left, is_pair;
  ulong source;
} Cursor;

// A team's ring, as the item that fills it has it.
typedef struct {
  Cursor next;
  int stage, free, end;  // stage that is filled next, free stages, the end of the launch's phases
  uint memory, bars;
} Ring;

ulong panel_at(int kind, int layer, ulong panel) {
  const ulong of_layer = (ulong)layer * LAYER_BYTES;
  if (kind == DOWN) return of_layer + DOWN_AT + panel * FF_BYTES;
  const ulong at = kind == LOGITS ? LOGITS_AT
                   : kind == QKV  ? of_layer
                   : kind == OUT  ? of_layer + OUT_AT
                                  : of_layer + GATE_AT;
  return at + panel * ROW_BYTES;
}
// Moves the cursor on to a panel that exists, from its slot on.
void settle(Cursor* c, int end, Member at) {
  int kind = kind_of(c->phase);
  while (c->phase < end) {
    if (chunks_of(kind) > 0 && c->slot * at.groups + at.group < panels_of(kind)) break;
    kind = kind_of(++c->phase);
    c->slot = first_slot(kind, at.team);
  }
  c->left = chunks_of(kind);
  c->is_pair = kind == GATE_UP;
  c->source = panel_at(kind, layer_of(c->phase), c->slot * at.groups + at.group);
}
// Fills free stages with what phases before `limit` read.
void refill(Ring* r, int limit, __global const uchar* weights, Member at) {
  const int before = min(limit, r->end);
#pragma unroll 1
  while (r->free > 0 && r->next.phase < before) {
    const uint to = r->memory + r->stage * STAGE_BYTES, bar = r->bars + r->stage * 8;
    const uint bytes = r->next.is_pair ? STAGE_BYTES / 2 : STAGE_BYTES;
    mbarrier_expect(bar, STAGE_BYTES);
    bulk_copy_part(to, (ulong)(weights + r->next.source), bytes, bar);
    if (r->next.is_pair) {
      bulk_copy_part(to + bytes, (ulong)(weights + r->next.source + (UP_AT - GATE_AT)), bytes, bar);
    }
    --r->free;
    r->stage = r->stage + 1 == STAGES ? 0 : r->stage + 1;
    r->next.source += bytes;
    if (--r->next.left > 0) continue;
    r->next.slot += TEAMS;
    settle(&r->next, r->end, at);
  }
}

// Where all groups meet; all must be resident. words: arrivals, abort. After two seconds the
// launch is given up: the result is false, for all items of all groups.
int meet_groups(__global uint* words, uint target, __local int* stop, int item) {
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    arrive_release(words);
    const ulong start = nanoseconds();
    for (uint polls = 1; load_acquire(words) < target; ++polls) {
      if (polls % 256 != 0) continue;
      const int over = nanoseconds() - start > 2000000000ul;
      if (over) arrive_release(words + 1);
      if (over || load_acquire(words + 1) != 0) {
        *stop = 1;
        break;
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return *stop == 0;
}
