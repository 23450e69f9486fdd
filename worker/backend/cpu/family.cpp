#include "worker/backend/cpu/family.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace holdfast::cpu {
namespace {

struct Cpuid {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(std::uint32_t leaf, std::uint32_t part = 0) {
  Cpuid r;
  if (__get_cpuid_count(leaf, part, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// Register state that the system saves (XCR0); 0 without OSXSAVE.
std::uint64_t saved_state(const Cpuid& one) {
  if ((one.ecx >> 27 & 1) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

// The first four letters of a vendor's name.
constexpr std::uint32_t kAuthenticAmd = 0x68747541, kHygonGenuine = 0x6f677948;

// Emulated families are never chosen, only forced.
constexpr const char* kEmulated = "amx-emulated";
constexpr const char* kBothEmulated = "avx512+amx-emulated";
constexpr const char* kPairsEmulated = "avx512bf16-emulated";
constexpr const char* kBothPairsEmulated = "avx512+avx512bf16-emulated";

struct Need {
  const char* name;
  bool have;
};

// Families that this build may have left out (CMake's HOLDFAST_CPU_FAMILIES, left_out.cpp).
constexpr Need kBuiltAvx2 = {"kernels in this build", HOLDFAST_FAMILY_AVX2 != 0};
constexpr Need kBuiltAvxVnni = {"kernels in this build", HOLDFAST_FAMILY_AVXVNNI != 0};
constexpr Need kBuiltAvx512 = {"kernels in this build", HOLDFAST_FAMILY_AVX512 != 0};
constexpr Need kBuiltPairs = {"kernels in this build", HOLDFAST_FAMILY_AVX512BF16 != 0};
constexpr Need kBuiltAmx = {"kernels in this build", HOLDFAST_FAMILY_AMX != 0};

std::string missing(std::initializer_list<Need> needs) {
  std::string out;
  for (const Need& need : needs) {
    if (!need.have) out += (out.empty() ? "" : ", ") + std::string(need.name);
  }
  return out;
}

/// Two lists of what is missing, as one.
std::string joined(const std::string& a, const std::string& b) {
  return a + (a.empty() || b.empty() ? "" : ", ") + b;
}

/// Asks the system for tiles, which it grants to a process and all its threads only on request.
bool may_use_amx() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
}

/// Bits of a product through `kernels`: pseudo-random numbers, for formats with and without scales
/// and for small and large batches.
std::vector<float> trial_product(const Kernels& kernels, Format format, std::int64_t rows,
                                 bool int8) {
  PackedMatrix m = packed_geometry(format, 48, 256, 48);
  std::vector<std::uint8_t> weights(m.bytes() + 64), scratch(kUnpackFloats * sizeof(float) + 64);
  const auto aligned = [](std::vector<std::uint8_t>& v) {
    void* at = v.data();
    std::size_t space = v.size();
    return static_cast<std::uint8_t*>(std::align(64, v.size() - 64, at, space));
  };
  m.data = aligned(weights);
  std::uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525u + 1013904223u, state >> 8; };
  for (std::size_t i = 0; i < m.bytes(); ++i) {
    // Exponents of halves and of bfloat16s stay small, so that nothing overflows.
    m.data[i] = static_cast<std::uint8_t>(next() & (i % 2 == 1 ? 0xbf : 0xff));
    if (i % 2 == 1 && format == Format::kBF16)
      m.data[i] = static_cast<std::uint8_t>(0x3c | (next() & 0x83));
  }
  std::vector<float> x(static_cast<std::size_t>(rows) * 256),
      y(static_cast<std::size_t>(rows) * 48);
  for (float& v : x) v = static_cast<float>(static_cast<int>(next() & 0xffff) - 0x8000) * 0x1p-14f;
  std::vector<std::uint8_t> q(static_cast<std::size_t>(rows) * 8 * sizeof(ActivationBlock));
  const ActivationFormat* activation_format = kernels.activation_format(format, int8);
  const std::int64_t stride =
      8 * (activation_format != nullptr ? activation_format->block_bytes : 0);
  for (std::int64_t i = 0; activation_format != nullptr && i < rows; ++i) {
    activation_format->make(x.data() + i * 256, 256, q.data() + i * stride);
  }
  MatmulArgs args;
  args.w = &m;
  args.p1 = 3;
  args.x = x.data(), args.x_stride = 256;
  args.q = q.data(), args.q_stride = stride;
  args.rows = rows;
  args.y = y.data(), args.y_stride = 48;
  args.scratch = reinterpret_cast<float*>(aligned(scratch));
  args.int8 = int8;
  kernels.matmul(args);
  return y;
}

bool same_products(const Kernels& some, const Kernels& others) {
  for (const Format format : {Format::kQ4_K, Format::kQ6_K, Format::kQ8_0, Format::kBF16}) {
    for (const std::int64_t rows : {1, 5, 16, 17, 39}) {
      for (const bool int8 : {false, true}) {
        if (int8 && some.activation_format(format, true) == some.activation_format(format, false))
          continue;
        const auto a = trial_product(some, format, rows, int8);
        const auto b = trial_product(others, format, rows, int8);
        if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) return false;
      }
    }
  }
  return true;
}

/// True if tiles round as this program expects: the bits of requests depend on it.
bool amx_agrees() {
  static const bool agree = same_products(amx_kernels(), amx_emulated_kernels());
  return agree;
}
bool pairs_agree() {
  static const bool agree = same_products(avx512bf16_kernels(), avx512bf16_emulated_kernels());
  return agree;
}

/// True if pairs of bfloat16s are multiplied twice as fast as floats: on AMD's Zen 4 and later,
/// where there are pairs. Intel's processors take both at one rate. Decided by model, not by
/// measuring: a numerics class must not depend on a moment.
bool pairs_are_faster() {
  const std::uint32_t one = cpuid(1).eax;
  const std::uint32_t family = (one >> 8 & 15) + (one >> 20 & 255);
  constexpr std::uint32_t kZen4 = 25;  // the same for Zen 3, which has no pairs
  return cpuid(0).ebx == kAuthenticAmd && family >= kZen4;
}

// Ratios for one stream (docs/inside/kernels.md).
constexpr std::int64_t kAmxPrefillHeavyRatio = 12, kBf16PrefillHeavyRatio = 16;

/// The fastest avx512 for a processor with AMX, with the same bits.
const Kernels& avx512_on_amx_cpu() {
  constexpr int kAmxInt8 = 25;
  static const bool tiles = (cpuid(7).edx >> kAmxInt8 & 1) != 0 &&
                            same_products(avx512_amx_int8_kernels(), avx512_kernels());
  return tiles ? avx512_amx_int8_kernels() : avx512_kernels();
}

/// `decode_heavy`, which has the bits of avx512, with `prefill_heavy` for prefill-heavy segments.
Kernels both_kinds(const Kernels& decode_heavy, const Kernels& prefill_heavy, const char* name,
                   const char* numerics, std::int64_t prefill_heavy_ratio) {
  Kernels k = decode_heavy;
  k.name = name;
  k.numerics = numerics;
  k.prefill_heavy = &prefill_heavy;
  k.prefill_heavy_ratio = prefill_heavy_ratio;
  return k;
}
const Kernels& avx512_amx_kernels() {
  static const Kernels kernels = both_kinds(avx512_on_amx_cpu(), amx_kernels(), "avx512+amx",
                                            "int15+bf16", kAmxPrefillHeavyRatio);
  return kernels;
}
const Kernels& avx512_amx_emulated_kernels() {
  static const Kernels kernels = both_kinds(avx512_kernels(), amx_emulated_kernels(), kBothEmulated,
                                            "int15+bf16", kAmxPrefillHeavyRatio);
  return kernels;
}
const Kernels& avx512_pairs_kernels() {
  static const Kernels kernels =
      both_kinds(avx512_kernels(), avx512bf16_kernels(), "avx512+avx512bf16", "int15+pairs",
                 kBf16PrefillHeavyRatio);
  return kernels;
}
const Kernels& avx512_pairs_emulated_kernels() {
  static const Kernels kernels =
      both_kinds(avx512_kernels(), avx512bf16_emulated_kernels(), kBothPairsEmulated, "int15+pairs",
                 kBf16PrefillHeavyRatio);
  return kernels;
}

struct Family {
  std::string_view name;
  const Kernels& (*kernels)();
  std::string lacks;  // empty: runs here
};

std::vector<Family> families(WeightKinds weights = {}) {
  const Cpuid one = cpuid(1);
  const Cpuid seven = cpuid(7);
  const std::uint64_t state = saved_state(one);
  const auto bit = [](std::uint32_t word, int n) { return (word >> n & 1) != 0; };
  const Need fma = {"FMA", bit(one.ecx, 12)};
  const Need f16c = {"F16C", bit(one.ecx, 29)};
  const Need avx2 = {"AVX2", bit(seven.ebx, 5)};
  const Need ymm = {"YMM state of the system", (state & 6) == 6};
  const Need vnni = {"AVX_VNNI", bit(cpuid(7, 1).eax, 4)};
  const std::string avx512 = missing({kBuiltAvx512,
                                      fma,
                                      f16c,
                                      avx2,
                                      ymm,
                                      {"AVX512F", bit(seven.ebx, 16)},
                                      {"AVX512DQ", bit(seven.ebx, 17)},
                                      {"AVX512BW", bit(seven.ebx, 30)},
                                      {"AVX512VL", bit(seven.ebx, 31)},
                                      {"AVX512_VNNI", bit(seven.ecx, 11)},
                                      {"ZMM state of the system", (state & 0xe6) == 0xe6}});
  const Need bf16 = {"AVX512_BF16", bit(cpuid(7, 1).eax, 5)};
  const std::string emulated_pairs = joined(avx512, missing({kBuiltPairs}));
  const std::string emulated_amx = joined(avx512, missing({kBuiltAmx}));
  std::string pairs = joined(emulated_pairs, missing({bf16}));
  if (pairs.empty()) pairs = missing({{"pairs that round as expected", pairs_agree()}});
  std::string amx =
      joined(emulated_amx, missing({bf16,
                                    {"AMX-TILE", bit(seven.edx, 24)},
                                    {"AMX-BF16", bit(seven.edx, 22)},
                                    {"tile state of the system", (state & 0x60000) == 0x60000}}));
  if (amx.empty()) {
    amx = missing({{"the system's permission to use tiles", may_use_amx()}});
    if (amx.empty()) amx = missing({{"tiles that round as expected", amx_agrees()}});
  }
  // The first that runs is the best one. amx alone comes after avx512 because it decodes one
  // sequence at half the rate (docs/inside/kernels.md).
  std::vector<Family> all = {
      {"avx512+amx", &avx512_amx_kernels, amx},
      {"avx512", &avx512_kernels, avx512},
      {"avx512+avx512bf16", &avx512_pairs_kernels, pairs},
      {"avx512bf16", &avx512bf16_kernels, pairs},
      {"amx", &amx_kernels, amx},
      {"avxvnni", &avxvnni_kernels, missing({kBuiltAvxVnni, fma, f16c, avx2, ymm, vnni})},
      {"avx2", &avx2_kernels, missing({kBuiltAvx2, fma, f16c, avx2, ymm})},
      {"scalar", &scalar_kernels, ""},
      {kEmulated, &amx_emulated_kernels, emulated_amx},
      {kBothEmulated, &avx512_amx_emulated_kernels, emulated_amx},
      {kPairsEmulated, &avx512bf16_emulated_kernels, emulated_pairs},
      {kBothPairsEmulated, &avx512_pairs_emulated_kernels, emulated_pairs},
  };
  if (pairs_are_faster() && weights.bf16 && !weights.quantised) {
    std::stable_partition(all.begin() + 1, all.end(),
                          [](const Family& family) { return family.name == "avx512bf16"; });
  }
  // HOLDFAST_KERNELS puts a family first; a caller may still force another one.
  const char* first = std::getenv("HOLDFAST_KERNELS");
  std::stable_partition(all.begin(), all.end(), [&](const Family& family) {
    return first != nullptr && family.name == first;
  });
  return all;
}

}  // namespace

bool reads_in_one_run() {
  static const bool one = [] {
    const std::uint32_t vendor = cpuid(0).ebx;
    return vendor == kAuthenticAmd || vendor == kHygonGenuine;
  }();
  return one;
}

std::vector<std::string> runnable_families() {
  std::vector<std::string> out;
  const std::vector<Family> all = families();
  for (const Family& family : all) {
    const bool emulated = family.name.ends_with("-emulated");
    const bool wished = !emulated || &family == &all.front();
    if (family.lacks.empty() && wished) out.emplace_back(family.name);
  }
  return out;
}

Result<const Kernels*> select_family(std::string_view forced, WeightKinds weights) {
  const auto fail = [&](const std::string& why) {
    return Error{Errc::kUnsupported, "select kernels " + std::string(forced) + ": " + why};
  };
  for (const Family& family : families(weights)) {
    if (!forced.empty() && forced != family.name) continue;
    if (family.lacks.empty()) return &family.kernels();
    if (!forced.empty()) return fail("missing: " + family.lacks);
  }
  return fail(
      "no such family; expected avx512+amx, avx512, avx512+avx512bf16, avx512bf16, amx, avxvnni, "
      "avx2, scalar, or one of those with amx or avx512bf16 and -emulated behind it");
}

Activate activate_of(plan::Activation activation) {
  switch (activation) {
    case plan::Activation::kSilu:
      return Activate::kSilu;
    case plan::Activation::kGeluTanh:
      return Activate::kGeluTanh;
    case plan::Activation::kGeluErf:
      return Activate::kGeluErf;
    case plan::Activation::kSwigluOai:
      return Activate::kSwigluOai;
    case plan::Activation::kReluSquared:
      break;
  }
  return Activate::kReluSquared;
}

std::optional<KvType> kv_type_of(std::string_view name) {
  if (name == "f32") return KvType::kF32;
  if (name == "f16") return KvType::kF16;
  if (name == "bf16") return KvType::kBF16;
  if (name == "int8") return KvType::kInt8;
  if (name == "fp8") return KvType::kFp8;
  return std::nullopt;
}

}  // namespace holdfast::cpu
