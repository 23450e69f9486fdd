#pragma once
// The state that the operations of a forward share. The loader builds it, the executor owns it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "shared/base/memory_nodes.h"
#include "shared/base/thread_pool.h"
#include "worker/backend/api/load.h"
#include "worker/backend/cpu/buffers.h"
#include "worker/backend/cpu/cached_weights.h"
#include "worker/backend/cpu/kernels.h"
#include "worker/backend/cpu/memory.h"
#include "worker/backend/cpu/packed_op.h"
#include "worker/backend/cpu/step_batch.h"

namespace holdfast::cpu {

using plan::kPrivateRows;
inline constexpr std::int64_t kRowGroupsMost = 8;

/// The heads of keys and values of one kind of layer.
struct HeadKind {
  std::int64_t kv_heads = 0;  // 0: there is no such layer
  std::int64_t head_dim = 0;
  std::int64_t pad = 0;         // head_dim rounded up to 16
  std::int64_t page_bytes = 0;  // of keys or of values of a layer, from page to page
};

/// The next work item of each operation, drawn by the threads.
class Tickets {
 public:
  /// Makes the tickets of `ops`, which stay where they are.
  void reserve(const std::vector<PackedOp>& ops) {
    first_ = ops.data();
    tickets_ = std::vector<std::atomic<std::int64_t>>(ops.size() * kRowGroupsMost);
  }
  void reset() {
    for (auto& ticket : tickets_) ticket.store(0, std::memory_order_relaxed);
  }
  std::atomic<std::int64_t>& of(const PackedOp& op, std::int64_t group = 0) {
    return tickets_[static_cast<std::size_t>((&op - first_) * kRowGroupsMost + group)];
  }

 private:
  const PackedOp* first_ = nullptr;
  std::vector<std::atomic<std::int64_t>> tickets_;  // [ops][kRowGroupsMost]
};

/// The memory of a load, as long as the executor lives.
struct LoadedMemory {
  std::unique_ptr<CachedWeights> cached_weights;  // that hold `weights`; null: not cached
  Region weights;
  Region kv;
  Region states;  // [Limits::states][state layers][plan::state_floats]
  Region scratch;
  bool found_packed = false;
};

/// A load: the program as packed, its kernels, threads and memory, and the running batch.
struct ForwardContext {
  ForwardContext(const Kernels& family, const plan::ModelShape& model_shape,
                 const backend::LoadOptions& options, KvType type)
      : kernels(family),
        prefill_kernels(family.prefill_heavy != nullptr ? *family.prefill_heavy : family),
        shape(model_shape),
        limits(options.limits),
        kv_type(type),
        pool(options.threads),
        numa_nodes(options.threads) {}

  const Kernels& kernels;
  const Kernels& prefill_kernels;  // for prefill-heavy segments; `kernels` where it is no matter
  const plan::ModelShape shape;
  const backend::Limits limits;
  const KvType kv_type;
  ThreadPool pool;
  const WorkerNumaNodes numa_nodes;
  HeadKind
      head_kinds[kHeadKinds];  // of all layers; or of those without a window and those with one
  PackedProgram program;
  LoadedMemory memory;
  Buffers buffers;
  StepBatch batch;
  Tickets tickets;
};

}  // namespace holdfast::cpu
