// One kernel for each thing that only a trial shows.

#define FACT_ITEMS 128
#define FACT_WORDS 2048  // that each work-group copies

#ifdef LOCAL_KB
// Writes a pattern over all of the local memory, and reads it by other items. sums[item]: the sum
// of what the item read, times odd numbers.
#define LOCAL_WORDS (LOCAL_KB * 256)
__kernel __attribute__((reqd_work_group_size(FACT_ITEMS, 1, 1))) void fill_local(
    __global uint* sums, uint seed) {
  __local uint words[LOCAL_WORDS];
  const uint item = get_local_id(0), first = (seed + (uint)get_group_id(0)) * 40503u;
  for (uint i = item; i < LOCAL_WORDS; i += FACT_ITEMS) words[i] = (first + i) * 2654435761u;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint sum = 0;
  for (uint i = item; i < LOCAL_WORDS; i += FACT_ITEMS) {
    sum += words[LOCAL_WORDS - 1 - i] * (2 * i + 1);
  }
  sums[get_global_id(0)] = sum;
}

// The same with local memory that is an argument.
__kernel __attribute__((reqd_work_group_size(FACT_ITEMS, 1, 1))) void fill_argument(
    __global uint* sums, uint seed, uint n, __local uint* words) {
  const uint item = get_local_id(0), first = (seed + (uint)get_group_id(0)) * 40503u;
  for (uint i = item; i < n; i += FACT_ITEMS) words[i] = (first + i) * 2654435761u;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint sum = 0;
  for (uint i = item; i < n; i += FACT_ITEMS) sum += words[n - 1 - i] * (2 * i + 1);
  sums[get_global_id(0)] = sum;
}
#endif

#ifdef USE_BULK
__kernel __attribute__((reqd_work_group_size(FACT_ITEMS, 1, 1))) void copy_words(
    __global const uint* x, __global uint* y) {
  __local uint words[FACT_WORDS] __attribute__((aligned(128)));
  __local ulong bars[2];
  const uint item = get_local_id(0), at = get_group_id(0) * FACT_WORDS;
  const uint bar = local_address(bars);
  if (item == 0) {
    mbarrier_start(bar);
    mbarriers_started();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_at = 0; half_at < 2; ++half_at) {  // both parities of the barrier
    const uint first = half_at * FACT_WORDS / 2;
    if (item == 0) {
      bulk_copy(local_address(words + first), (ulong)(x + at + first), FACT_WORDS * 2, bar);
    }
    mbarrier_wait(bar, half_at);
  }
  for (uint i = item; i < FACT_WORDS; i += FACT_ITEMS) {
    y[at + i] = load_1(local_address(words + i));
  }
}
#endif

#ifdef USE_CP_ASYNC
__kernel __attribute__((reqd_work_group_size(FACT_ITEMS, 1, 1))) void copy_words(
    __global const uint* x, __global uint* y) {
  __local uint words[FACT_WORDS] __attribute__((aligned(128)));
  const uint item = get_local_id(0), at = get_group_id(0) * FACT_WORDS;
  for (uint i = item * 4; i < FACT_WORDS; i += FACT_ITEMS * 4) {
    copy_16(local_address(words + i), x + at + i);
    close_copies();
  }
  WAIT_COPIES(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < FACT_WORDS; i += FACT_ITEMS) {
    y[at + i] = load_1(local_address(words + FACT_WORDS - 1 - i));
  }
}
#endif

#ifdef USE_LDMATRIX
// Four matrices of 8 by 8 halves of each warp, which ldmatrix deals out as mma's fragments: y[item]
// has the words of the four matrices.
__kernel __attribute__((reqd_work_group_size(FACT_ITEMS, 1, 1))) void deal_matrices(
    __global const uint4* x, __global uint4* y) {
  __local uint4 rows[FACT_ITEMS];
  const uint item = get_local_id(0);
  rows[item] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(local_address(rows + item))
               : "memory");
  y[get_global_id(0)] = v;
}
#endif
