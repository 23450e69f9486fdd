// Inputs of tiles of r3-f16: the first warp of a group brings weights of PANELS_OF_TILE panels
// (two stages of 256 k) and 128 rows of x (X_STAGES stages of 64 k) by bulk copies, a little ahead
// of all WARPS warps. x: tiles of eight rows, of which a stage has 1,024 contiguous bytes.
#define W_STAGE (PANELS_OF_TILE * BLOCK_BYTES)
#define X_STAGE 16384
#define X_TILE 1024  // of eight rows and 64 k

typedef struct {
  ulong weights, panel_bytes, x, tile_bytes;
  int chunk, chunks;  // of 64 k: the next one to bring, and all
} Source;
typedef struct {
  uint weights, x, bars;  // local addresses
} LocalMemory;
uint bar_of_weights(const LocalMemory* p, int stage) {
  return p->bars + stage * 16;
}
uint bar_of_x(const LocalMemory* p, int stage) {
  return p->bars + 32 + stage * 16;
}

// The first warp brings the next 64 k of x, and 256 k of weights where they begin: lane i copies
// part i. A stage has a barrier of arrival and, 8 bytes on, one of release.
void bring(const LocalMemory* p, Source* s, int lane) {
  const int chunk = s->chunk++, block = chunk / 4, at = block % 2, slot = chunk % X_STAGES;
  if (chunk >= s->chunks) return;
  if (chunk % 4 == 0) {
    const uint bar = bar_of_weights(p, at);
    if (block >= 2) mbarrier_wait(bar + 8, (block / 2 - 1) & 1);
    if (lane == 0) mbarrier_expect(bar, W_STAGE);
    sync_warp();
    if (lane < PANELS_OF_TILE) {
      bulk_copy_part(p->weights + at * W_STAGE + lane * BLOCK_BYTES,
                     s->weights + lane * s->panel_bytes + (ulong)block * BLOCK_BYTES, BLOCK_BYTES,
                     bar);
    }
  }
  const uint bar = bar_of_x(p, slot);
  if (chunk >= X_STAGES) mbarrier_wait(bar + 8, (chunk / X_STAGES - 1) & 1);
  if (lane == 0) mbarrier_expect(bar, X_STAGE);
  sync_warp();
  if (lane < 16) {
    bulk_copy_part(p->x + slot * X_STAGE + lane * X_TILE,
                   s->x + lane * s->tile_bytes + (ulong)chunk * X_TILE, X_TILE, bar);
  }
}

void start_bars(const LocalMemory* p) {
  for (int i = 0; i < 2 + X_STAGES; ++i) {
    mbarrier_start(p->bars + i * 16);
    mbarrier_start_of(p->bars + i * 16 + 8, WARPS);
  }
  mbarriers_started();
}
