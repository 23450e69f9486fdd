#pragma once
// Loops over long rows, compiled twice: for any processor of the architecture and for those with
// AVX2. The bits are the same, as nothing is contracted (-ffp-contract=off) and a body has a fixed
// number of partial results. Write the body as a function that is HOLDFAST_WIDE_BODY, then
//
//   float max_of(const float* x, int n) { HOLDFAST_WIDE_CALL(max_body, x, n); }
//
// after HOLDFAST_WIDE(max_body, float, (const float* x, int n), (x, n)).

#define HOLDFAST_WIDE_BODY inline __attribute__((always_inline))

#if defined(__x86_64__)
#define HOLDFAST_WIDE(body, result, parameters, arguments)        \
  __attribute__((target("avx2"))) result body##_avx2 parameters { \
    return body arguments;                                        \
  }
#define HOLDFAST_WIDE_CALL(body, ...)                           \
  static const bool wide = __builtin_cpu_supports("avx2") != 0; \
  return wide ? body##_avx2(__VA_ARGS__) : body(__VA_ARGS__)
#else
#define HOLDFAST_WIDE(body, result, parameters, arguments)
#define HOLDFAST_WIDE_CALL(body, ...) return body(__VA_ARGS__)
#endif
