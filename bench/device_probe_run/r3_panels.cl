// r3-f16 for large matrices. A group has a run of units (PANELS panels); each of its WARPS warps
// takes a unit at a time, over all k, through a ring of its own that runs on from unit to unit. One
// more warp brings segments of x into X_SLOTS slots that all warps read: RESIDENT, X_SLOTS is the
// number of segments and each is brought once; else they go round, and all warps keep step.
typedef struct {
  ulong weights, panel_bytes;
  int unit, last, block, blocks;
} Source;

// Fills a stage with the warp's next block, if one is left.
void fill_next(Source* s, uint to, uint bar, int lane) {
  if (s->unit >= s->last) return;
  if (lane == 0) {
    const ulong from =
        s->weights + (ulong)(s->unit * PANELS) * s->panel_bytes + (ulong)s->block * BLOCK_BYTES;
    fill_stage(to, bar, from, s->panel_bytes);
  }
  if (++s->block == s->blocks) {
    s->block = 0;
    s->unit += WARPS;
  }
}

void bring_x(uint to, uint full, uint empty, ulong x, ulong tile_bytes, int segments, int passes) {
#ifdef RESIDENT
  for (int i = 0; i < segments; ++i) fill_x(to + i * X_SEGMENT, full + i * 8, x, tile_bytes, i);
#else
  uint parity = 1;
  for (int i = 0, slot = 0, segment = 0; i < segments * passes; ++i) {
    if (i >= X_SLOTS) mbarrier_wait(empty + slot * 8, parity);
    fill_x(to + slot * X_SEGMENT, full + slot * 8, x, tile_bytes, segment);
    if (++segment == segments) segment = 0;
    if (++slot == X_SLOTS) {
      slot = 0;
      parity ^= 1;
    }
  }
#endif
}

__kernel __attribute__((reqd_work_group_size(32 * (WARPS + 1), 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int units, int segments,
    __global const uchar* x, ulong tile_bytes, __global float* y, int y_stride) {
  __local uchar xs[X_SLOTS * X_SEGMENT] __attribute__((aligned(128)));
  __local uchar rings[WARPS * STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  __local ulong bars[WARPS * STAGES + 2 * X_SLOTS];
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
  const int group = get_group_id(0), groups = get_num_groups(0);
  const int first = group * units / groups, last = (group + 1) * units / groups;
  const int passes = (last - first + WARPS - 1) / WARPS;
  const uint full = local_address(bars) + WARPS * STAGES * 8, empty = full + X_SLOTS * 8;
  const uint ring = local_address(rings) + warp * STAGES * STAGE_BYTES;
  const uint bar = local_address(bars) + warp * STAGES * 8, x_at = local_address(xs);
  Source source = {(ulong)weights + weights_at, panel_bytes, first + warp, last, 0, segments * 2};
  if (warp == WARPS) source.unit = last;
  if (lane == 0) {
    for (int i = 0; i < STAGES && warp < WARPS; ++i) mbarrier_start(bar + i * 8);
    for (int i = 0; i < X_SLOTS && warp == WARPS; ++i) {
      mbarrier_start(full + i * 8);
      mbarrier_start_of(empty + i * 8, WARPS);
    }
    mbarriers_started();
  }
  for (int i = 0; i < STAGES; ++i) fill_next(&source, ring + i * STAGE_BYTES, bar + i * 8, lane);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp == WARPS) {
    if (lane == 0) bring_x(x_at, full, empty, (ulong)x, tile_bytes, segments, passes);
    return;
  }
  int stage = 0, slot = 0;
  uint parity = 0, x_parity = 0;
  for (int unit = first + warp, pass = 0; pass < passes; ++pass, unit += WARPS) {
    float total[PANELS][COLUMNS][4];
    clear(total);
#pragma unroll 1
    for (int segment = 0; segment < segments; ++segment) {
      float sum[PANELS][COLUMNS][4];
      clear(sum);
#ifndef RING_ONLY
      mbarrier_wait(full + slot * 8, x_parity);
#endif
#pragma unroll 1
      for (int k = 0; k < 2 && unit < last; ++k) {
        mbarrier_wait(bar + stage * 8, parity);
        add_block(ring + stage * STAGE_BYTES, x_at + slot * X_SEGMENT + k * (X_TILE_SEGMENT / 2),
                  lane, sum);
        sync_warp();
        fill_next(&source, ring + stage * STAGE_BYTES, bar + stage * 8, lane);
        parity ^= ++stage == STAGES;
        if (stage == STAGES) stage = 0;
      }
#ifndef RESIDENT
      sync_warp();
      if (lane == 0) mbarrier_arrive(empty + slot * 8);
      x_parity ^= slot + 1 == X_SLOTS;
#endif
      if (++slot == X_SLOTS) slot = 0;
      for (int i = 0; i < PANELS * COLUMNS * 4; ++i) {
        const int p = i / 4 / COLUMNS, n = i / 4 % COLUMNS, j = i % 4;
        total[p][n][j] += sum[p][n][j];
      }
    }
    for (int i = 0; i < PANELS * COLUMNS && unit < last; ++i) {
      const float* const v = total[i / COLUMNS][i % COLUMNS];
      put_fragment(y, y_stride, unit * PANELS + i / COLUMNS, i % COLUMNS, lane,
                   (float4)(v[0], v[1], v[2], v[3]));
    }
  }
}
