#pragma once
// The scratch memory of the CPU backend, the largest of all backends: which buffers a load has and
// how large each is. The memory plan sums the buffers and the loader carves them, so that both
// agree; nothing else says how much scratch memory there is.

#include <array>
#include <cstddef>
#include <cstdint>

#include "shared/plan/plan.h"

namespace holdfast::plan {

/// The buffers in the order of their memory. cpu::Buffers says what each holds.
enum class ScratchBuffer : std::uint8_t {
  kResidual,
  kNormed,
  kQuery,
  kAttentionOut,
  kFeedForward,
  kEncoded,
  kLogitInputs,
  kLogits,
  kLogitMaxima,
  // One a thread.
  kUnpacked,
  kTile,
  kItemRows,
  kPrivateRows,
  kPrivateEncoded,
  kAttentionWork,
  kTokenRow,
  kLatentRow,
  kTokenInputs,
  kDeltaWork,
  // Layers of some architectures.
  kMixerInput,
  kGate,
  kHeadInput,
  kHeadEncoded,
  kDeltaGates,
  kCosines,
  kSines,
  kSecondCosines,
  kSecondSines,
  kLayerInput,
  kDenseOut,
  kKey,
  // Mixture of experts.
  kExpertFeedForward,
  kExpertInput,
  kRouterLogits,
  kExpertWeights,
  kSlotWeights,
  kSharedExpertGate,
  kExpertIds,
  kSlotRows,
  kExpertGroups,
  kFirstSlots,
  kCount
};

/// A buffer: `count` rows, `stride` elements apart. Sizes saturate.
struct ScratchRegion {
  const char* name = "";
  std::uint64_t count = 0;  // 0: the model has no such rows
  std::int64_t stride = 0;
  std::uint64_t element_bytes = sizeof(float);
  std::uint64_t copies = 1;  // one a thread

  /// The bytes of one copy, which begins at a cache line and ends at one.
  std::uint64_t bytes() const;
};

using ScratchRegions = std::array<ScratchRegion, static_cast<std::size_t>(ScratchBuffer::kCount)>;

/// The limits of a load on which scratch memory depends.
struct ScratchLimits {
  std::int64_t context = 0;
  std::uint64_t batch_tokens = 0;
  std::uint64_t logit_rows = 0;
  std::int32_t threads = 1;
};

/// The regions of a load's scratch memory.
class ScratchPlan {
 public:
  ScratchPlan(const ModelShape& shape, const ScratchLimits& limits);

  const ScratchRegion& operator[](ScratchBuffer buffer) const {
    return regions_[static_cast<std::size_t>(buffer)];
  }
  /// Returns the bytes of all regions and copies; saturates.
  std::uint64_t bytes() const;
  /// Returns head_dim of the larger kind of heads, to whole lanes.
  std::int64_t head_pad() const { return head_pad_; }

 private:
  std::int64_t head_pad_;
  ScratchRegions regions_;
};

/// Returns the dimensions that the second rotary table turns: that of windowed layers, or of
/// queries; 0: there is one table.
inline std::int64_t second_rope_dims(const ModelShape& shape) {
  if (shape.window_rope_dims > 0) return shape.window_rope_dims;
  return shape.rope_tables > 1 ? shape.rope_dims : 0;
}

/// Returns the bytes of the states of `states` sequences, for models whose layers carry one (a
/// region of its own, counted with scratch); saturates.
std::uint64_t state_bytes(const ModelShape& shape, std::int32_t states);

}  // namespace holdfast::plan
