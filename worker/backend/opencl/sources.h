#pragma once
// Programs as text: kernels (kernels/*.cl, compiled in) behind the macros that make them special.

#include <span>
#include <string>

#include "shared/plan/plan.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/layout.h"

namespace holdfast::opencl {

/// How kernels do what devices do in several ways. Only `records` enters the bits.
struct KernelWays {
  bool wide_lanes = false;  // an item has all rows of a panel; not with records
  bool tiles = false;       // many rows are multiplied in tiles; not with wide lanes
  bool records = false;     // products read rows as bytes (kernels/records.cl)
  int ahead = 0;    // GPUs fetch memory ahead of what they compute; 0: others, 1: by OpenCL, 2: PTX
  int shuffle = 0;  // 0: none, 1: cl_khr_subgroup_shuffle_relative, 2: PTX
  int dot = 0;      // of bytes; 0: ordinary operations, 1: cl_khr_integer_dot_product, 2: PTX
  int matrix = 0;   // 0: dots instead, 1: ordinary operations, 2: PTX
};

/// Batch rows that may share a read of weights of these formats, rising from one; there are kernels
/// for each. The second format is that of a matrix beside the first one's.
std::span<const int> rows_shared(const KernelWays& ways, cpu::Format first, cpu::Format second);
/// Whether those of more than one row are multiplied by matrix units: 32 items have a slice.
bool by_matrix(const KernelWays& ways, cpu::Format first, cpu::Format second);

/// one_N and pair_N (N of rows_shared), embed, and without wide lanes tile, for weights of this
/// format.
std::string product_source(cpu::Format format, const KernelWays& ways);
/// beside_N for two matrices of these formats.
std::string beside_source(cpu::Format first, cpu::Format second, const KernelWays& ways);
/// finish_head, attention, merge_splits for pages of this type.
std::string pages_source(cpu::KvType type, const KernelWays& ways);
/// spread, norm_rms, norm_layer, gather, rescale, best, first_few, and with records
/// records.
std::string rows_source(const KernelWays& ways);
/// delta, gate_heads, for recurrent layers with heads of the shape's sizes.
std::string delta_source(const plan::ModelShape& shape, int items, const KernelWays& ways);
/// choose_experts, open_gate, add_slots.
std::string experts_source(const KernelWays& ways);

/// A kernel f over 64 whole numbers or more (kernels/trials.cl), by which probe() sees that a way
/// gives what it should.
enum class Trial { kShuffle = 1, kDot, kMatrix };
std::string trial_source(Trial trial, const KernelWays& ways);

}  // namespace holdfast::opencl
