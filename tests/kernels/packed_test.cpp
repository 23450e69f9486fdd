// Goal: the planner's bytes of packed weights are those of the layouts, formats with tables of
// values have the values that files mean, and packed bytes depend on the file alone.
// Method: both sides' constants; memory that held other data; for every type with kernels.

#include <gtest/gtest.h>

#include <cstring>

#include "shared/gguf/coded.h"
#include "shared/plan/packed.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast::cpu::packed_test {
namespace {

TEST(Packed, PlannedBytes_ForEveryType_EqualTheLayouts) {
  for (const gguf::TensorType type : kernel_types()) {
    const gguf::TypeTraits traits = *gguf::type_traits(type);
    const Layout& layout = layout_of(*format_of(type));
    if (!layout.has_d) continue;
    const auto sub_blocks = static_cast<int>(traits.block_elements) / layout.block;
    ASSERT_EQ(sub_blocks * layout.block, static_cast<int>(traits.block_elements)) << traits.name;
    EXPECT_EQ(plan::packed_block_bytes(type) * kLanes,
              static_cast<std::uint32_t>(sub_blocks * block_bytes(layout)))
        << traits.name;
  }
}

TEST(Packed, ValueTables_ForEveryCodedType_EqualTheFiles) {
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

// Lanes beyond a group's rows and k beyond the columns are zero, whatever was there.
TEST(Packed, PackPanels_IntoUsedMemory_WritesTheSameBytes) {
  for (const gguf::TensorType type : kernel_types()) {
    const bool floats = gguf::type_traits(type)->block_elements == 1;
    TestMatrix m = random_matrix(type, 40, floats ? 2100 : 2560, 20, 7);  // more than one run of k
    const std::vector<std::uint8_t> fresh(m.packed.data, m.packed.data + m.packed.bytes());
    std::memset(m.packed.data, 0xa5, m.packed.bytes());
    ASSERT_EQ(pack_panels(m.packed, type, m.file.data(), m.row_bytes, 0, m.packed.panels), -1);
    EXPECT_EQ(std::memcmp(m.packed.data, fresh.data(), fresh.size()), 0)
        << gguf::type_traits(type)->name;
  }
}

}  // namespace
}  // namespace holdfast::cpu::packed_test
