// A barrier of all work-groups, which must all be resident: one atomic addition a group and a poll.
// words: arrivals, abort, wrong neighbours, nanoseconds of group 0; slots: a word for each group.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void meet(__global uint* words,
                                                                    __global uint* slots,
                                                                    int rounds) {
  __local uint stop;
  const uint groups = get_num_groups(0), group = get_group_id(0);
  const int first = get_local_id(0) == 0;
  const ulong began = nanoseconds();
  uint wrong = 0;
  if (first) stop = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int round = 1; round <= rounds; ++round) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first) {
      asm volatile("st.global.u32 [%0], %1;" ::"l"((ulong)(slots + group)), "r"(round) : "memory");
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"((ulong)words) : "memory");
      const ulong start = nanoseconds();
      uint arrived = 0, polls = 0;
      while (!stop) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"((ulong)words)
                     : "memory");
        if (arrived >= groups * (uint)round) break;
        if (++polls % 256 != 0) continue;
        uint aborted;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(aborted) : "l"((ulong)(words + 1))
                     : "memory");
        if (aborted == 0 && nanoseconds() - start > 1000000000ul) atomic_inc(words + 1);
        if (aborted != 0 || nanoseconds() - start > 1000000000ul) stop = 1;
      }
      uint neighbour;
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(neighbour)
                   : "l"((ulong)(slots + (group + 1) % groups))
                   : "memory");
      wrong += neighbour < (uint)round;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (stop) break;
  }
  if (first && wrong > 0) atomic_add(words + 2, wrong);
  if (first && group == 0) words[3] = (uint)(nanoseconds() - began);
}
