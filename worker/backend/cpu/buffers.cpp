#include "worker/backend/cpu/buffers.h"

#include <algorithm>

#include "shared/base/check.h"
#include "worker/backend/cpu/memory.h"

namespace holdfast::cpu {
namespace {

using B = plan::ScratchBuffer;

/// Hands out the regions of a ScratchPlan one after the other; null where the model has none.
class ScratchArena {
 public:
  ScratchArena(const plan::ScratchPlan& plan, std::uint8_t* memory) : plan_(plan), arena_(memory) {}

  std::uint8_t* bytes(B buffer) {
    const std::uint64_t bytes = plan_[buffer].bytes();
    return bytes == 0 ? nullptr : arena_.bytes(static_cast<std::size_t>(bytes));
  }
  float* floats(B buffer) { return reinterpret_cast<float*>(bytes(buffer)); }
  std::int32_t* ints(B buffer) { return reinterpret_cast<std::int32_t*>(bytes(buffer)); }
  FloatRows rows(B buffer) { return {floats(buffer), plan_[buffer].stride}; }
  std::size_t used() const { return arena_.used(); }

 private:
  const plan::ScratchPlan& plan_;
  Arena arena_;
};

WorkerScratch carve_worker(ScratchArena& c) {
  WorkerScratch w;
  w.unpack = c.floats(B::kUnpacked);
  w.tile = c.floats(B::kTile);
  w.item_rows = c.floats(B::kItemRows);
  w.private_rows = c.floats(B::kPrivateRows);
  w.private_encoded = c.bytes(B::kPrivateEncoded);
  w.attention = c.floats(B::kAttentionWork);
  w.token_row = c.floats(B::kTokenRow);
  w.latent = c.floats(B::kLatentRow);
  w.token_inputs = c.floats(B::kTokenInputs);
  w.delta = c.floats(B::kDeltaWork);
  return w;
}

void carve_routing(ScratchArena& c, Routing& r) {
  r.input = c.rows(B::kExpertInput);
  r.logits = c.rows(B::kRouterLogits);
  r.weight = c.floats(B::kExpertWeights);
  r.slot_weight = c.floats(B::kSlotWeights);
  r.gate = c.floats(B::kSharedExpertGate);
  r.expert = c.ints(B::kExpertIds);
  r.slot_row = c.ints(B::kSlotRows);
  r.group = c.ints(B::kExpertGroups);
  r.first = c.ints(B::kFirstSlots);
}

/// Carves the rows that only some architectures have.
void carve_variants(ScratchArena& c, const plan::ModelShape& shape, Buffers& b) {
  b.mixer_input = c.rows(B::kMixerInput);
  b.gate = c.rows(B::kGate);
  b.head_input = c.rows(B::kHeadInput);
  b.head_encoded = c.bytes(B::kHeadEncoded);
  b.delta_gates = c.rows(B::kDeltaGates);
  b.rope_tables[0] = {shape.rope_dims / 2, c.floats(B::kCosines), c.floats(B::kSines)};
  b.rope_tables[1] = {plan::second_rope_dims(shape) / 2, c.floats(B::kSecondCosines),
                      c.floats(B::kSecondSines)};
  b.layer_input = c.rows(B::kLayerInput);
  b.dense_out = c.rows(B::kDenseOut);
  b.key = c.rows(B::kKey);
}

}  // namespace

Buffers carve(const plan::ScratchPlan& plan, const plan::ModelShape& shape,
              std::int64_t item_panels, int threads, std::uint8_t* memory) {
  ScratchArena c(plan, memory);
  Buffers b;
  b.head_pad = plan.head_pad();
  b.item_cols = plan::item_cols(item_panels);
  b.tile_cols = std::max(b.item_cols, b.head_pad);
  b.residual = c.rows(B::kResidual);
  b.normed = c.rows(B::kNormed);
  b.query = c.rows(B::kQuery);
  b.attention_out = c.rows(B::kAttentionOut);
  b.feed_forward = c.rows(B::kFeedForward);
  b.encoded = c.bytes(B::kEncoded);
  b.logit_inputs = c.rows(B::kLogitInputs);
  b.logits = c.rows(B::kLogits);
  b.logit_maxima = c.rows(B::kLogitMaxima);
  for (int i = 0; i < threads; ++i) b.workers.push_back(carve_worker(c));
  carve_variants(c, shape, b);
  b.expert_feed_forward = c.rows(B::kExpertFeedForward);
  carve_routing(c, b.routing);
  CHECK(c.used() == plan.bytes());
  return b;
}

}  // namespace holdfast::cpu
