// Instructions that a step in one kernel needs besides those of ptx.cl.

// Meets the 128 items of a team.
void sync_team(int team) {
  asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}
void arrive_release(__global uint* word) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"((ulong)word) : "memory");
}
uint load_acquire(__global uint* word) {
  uint v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"((ulong)word) : "memory");
  return v;
}
// Loads of what other groups wrote, past this unit's cache.
float load_new(__global const float* p) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"((ulong)p) : "memory");
  return v;
}
int load_new_int(__global const float* p) {
  int v;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"((ulong)p) : "memory");
  return v;
}
// The value of the item whose number in 32 differs in this bit. All 32 call.
float exchange(float v, int bit) {
  float r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(v), "r"(bit));
  return r;
}
int exchange_int(int v, int bit) {
  int r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(r) : "r"(v), "r"(bit));
  return r;
}
int dot_4(uint a, uint b, int c) {
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
// The multiprocessor's clock.
uint cycles(void) {
  uint now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  return now;
}
