// wgmma of sm_90a, as comments that the host uncovers (Card::build_sm90a). Operands lie in local
// memory without swizzle, in cores of 8 rows of 16 bytes: a row's two cores are `lead` bytes apart,
// groups of eight rows `stride` bytes.
#define CORE_WORDS 8  // of sixteen bytes

ulong wgmma_operand(__local const void* p, uint lead, uint stride) {
  return (ulong)((local_address(p) & 0x3ffff) >> 4) | (ulong)(lead >> 4) << 16 |
         (ulong)(stride >> 4) << 32;
}
void wgmma_begin(void) {
  asm volatile("//HF90A wgmma.fence.sync.aligned;" ::: "memory");
}
void wgmma_end(void) {
  asm volatile("//HF90A wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("//HF90A wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// tiles_f16 by wgmma: four tiles of a group are its 64 rows, and b is that of the first one.
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void tiles_wgmma(
    __global const uint4* a, __global const uint4* b, __global const float* c, __global float* d,
    int steps, uint lead, uint stride) {
  __local uint4 as[128] __attribute__((aligned(128)));
  __local uint4 bs[16] __attribute__((aligned(128)));
  const int item = get_local_id(0), lane = item % 32, row = item / 2, half_at = item % 2;
  const ulong tile0 = get_group_id(0) * 4, tile = tile0 + item / 32;
  const ulong at = tile * 128 + lane / 4 * 8 + lane % 4 * 2;
  float sum[4] = {c[at], c[at + 1], c[at + 64], c[at + 65]};
  const ulong left = wgmma_operand(as, lead, stride), right = wgmma_operand(bs, lead, stride);
  for (int step = 0; step < steps; ++step) {
    const ulong from = (tile0 + row / 16) * steps + step;
    as[row / 8 * 16 + half_at * CORE_WORDS + row % 8] = a[from * 32 + row % 16 * 2 + half_at];
    if (item < 16) {
      bs[half_at * CORE_WORDS + row] = b[(tile0 * steps + step) * 16 + row * 2 + half_at];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    wgmma_begin();
    asm volatile(
        "//HF90A wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, "
        "1, 1, 0, 0;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "l"(left), "l"(right)
        : "memory");
    wgmma_end();
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  d[at] = sum[0];
  d[at + 1] = sum[1];
  d[at + 64] = sum[2];
  d[at + 65] = sum[3];
}

#define OUT_4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define OUT_16(i) OUT_4(i), OUT_4(i + 4), OUT_4(i + 8), OUT_4(i + 12)
void wgmma_256(float* c, ulong left, ulong right) {
  asm volatile(
      "//HF90A wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
      "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
      "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
      "%126, %127"
      "}, %128, %129, 1, 1, 1, 0, 0;"
      : OUT_16(0), OUT_16(16), OUT_16(32), OUT_16(48), OUT_16(64), OUT_16(80), OUT_16(96),
        OUT_16(112)
      : "l"(left), "l"(right));
}

// The rate of 64 by 256 by 16: `rounds` times four, all from the same local memory.
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void rate_wgmma(__global float* y,
                                                                         int rounds, uint first) {
  __local uint4 as[128] __attribute__((aligned(128)));
  __local uint4 bs[512] __attribute__((aligned(128)));
  const uint item = get_local_id(0);
  as[item] = (uint4)(first + item, first, first ^ item, first);
  for (uint i = item; i < 512; i += 128) bs[i] = (uint4)(first, first + i, first, first ^ i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  barrier(CLK_LOCAL_MEM_FENCE);
  const ulong left = wgmma_operand(as, 128, 256), right = wgmma_operand(bs, 128, 256);
  float c[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) c[i] = 0.0f;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < 4; ++i) wgmma_256(c, left, right);
    wgmma_end();
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += c[i];
  y[get_global_id(0)] = sum;
}
