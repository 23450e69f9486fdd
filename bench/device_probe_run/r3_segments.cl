// r3-f16 for small matrices. A group has a run of panels and SPAN segments of k, whose x lies in
// local memory for all of them; a warp takes every WARPS-th pair of panel and segment through a
// ring of its own; PANELS is 1. The sums of segments are added in rising order: at the end from
// local memory, or with SPLIT, where several groups share a panel's k, from scratch by the warp
// that comes last.
typedef struct {
  ulong weights, panel_bytes;  // of the group's first panel and segment
  int pair, pairs, half_at;
} Source;

void fill_next(Source* s, uint to, uint bar, int lane) {
  if (s->pair >= s->pairs) return;
  if (lane == 0) {
    const ulong from = s->weights + (ulong)(s->pair / SPAN) * s->panel_bytes +
                       (ulong)(s->pair % SPAN * 2 + s->half_at) * BLOCK_BYTES;
    fill_stage(to, bar, from, 0);
  }
  s->half_at ^= 1;
  if (s->half_at == 0) s->pair += WARPS;
}

#ifdef SPLIT
// Stores a segment's sums; the warp that stores a panel's last adds all and clears the counter.
void give_sums(__global float4* scratch, __global uint* counters, int panel, int segment,
               int segments, int lane, float (*sum)[4], __global float* y, int y_stride) {
  __global float4* const all = scratch + (ulong)panel * segments * COLUMNS * 32 + lane;
  for (int n = 0; n < COLUMNS; ++n) {
    all[(segment * COLUMNS + n) * 32] = (float4)(sum[n][0], sum[n][1], sum[n][2], sum[n][3]);
  }
  uint before = 0;
  sync_warp();
  if (lane == 0) before = arrive_at(counters + panel);
  if (of_first_lane(before) + 1 != (uint)segments) return;
  float4 total[COLUMNS];
  for (int n = 0; n < COLUMNS; ++n) total[n] = (float4)(0.0f);
#pragma unroll 4
  for (int i = 0; i < segments; ++i) {
    for (int n = 0; n < COLUMNS; ++n) {
      total[n] += load_shared_by_groups(all + (i * COLUMNS + n) * 32);
    }
  }
  for (int n = 0; n < COLUMNS; ++n) put_fragment(y, y_stride, panel, n, lane, total[n]);
  if (lane == 0) counters[panel] = 0;
}
#endif

// Starts the barriers of a warp and its share of x, and its first copies.
void start_warp(Source* source, uint ring, uint bar, uint x_at, uint x_bar, ulong x,
                ulong tile_bytes, int warp, int lane) {
  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) mbarrier_start(bar + i * 8);
    for (int s = warp; s < SPAN; s += WARPS) mbarrier_start(x_bar + s * 8);
    mbarriers_started();
    for (int s = warp; s < SPAN; s += WARPS) {
      fill_x(x_at + s * X_SEGMENT, x_bar + s * 8, x, tile_bytes, get_group_id(1) * SPAN + s);
    }
  }
  for (int i = 0; i < STAGES; ++i) fill_next(source, ring + i * STAGE_BYTES, bar + i * 8, lane);
}

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void product(
    __global const uchar* weights, ulong weights_at, ulong panel_bytes, int panels,
    __global const uchar* x, ulong tile_bytes, __global float* y, int y_stride,
    __global float4* scratch, __global uint* counters) {
  __local uchar xs[SPAN * X_SEGMENT] __attribute__((aligned(128)));
  __local uchar rings[WARPS * STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  __local ulong bars[WARPS * STAGES + SPAN];
  const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
  const int group = get_group_id(0), groups = get_num_groups(0), span_at = get_group_id(1) * SPAN;
  const int first = group * panels / groups, last = (group + 1) * panels / groups;
  const uint ring = local_address(rings) + warp * STAGES * STAGE_BYTES, x_at = local_address(xs);
  const uint bar = local_address(bars) + warp * STAGES * 8;
  const uint x_bar = local_address(bars) + WARPS * STAGES * 8;
  Source source = {(ulong)weights + weights_at + (ulong)first * panel_bytes +
                       (ulong)span_at * 2 * BLOCK_BYTES,
                   panel_bytes, warp, (last - first) * SPAN, 0};
#ifndef SPLIT
  __local float4 parts[PANELS_MOST * SPAN * COLUMNS * 32];
#endif
  start_warp(&source, ring, bar, x_at, x_bar, (ulong)x, tile_bytes, warp, lane);
  barrier(CLK_LOCAL_MEM_FENCE);
  int stage = 0;
  uint parity = 0;
#pragma unroll 1
  for (int pair = warp; pair < (last - first) * SPAN; pair += WARPS) {
    const int segment = pair % SPAN;
    float sum[1][COLUMNS][4];
    clear(sum);
    mbarrier_wait(x_bar + segment * 8, 0);
#pragma unroll 1
    for (int k = 0; k < 2; ++k) {
      mbarrier_wait(bar + stage * 8, parity);
      add_block(ring + stage * STAGE_BYTES, x_at + segment * X_SEGMENT + k * (X_TILE_SEGMENT / 2),
                lane, sum);
      sync_warp();
      fill_next(&source, ring + stage * STAGE_BYTES, bar + stage * 8, lane);
      parity ^= ++stage == STAGES;
      if (stage == STAGES) stage = 0;
    }
#ifdef SPLIT
    give_sums(scratch, counters, first + pair / SPAN, span_at + segment,
              SPAN * get_num_groups(1), lane, sum[0], y, y_stride);
#else
    for (int n = 0; n < COLUMNS; ++n) {
      const float* const v = sum[0][n];
      parts[(pair * COLUMNS + n) * 32 + lane] = (float4)(v[0], v[1], v[2], v[3]);
    }
#endif
  }
#ifndef SPLIT
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = warp; i < (last - first) * COLUMNS; i += WARPS) {
    const int panel = i / COLUMNS, n = i % COLUMNS;
    float4 total = (float4)(0.0f);
    for (int s = 0; s < SPAN; ++s) total += parts[((panel * SPAN + s) * COLUMNS + n) * 32 + lane];
    put_fragment(y, y_stride, first + panel, n, lane, total);
  }
#endif
}
