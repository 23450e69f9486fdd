// Goal: what the planner counts for packed weights is what the layouts take, and formats with
// tables of values have the values that files mean. Method: both sides' constants, for every type
// with kernels.

#include <gtest/gtest.h>

#include "shared/gguf/coded.h"
#include "shared/plan/packed.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast::cpu {
namespace {

TEST(Packed, PlannedBytesAreTheLayouts) {
  for (const gguf::TensorType type : kernel_types()) {
    const gguf::TypeTraits traits = *gguf::type_traits(type);
    const Layout& layout = layout_of(*format_of(type));
    if (!layout.has_d) continue;
    const auto pieces = static_cast<int>(traits.block_elements) / layout.block;
    ASSERT_EQ(pieces * layout.block, static_cast<int>(traits.block_elements)) << traits.name;
    EXPECT_EQ(plan::packed_block_bytes(type) * kLanes,
              static_cast<std::uint32_t>(pieces * block_bytes(layout)))
        << traits.name;
  }
}

TEST(Packed, TablesAreTheFiles) {
  for (const gguf::TensorType type : kernel_types()) {
    const gguf::CodedTraits* traits = gguf::coded_traits(type);
    if (traits == nullptr) continue;
    const Format format = *format_of(type);
    for (int i = 0; i < 16; ++i) {
      if (layout_of(format).table) {
        EXPECT_EQ(table_of(format)[i], traits->values[i]) << gguf::type_traits(type)->name << i;
      } else if (i < 4) {
        EXPECT_EQ(static_cast<float>(i - layout_of(format).offset), traits->values[i]);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::cpu
