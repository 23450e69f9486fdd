#pragma once
// Selection of kernel families for this processor and operating system; names as kernel types.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/plan/family.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cpu {

/// The families that run here, best first, "scalar" always last. Found from CPUID, the register
/// state that the system saves, and for amx and avx512bf16 a trial product. Emulated families are
/// left out; select_family knows them. The environment's HOLDFAST_KERNELS puts the family that it
/// names first.
std::vector<std::string> runnable_families();

/// The kinds of weights that a model multiplies with, those that decide the family.
struct WeightKinds {
  bool quantised = false;
  bool bf16 = false;
};

/// The family named `forced`, or for "" the best one for such weights. kUnsupported: the name is
/// unknown, or the processor lacks a feature.
Result<const Kernels*> select_family(std::string_view forced, WeightKinds weights = {});

/// Returns the kernel's name of an activation.
Activate activate_of(plan::Activation activation);

/// The KvType of a Limits::kv_type, on any device; nullopt: there is no such type.
std::optional<KvType> kv_type_of(std::string_view name);

}  // namespace holdfast::cpu
