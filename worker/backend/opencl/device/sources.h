#pragma once
// Programs as text: the kernels (kernels/*.cl, compiled in) after the macros that specialize them.

#include <span>
#include <string>

#include "shared/plan/plan.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/weights/layout.h"

namespace holdfast::opencl {

/// The ways in which kernels use a device. Only `int8_rows` enters the bits.
struct KernelCapabilities {
  bool wide_lanes = false;  // an item has all rows of a panel; not with int8_rows
  bool tiles = false;       // many rows are multiplied in tiles; not with wide_lanes
  bool int8_rows = false;   // products read rows as bytes (kernels/int8_rows.cl)
  int ahead = 0;            // prefetch, on GPUs; 0: none, 1: by OpenCL, 2: PTX
  int shuffle = 0;          // 0: none, 1: cl_khr_subgroup_shuffle_relative, 2: PTX
  int dot = 0;     // of bytes; 0: ordinary operations, 1: cl_khr_integer_dot_product, 2: PTX
  int matrix = 0;  // 0: dots instead, 1: ordinary operations, 2: PTX
};

/// The batch rows that may share a read of weights of these formats, rising from one; each has a
/// kernel. `second` is the format of the second matrix of a concat kernel, else equal to `first`.
std::span<const int> rows_shared(const KernelCapabilities& capabilities, cpu::Format first,
                                 cpu::Format second);
/// True if kernels of more than one row use matrix units, where 32 items compute a slice.
bool by_matrix(const KernelCapabilities& capabilities, cpu::Format first, cpu::Format second);

/// True if kernels of one row have more arguments: how many spans of the row lie in local memory at
/// a time, and that memory (kernels/row_ahead.cl).
bool has_row_ahead(const KernelCapabilities& capabilities, cpu::Format first, cpu::Format second);

/// Source of the kernels one_N and pair_N (N of rows_shared), embed, and without wide lanes tile,
/// for weights of this format.
std::string product_source(cpu::Format format, const KernelCapabilities& capabilities);
/// Source of the kernels concat_N for two matrices of these formats.
std::string concat_source(cpu::Format first, cpu::Format second,
                          const KernelCapabilities& capabilities);
/// Source of unpack for weights of this format; not with int8_rows.
std::string unpack_source(cpu::Format format, const KernelCapabilities& capabilities);
/// Source of pad_rows, finish_rows.
std::string dense_source(const KernelCapabilities& capabilities);
/// Source of finish_head, attention, merge_splits for pages of this type.
std::string pages_source(cpu::KvType type, const KernelCapabilities& capabilities);
/// Source of spread, norm_rms, norm_layer, gather, rescale, best, top_k, and with int8_rows the
/// kernel int8_rows.
std::string rows_source(const KernelCapabilities& capabilities);
/// Source of delta, gate_heads for recurrent layers with heads of the shape's sizes and work-groups
/// of `items`.
std::string delta_source(const plan::ModelShape& shape, int items,
                         const KernelCapabilities& capabilities);
/// Source of choose_experts, open_gate, add_slots.
std::string experts_source(const KernelCapabilities& capabilities);

/// A kernel f over 64 or more whole numbers (kernels/trials.cl), by which probe() sees if a
/// capability gives the right result.
enum class Trial { kShuffle = 1, kDot, kMatrix };
std::string trial_source(Trial trial, const KernelCapabilities& capabilities);

}  // namespace holdfast::opencl
