#include "shared/plan/scratch.h"

#include <algorithm>

#include "shared/plan/family.h"
#include "shared/plan/kernel_sizes.h"
#include "shared/plan/saturating.h"

namespace holdfast::plan {
namespace {

constexpr std::uint64_t kLine = 64;

/// Returns the stride of rows of `n` floats that a product takes: more than the width, so that rows
/// of a power of two do not fall into one cache set.
std::int64_t operand_stride(std::int64_t n) {
  return round_up(n, kSpan) + kLanes;
}

/// Returns the stride in blocks of encoded rows of `n` elements, with a block more than these need
/// (Products::encoded_stride).
std::int64_t encoded_blocks(std::int64_t n) {
  return round_up(n, kActivationBlock) / kActivationBlock + 1;
}

/// Returns the elements of the widest row that a product takes.
std::int64_t widest_operand(const ModelShape& shape) {
  return std::max({shape.width, attention_width(shape), shape.q_latent,
                   shape.heads * shape.head_value, dense_ff(shape),
                   shape.experts > 0 ? shape.expert_ff : std::int64_t{0}});
}

/// Returns the queries of one call of attention.
std::int64_t attention_queries(const ModelShape& shape) {
  std::int64_t queries = kAttentionQueriesMost;
  for (const KvHeads& kind : {plain_heads(shape), window_heads(shape)}) {
    if (kind.heads > 0) queries = std::max(queries, shape.heads / kind.heads);
  }
  return queries;
}

bool has_states(const ModelShape& shape) {
  return shape.attention_step > 0 && shape.layers > attention_layers(shape);
}

/// True if a dense feed-forward runs in parallel to the experts.
bool has_dense_out(const ModelShape& shape) {
  const Family* family = find_family(shape.architecture);
  return shape.experts > 0 && family != nullptr && family->experts_with_dense_ffn;
}

/// Writes the regions of a plan, a part of the model at a time.
class ScratchPlanner {
 public:
  ScratchPlanner(const ModelShape& shape, const ScratchLimits& limits, std::int64_t head_pad)
      : shape_(shape),
        limits_(limits),
        head_pad_(head_pad),
        batch_(Saturating::of(limits.batch_tokens)),
        row_(operand_stride(shape.width)) {}

  ScratchRegions plan() {
    batch_rows();
    logit_rows();
    thread_rows();
    latent_rows();
    state_rows();
    rope_tables();
    variant_rows();
    expert_rows();
    return regions_;
  }

 private:
  using B = ScratchBuffer;

  ScratchRegion& add(B buffer, const char* name, Saturating count, std::int64_t stride) {
    ScratchRegion& region = regions_[static_cast<std::size_t>(buffer)];
    region = {name, count.n, stride, sizeof(float), 1};
    return region;
  }
  void add_encoded(B buffer, const char* name, Saturating count, std::int64_t stride) {
    add(buffer, name, count, stride).element_bytes = kActivationBlockBytes;
  }
  ScratchRegion& add_thread(B buffer, const char* name, Saturating count, std::int64_t stride) {
    ScratchRegion& region = add(buffer, name, count, stride);
    region.copies = static_cast<std::uint64_t>(std::max(limits_.threads, 1));
    return region;
  }

  void batch_rows() {
    const Saturating logit_rows = Saturating::of(std::max<std::uint64_t>(limits_.logit_rows, 1));
    const Saturating slots = batch_ * std::max<std::int64_t>(1, shape_.experts_used);
    add(B::kResidual, "residual", batch_, row_);
    add(B::kNormed, "normed", max(batch_, logit_rows), row_);
    add(B::kQuery, "query", batch_, shape_.heads * head_pad_ + kLanes);
    add(B::kAttentionOut, "attention out", batch_, operand_stride(attention_width(shape_)));
    add(B::kFeedForward, "feed-forward", batch_, operand_stride(dense_ff(shape_)));
    add_encoded(B::kEncoded, "encoded rows", max(slots, logit_rows),
                encoded_blocks(widest_operand(shape_)));
  }

  void logit_rows() {
    const Saturating rows = Saturating::of(std::max<std::uint64_t>(limits_.logit_rows, 1));
    add(B::kLogitInputs, "logit inputs", rows, row_);
    add(B::kLogits, "logits", rows, round_up(shape_.vocab, kLanes));
    add(B::kLogitMaxima, "logit maxima", rows,
        round_up((shape_.vocab + kLogitBlockIds - 1) / kLogitBlockIds, kLanes));
  }

  void thread_rows() {
    constexpr std::int64_t kItemCols = item_cols(kItemPanelsMost);
    add_thread(B::kUnpacked, "unpacked weights", 1, kUnpackFloats);
    add_thread(B::kTile, "tile", batch_, std::max(kItemCols, head_pad_));
    add_thread(B::kItemRows, "rows of a work item", batch_, kItemCols);
    add_thread(B::kPrivateRows, "private rows", kPrivateRows, row_);
    add_thread(B::kPrivateEncoded, "private encoded rows", kPrivateRows,
               encoded_blocks(widest_operand(shape_)))
        .element_bytes = kActivationBlockBytes;
    add_thread(B::kAttentionWork, "attention's work", 1,
               attention_scratch_floats(attention_queries(shape_), head_pad_));
    add_thread(B::kTokenRow, "row of a token", 1, row_);
  }

  void latent_rows() {
    if (shape_.latent == 0) return;
    const Saturating rows = batch_ * shape_.heads;
    const std::int64_t widest = std::max(shape_.latent, shape_.head_key - shape_.rope_dims);
    add(B::kMixerInput, "mixer input", batch_,
        operand_stride(std::max(shape_.q_latent, shape_.heads * shape_.head_value)));
    add(B::kGate, "gate", batch_, operand_stride(attention_width(shape_)));
    add(B::kHeadInput, "head input", rows, operand_stride(widest));
    add_encoded(B::kHeadEncoded, "encoded head input", rows, encoded_blocks(widest));
    add_thread(B::kLatentRow, "row of latent numbers", 1, head_pad_);
  }

  void state_rows() {
    if (!has_states(shape_)) return;
    add(B::kMixerInput, "mixer input", batch_, round_up(conv_width(shape_), kLanes) + kLanes);
    add(B::kGate, "gate", batch_, operand_stride(attention_width(shape_)));
    add(B::kDeltaGates, "delta gates", batch_, 2 * round_up(shape_.state_heads, kLanes));
    add_thread(B::kDeltaWork, "delta net's work", 1,
               delta_scratch_floats(shape_.state_key, shape_.state_value));
  }

  void add_table(B cosines, B sines, std::int64_t dims) {
    const Saturating floats = Saturating(limits_.context) * (dims / 2) + kLanes;
    add(cosines, "cosines", floats, 1);
    add(sines, "sines", floats, 1);
  }
  void rope_tables() {
    if (shape_.rope_dims > 0) add_table(B::kCosines, B::kSines, shape_.rope_dims);
    const std::int64_t second = second_rope_dims(shape_);
    if (second > 0) add_table(B::kSecondCosines, B::kSecondSines, second);
  }

  void variant_rows() {
    if (shape_.layer_input > 0) {
      add(B::kLayerInput, "layer input", batch_,
          shape_.layers * round_up(shape_.layer_input, kLanes) + kLanes);
      add_thread(B::kTokenInputs, "layer inputs of a token", 1, shape_.layers * shape_.layer_input);
    }
    if (has_dense_out(shape_)) add(B::kDenseOut, "dense out", batch_, row_);
    if (shape_.qk_norm_row) add(B::kKey, "key", batch_, shape_.kv_heads * head_pad_ + kLanes);
  }

  void expert_rows() {
    if (shape_.experts == 0) return;
    const Saturating slots = batch_ * shape_.experts_used;
    add(B::kExpertFeedForward, "experts' feed-forward", slots, operand_stride(shape_.expert_ff));
    add(B::kExpertInput, "experts' input", slots, row_);
    add(B::kRouterLogits, "router's logits", batch_, round_up(shape_.experts, kLanes));
    add(B::kExpertWeights, "weights of experts", slots, 1);
    add(B::kSlotWeights, "weights of slots", slots, 1);
    add(B::kSharedExpertGate, "gate of the shared expert", batch_, 1);
    add(B::kExpertIds, "ids of experts", slots, 1);
    add(B::kSlotRows, "rows of slots", slots, 1);
    add(B::kExpertGroups, "groups of slots", shape_.experts, 1);
    add(B::kFirstSlots, "first slots", shape_.experts + 1, 1);
  }

  const ModelShape& shape_;
  const ScratchLimits& limits_;
  const std::int64_t head_pad_;
  const Saturating batch_;
  const std::int64_t row_;  // stride of rows of the model's width
  ScratchRegions regions_;
};

}  // namespace

std::uint64_t ScratchRegion::bytes() const {
  const Saturating elements = Saturating::of(count) * stride;
  return whole(elements * Saturating::of(element_bytes), kLine).n;
}

ScratchPlan::ScratchPlan(const ModelShape& shape, const ScratchLimits& limits)
    : head_pad_(round_up(std::max(shape.head_dim, shape.window_head_dim), kLanes)),
      regions_(ScratchPlanner(shape, limits, head_pad_).plan()) {}

std::uint64_t ScratchPlan::bytes() const {
  Saturating all;
  for (const ScratchRegion& region : regions_) {
    all = all + Saturating::of(region.bytes()) * Saturating::of(region.copies);
  }
  return all.n;
}

std::uint64_t state_bytes(const ModelShape& shape, std::int32_t states) {
  if (!has_states(shape)) return 0;
  return (Saturating(states) * (shape.layers - attention_layers(shape)) * state_floats(shape) *
          std::int64_t{sizeof(float)})
      .n;
}

}  // namespace holdfast::plan
