#include "worker/backend/cpu/family.h"

#include <cpuid.h>

#include <cstdint>

namespace holdfast::cpu {
namespace {

struct Cpuid {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(std::uint32_t leaf) {
  Cpuid r;
  if (__get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// Register state that the system saves (XCR0); 0 without OSXSAVE.
std::uint64_t saved_state(const Cpuid& one) {
  if ((one.ecx >> 27 & 1) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

struct Need {
  const char* name;
  bool have;
};

std::string missing(std::initializer_list<Need> needs) {
  std::string out;
  for (const Need& need : needs) {
    if (!need.have) out += (out.empty() ? "" : ", ") + std::string(need.name);
  }
  return out;
}

struct Family {
  const char* name;
  const Kernels& (*kernels)();
  std::string lacks;  // empty: runs here
};

std::vector<Family> families() {
  const Cpuid one = cpuid(1);
  const Cpuid seven = cpuid(7);
  const std::uint64_t state = saved_state(one);
  const auto bit = [](std::uint32_t word, int n) { return (word >> n & 1) != 0; };
  const Need fma = {"FMA", bit(one.ecx, 12)};
  const Need f16c = {"F16C", bit(one.ecx, 29)};
  const Need avx2 = {"AVX2", bit(seven.ebx, 5)};
  const Need ymm = {"YMM state of the system", (state & 6) == 6};
  return {
      {"avx512", &avx512_kernels,
       missing({fma,
                f16c,
                avx2,
                ymm,
                {"AVX512F", bit(seven.ebx, 16)},
                {"AVX512DQ", bit(seven.ebx, 17)},
                {"AVX512BW", bit(seven.ebx, 30)},
                {"AVX512VL", bit(seven.ebx, 31)},
                {"AVX512_VNNI", bit(seven.ecx, 11)},
                {"ZMM state of the system", (state & 0xe6) == 0xe6}})},
      {"avx2", &avx2_kernels, missing({fma, f16c, avx2, ymm})},
      {"scalar", &scalar_kernels, ""},
  };
}

}  // namespace

std::vector<std::string> runnable_families() {
  std::vector<std::string> out;
  for (const Family& family : families()) {
    if (family.lacks.empty()) out.emplace_back(family.name);
  }
  return out;
}

Result<const Kernels*> select_family(std::string_view forced) {
  const auto fail = [&](const std::string& why) {
    return Error{Errc::kUnsupported, "select kernels " + std::string(forced) + ": " + why};
  };
  for (const Family& family : families()) {
    if (!forced.empty() && forced != family.name) continue;
    if (family.lacks.empty()) return &family.kernels();
    if (!forced.empty()) return fail("this processor lacks " + family.lacks);
  }
  return fail("no such family; expected avx512, avx2 or scalar");
}

}  // namespace holdfast::cpu
