#pragma once
// Programs as text: kernels (kernels/*.cl, compiled in) behind the macros that make them special.

#include <string>

#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/layout.h"

namespace holdfast::opencl {

/// one_N and pair_N (N of kRowsShared), embed, and without `wide_lanes` tile, for weights of this
/// format. `wide_lanes`: an item has all rows of a panel.
std::string product_source(cpu::Format format, bool wide_lanes);
/// beside_N for two matrices of these formats.
std::string beside_source(cpu::Format first, cpu::Format second, bool wide_lanes);
/// finish_head, attention, merge_splits for pages of this type.
std::string pages_source(cpu::KvType type);
/// spread, norm_rms, norm_layer, gather, rescale, best.
std::string rows_source();
/// choose_experts, open_gate, add_slots.
std::string experts_source();

}  // namespace holdfast::opencl
