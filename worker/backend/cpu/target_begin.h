// Begins code for the instruction set HOLDFAST_TARGET (targets.h), which the including file
// defines; target_end.h ends it. What stands between is compiled for that set, so nothing that
// other units share (inline functions, templates of the library) may be defined there: such headers
// come before. No include guard: a unit includes it once, after all headers.

#include "worker/backend/cpu/targets.h"

#if defined(__clang__)

#if HOLDFAST_TARGET == HOLDFAST_TARGET_AVX2
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVXVNNI
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVX512
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVX512BF16
#pragma clang attribute push(                                                               \
    __attribute__((                                                                         \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c"))), \
    apply_to = function)
#else
#error "define HOLDFAST_TARGET as one of targets.h"
#endif

#else

#if HOLDFAST_TARGET >= HOLDFAST_TARGET_AVX512
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false, in g++'s own AVX-512 headers
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#if HOLDFAST_TARGET == HOLDFAST_TARGET_AVX2
#pragma GCC target("avx2,fma,f16c")
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVXVNNI
#pragma GCC target("avx2,fma,f16c,avxvnni")
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVX512
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#elif HOLDFAST_TARGET == HOLDFAST_TARGET_AVX512BF16
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")
#else
#error "define HOLDFAST_TARGET as one of targets.h"
#endif

#endif
