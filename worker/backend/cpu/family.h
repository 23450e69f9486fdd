#pragma once
// Which kernel families this processor and operating system can run, and what names stand for.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/plan/family.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cpu {

/// Best first, "scalar" always last. From CPUID, the register state that the system saves, and for
/// amx and avx512bf16 a trial. Not the emulated ones, which only select_family knows. The
/// environment's HOLDFAST_KERNELS puts the family that it names first.
std::vector<std::string> runnable_families();

/// What a model multiplies with, among others.
struct WeightKinds {
  bool quantised = false;
  bool bf16 = false;
};

/// The forced family, or for "" the best one for such weights. kUnsupported: unknown, or what the
/// processor lacks.
Result<const Kernels*> select_family(std::string_view forced, WeightKinds weights = {});

Activate activate_of(plan::Activation activation);

/// Of Limits::kv_type, on any device; nullopt: there is no such type.
std::optional<KvType> kv_type_of(std::string_view name);

}  // namespace holdfast::cpu
