// Q4_K weights in the order of mma's fragments (q4k.h, kHalves), and their values as halves.
#define BLOCK_BYTES 2368
#define SCALE_AT 2048
#define D_AT 2304

// The halves {d * scale, -dmin * minimum} of a row's group: `pairs` has the bytes {scale, minimum}
// of two groups, `h` says which.
uint group_factors(uint pairs, int h, uint d) {
  const uint whole = select_bytes(pairs, 0x64646464u, h == 0 ? 0x4140u : 0x4342u);
  return mul_h2(add_h2(whole, 0xE400E400u), d);
}

// The fragment of 16 rows by 16 k from a word of eight codes; rows g and g + 8 have factors of
// their own.
void weight_fragment(uint codes, uint first, uint second, uint* a) {
  const uint a0 = low_twice(first), b0 = high_twice(first);
  const uint a1 = low_twice(second), b1 = high_twice(second);
  const uint later = codes >> 8;
  a[0] = fma_h2(add_h2(coded_halves(codes, 0x000f000fu), 0xE400E400u), a0, b0);
  a[1] = fma_h2(fma_h2(coded_halves(codes, 0x00f000f0u), 0x2C002C00u, 0xD400D400u), a1, b1);
  a[2] = fma_h2(add_h2(coded_halves(later, 0x000f000fu), 0xE400E400u), a0, b0);
  a[3] = fma_h2(fma_h2(coded_halves(later, 0x00f000f0u), 0x2C002C00u, 0xD400D400u), a1, b1);
}

uint word_of(uint4 v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
