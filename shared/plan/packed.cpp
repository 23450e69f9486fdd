#include "shared/plan/packed.h"

namespace holdfast::plan {

std::uint32_t packed_block_bytes(gguf::TensorType type) {
  using T = gguf::TensorType;
  switch (type) {
    case T::kIQ1_S:
    case T::kIQ1_M:
    case T::kIQ2_XXS:
    case T::kIQ2_XS:
    case T::kIQ2_S:
      return 2 + 16 + 128;
    case T::kIQ3_XXS:
    case T::kIQ3_S:
      return 2 + 8 + 128;
    case T::kQ3_K:
      return 2 + 16 + 64 + 32;
    case T::kQ4_K:
      return 4 + 2 * 8 + 128;
    case T::kQ5_K:
      return 4 + 2 * 8 + 128 + 32;
    case T::kIQ4_XS:
      return 2 + 8 + 128;
    case T::kMXFP4:
      return 2 + 16;
    case T::kNVFP4:
      return 4 * 2 + 32;
    case T::kTQ1_0:
    case T::kTQ2_0:
      return 4 * (2 + 16);
    case T::kQ1_0:
      return 2 * (2 + 16);
    case T::kQ2_0:
      return 2 + 16;
    default:
      return gguf::type_traits(type)->block_bytes;
  }
}

}  // namespace holdfast::plan
