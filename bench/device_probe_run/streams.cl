// Reading memory once, and nothing else.

// x: words that no compression finds short.
__kernel void fill_words(__global uint* x) {
  const uint i = (uint)get_global_id(0);
  x[i] = (i ^ i >> 15) * 2654435761u + (i >> 3);
}

// Every item loads sixteen bytes eight times before it uses them; n: vectors.
#define STREAM_LOADS 8
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void stream_plain(
    __global const uint4* x, ulong n, __global uint* y) {
  const ulong all = get_global_size(0);
  uint4 sum = (uint4)(0);
  for (ulong first = get_global_id(0); first < n; first += all * STREAM_LOADS) {
    uint4 v[STREAM_LOADS];
#pragma unroll
    for (int j = 0; j < STREAM_LOADS; ++j) {
      const ulong at = min(first + j * all, n - 1);
#ifdef PTX
      v[j] = stream_4(x + at);
#else
      v[j] = x[at];
#endif
    }
#pragma unroll
    for (int j = 0; j < STREAM_LOADS; ++j) sum ^= v[j];
  }
  y[get_global_id(0)] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}

#ifdef STAGE_BYTES
// A warp with a ring of STAGES bulk copies of STAGE_BYTES, which reads 16 bytes a lane of each.
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void stream_ring(
    __global const uchar* x, ulong chunks, __global uint* y) {
  __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
  __local ulong bars[STAGES];
  const uint lane = get_local_id(0), at = local_address(ring), bar = local_address(bars);
  const ulong groups = get_num_groups(0);
  ulong next = get_group_id(0);
  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) mbarrier_start(bar + i * 8);
    mbarriers_started();
    for (int i = 0; i < STAGES && next < chunks; ++i, next += groups) {
      bulk_copy(at + i * STAGE_BYTES, (ulong)x + next * STAGE_BYTES, STAGE_BYTES, bar + i * 8);
    }
  }
  sync_warp();
  uint4 sum = (uint4)(0);
  uint stage = 0, parity = 0;
  for (ulong chunk = get_group_id(0); chunk < chunks; chunk += groups) {
    mbarrier_wait(bar + stage * 8, parity);
    sum ^= load_4(at + stage * STAGE_BYTES + lane * 16);
    sync_warp();
    if (lane == 0 && next < chunks) {
      bulk_copy(at + stage * STAGE_BYTES, (ulong)x + next * STAGE_BYTES, STAGE_BYTES,
                bar + stage * 8);
      next += groups;
    }
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
  y[get_global_id(0)] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}
#endif
