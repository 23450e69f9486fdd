#include "worker/weights/layout.h"

#include "shared/base/check.h"

namespace holdfast::cpu {

std::optional<Format> format_of(gguf::TensorType type) {
  using T = gguf::TensorType;
  switch (type) {
    case T::kF32:
      return Format::kF32;
    case T::kF16:
      return Format::kF16;
    case T::kBF16:
      return Format::kBF16;
    case T::kQ4_0:
      return Format::kQ4_0;
    case T::kQ4_1:
      return Format::kQ4_1;
    case T::kQ5_0:
      return Format::kQ5_0;
    case T::kQ5_1:
      return Format::kQ5_1;
    case T::kQ8_0:
      return Format::kQ8_0;
    case T::kQ2_K:
      return Format::kQ2_K;
    case T::kQ3_K:
      return Format::kQ3_K;
    case T::kQ4_K:
      return Format::kQ4_K;
    case T::kQ5_K:
      return Format::kQ5_K;
    case T::kQ6_K:
      return Format::kQ6_K;
    case T::kIQ4_NL:
      return Format::kIQ4_NL;
    case T::kIQ4_XS:
      return Format::kIQ4_XS;
    case T::kIQ1_S:
    case T::kIQ1_M:
    case T::kIQ2_XXS:
    case T::kIQ2_XS:
    case T::kIQ2_S:
      return Format::kTwoBit;
    case T::kIQ3_XXS:
      return Format::kIQ3_XXS;
    case T::kIQ3_S:
      return Format::kIQ3_S;
    case T::kMXFP4:
      return Format::kMXFP4;
    case T::kNVFP4:
      return Format::kNVFP4;
    case T::kTQ1_0:
    case T::kTQ2_0:
    case T::kQ1_0:
    case T::kQ2_0:
      return Format::kTernary;
    default:
      return std::nullopt;
  }
}

PackedMatrix packed_geometry(Format format, std::int64_t rows, std::int64_t cols,
                             std::int64_t group_rows) {
  CHECK(rows > 0 && cols > 0 && group_rows > 0 && rows % group_rows == 0);
  const Layout& layout = layout_of(format);
  CHECK(!layout.has_d || cols % layout.block == 0);
  PackedMatrix m;
  m.format = format;
  m.rows = rows;
  m.cols = cols;
  m.group_rows = group_rows;
  m.group_panels = round_up(group_rows, kLanes) / kLanes;
  m.panels = rows / group_rows * m.group_panels;
  m.blocks = round_up(cols, layout.block) / layout.block;
  m.panel_bytes = static_cast<std::size_t>(
      round_up(m.blocks * static_cast<std::int64_t>(block_bytes(layout)), 64));
  return m;
}

}  // namespace holdfast::cpu
