#pragma once
// Names of the instruction sets that target_begin.h compiles for.

#define HOLDFAST_TARGET_AVX2 1
#define HOLDFAST_TARGET_AVXVNNI 2
#define HOLDFAST_TARGET_AVX512 3
#define HOLDFAST_TARGET_AVX512BF16 4
