// NVIDIA's instructions that OpenCL C has no names for, as functions. Fragments are those of PTX's
// mma: lane i has g = i / 4 and t = i % 4.

// The address of local memory as instructions take it.
uint local_address(__local const void* p) {
  return (uint)(ulong)p;
}

ulong nanoseconds(void) {
  ulong now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

void sync_warp(void) {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// Loads of local memory by address.
uint load_1(uint at) {
  uint v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
uint2 load_2(uint at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
  return v;
}
uint4 load_4(uint at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

// Loads of global memory that no one writes, which stay in the order of the program.
uint4 stream_4(__global const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"((ulong)p));
  return v;
}

// A ring's stage: mbarrier_start once for each barrier, then bulk_copy and mbarrier_wait in turn,
// with the parity of the number of earlier waits.
void mbarrier_start(uint barrier_at) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier_at) : "memory");
}
void mbarriers_started(void) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// The parts of it: a barrier that `arrivals` complete, the bytes that a stage gets, and copies of
// these.
void mbarrier_start_of(uint barrier_at, uint arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier_at), "r"(arrivals) : "memory");
}
void mbarrier_arrive(uint barrier_at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier_at) : "memory");
}
void mbarrier_expect(uint barrier_at, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_at), "r"(bytes)
               : "memory");
}
void bulk_copy_part(uint to, ulong from, uint bytes, uint barrier_at) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier_at)
      : "memory");
}
// Copies bytes (a multiple of 16, as both addresses) to local memory, by one item.
void bulk_copy(uint to, ulong from, uint bytes, uint barrier_at) {
  mbarrier_expect(barrier_at, bytes);
  bulk_copy_part(to, from, bytes, barrier_at);
}
// A copy that never arrives ends the kernel with an error.
void mbarrier_wait(uint barrier_at, uint parity) {
  uint done = 0;
  for (uint tries = 0; !done; ++tries) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2, 1000; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier_at), "r"(parity)
        : "memory");
    if (tries > 4000000u) asm volatile("trap;");
  }
}

// Loads what other groups wrote, past this unit's cache.
float4 load_shared_by_groups(__global const float4* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"((ulong)p)
               : "memory");
  return v;
}
// Adds one; what the item and those that it met wrote before is seen by who finds the result.
uint arrive_at(__global uint* counter) {
  uint before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"((ulong)counter)
               : "memory");
  return before;
}
// The first lane's value.
uint of_first_lane(uint v) {
  asm volatile("shfl.sync.idx.b32 %0, %0, 0, 31, 0xffffffff;" : "+r"(v)::"memory");
  return v;
}

// Copies of 16 bytes by each item, in groups.
void copy_16(uint to, __global const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"((ulong)from) : "memory");
}
void close_copies(void) {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
#define WAIT_COPIES(LATER) asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory")

// c += a * b: 16 by 16 by 8 halves into floats; 16 by 32 by 8 bytes into integers.
void mma_f16(float* c, const uint* a, uint b0, uint b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
void mma_s8(int* c, const uint* a, uint b0, uint b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same with unsigned bytes on the left.
void mma_u8_s8(int* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The sum of products of four unsigned and four signed bytes.
int dot_us(uint a, uint b, int c) {
  int r;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// Arithmetic of two halves in a word.
uint add_h2(uint a, uint b) {
  uint r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
uint mul_h2(uint a, uint b) {
  uint r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
uint fma_h2(uint a, uint b, uint c) {
  uint r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
// A half of the word twice; the compiler makes these part of the instructions that use them.
uint low_twice(uint a) {
  uint r;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l}; }" : "=r"(r) : "r"(a));
  return r;
}
uint high_twice(uint a) {
  uint r;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h}; }" : "=r"(r) : "r"(a));
  return r;
}
// Bytes of a and b (4 to 7) by four selectors of four bits.
uint select_bytes(uint a, uint b, uint selectors) {
  uint r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selectors));
  return r;
}
float float_of_half(uint bits) {
  float f;
  asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(f) : "r"(bits));
  return f;
}
// (a & mask) | 0x64006400: codes of four bits as halves 1024 + code, or 1024 + 16 code.
uint coded_halves(uint a, uint mask) {
  uint r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(a), "r"(mask), "r"(0x64006400u));
  return r;
}
