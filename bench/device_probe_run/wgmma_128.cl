// wgmma of 64 by 128 by 16 whose left operand is in registers, for sm_90a, as comments that the
// host uncovers (Card::build_sm90a).
#define OUT_4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define OUT_16(i) OUT_4(i), OUT_4(i + 4), OUT_4(i + 8), OUT_4(i + 12)
#define OUT_64 OUT_16(0), OUT_16(16), OUT_16(32), OUT_16(48)

void wgmma_128(float* c, const uint* a, ulong right) {
  asm volatile(
      "//HF90A wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
      : OUT_64
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right)
      : "memory");
}
// Before the first of a chain, and after the last: no use of the sums moves across.
void wgmma_begin(float* c) {
  asm volatile("//HF90A wgmma.fence.sync.aligned;" : OUT_64::"memory");
}
void wgmma_close(void) {
  asm volatile("//HF90A wgmma.commit_group.sync.aligned;" ::: "memory");
}
void wgmma_wait(float* c) {
  asm volatile("//HF90A wgmma.wait_group.sync.aligned 0;" : OUT_64::"memory");
}
