#pragma once
// Packs a program's weights: sizes first, then one region for all, then packing by every thread.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/plan/family.h"
#include "worker/backend/api/load.h"
#include "worker/backend/cpu/forward_context.h"
#include "worker/model/program.h"

namespace holdfast::cpu {

/// Returns true if the only rotation has another table for queries.
inline bool has_query_table(const model::Program& program) {
  return program.ropes.size() == 1 && !program.ropes[0].query_steps.empty();
}
/// Returns the index of a layer's ForwardContext::head_kinds.
inline std::int32_t head_kind_of(const model::Program& program, std::int64_t layer) {
  return plan::has_window_heads(program.shape, program.details, layer) ? 1 : 0;
}

/// Makes ForwardContext::program. Walks the program twice: the first walk has no memory and learns
/// the size.
class ProgramPacker {
 public:
  /// `pages_at`: the offset of each layer's keys.
  ProgramPacker(const model::Program& program, const backend::LoadOptions& options,
                std::vector<std::int64_t> pages_at, ForwardContext& to);

  /// Returns the bytes of all weights. Errors as backend::load.
  Result<std::size_t> measure();
  /// Fills `memory` of that size, or finds it `full`. Errors as backend::load.
  Result<void> fill(std::uint8_t* memory, bool full);

 private:
  struct Job {  // a matrix to pack
    PackedMatrix matrix;
    model::WeightRef from;
    std::size_t row_bytes;
  };

  Result<void> allocate(Arena& arena);
  PackedOp plain_op(const model::Op& op) const;
  HeadParts heads_of(const model::Op& op) const;
  static const ActivationFormat* activation_format_of(const PackedOp& op, const Kernels& kernels);
  void choose_activation_format(PackedOp& op, std::int32_t layer) const;
  void fuse_epilogue(PackedOp& gate, PackedOp& down) const;
  Result<void> allocate_op(const model::Op& op, PackedOp& out, Arena& arena);
  Result<void> optional(const model::WeightRef& w, std::int64_t group, Arena& arena,
                        const float*& to, double scale = 1);
  Result<void> allocate_router(const model::Op& op, PackedOp& out, Arena& arena);
  Result<void> allocate_norm(const model::Op& op, PackedOp& out, Arena& arena, double scale = 1);
  Result<void> allocate_position_embeddings(const model::Op& op, PackedOp& out, Arena& arena);
  Result<void> allocate_delta(const model::Op& op, PackedOp& out, Arena& arena);
  Result<void> allocate_qkv(const model::Op& op, PackedOp& out, Arena& arena);
  Result<PackedMatrix> matrix(const model::WeightRef& w, std::int64_t group_rows, Arena& arena);
  Result<const float*> vector(const model::WeightRef& w, std::int64_t group, Arena& arena,
                              double scale = 1);
  Result<const float*> turned(const model::WeightRef& w, Arena& arena);
  Result<void> allocate_embedding(Arena& arena);
  Result<void> allocate_rows(const model::WeightRef& w, EmbeddingTable& e, Arena& arena);
  Result<void> pack_matrices();

  const model::Program& program_;
  const backend::LoadOptions& options_;
  const std::vector<std::int64_t> pages_at_;
  ForwardContext& to_;
  std::vector<Job> jobs_;
  bool full_ = false;  // the weights' memory is filled already
};

}  // namespace holdfast::cpu
