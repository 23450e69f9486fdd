#pragma once
// Scratch memory of a forward: the rows of a batch by name, and each thread's own. All of it is
// carved from one region as plan::ScratchPlan says.

#include <cstdint>
#include <vector>

#include "shared/plan/scratch.h"
#include "worker/backend/cpu/kernels.h"

namespace holdfast::cpu {

/// Rows of floats, `stride` apart.
struct FloatRows {
  float* at = nullptr;
  std::int64_t stride = 0;

  float* row(std::int64_t i) const { return at + i * stride; }
};

/// Cosines and sines of one kind of layer, [context][pairs].
struct RopeTable {
  std::int64_t pairs = 0;
  float* cos = nullptr;
  float* sin = nullptr;
};

/// The router's results (kRoute) for the experts' operations. A slot is a row of the batch at one
/// of its experts; slots are ordered by expert, then by row.
struct Routing {
  FloatRows logits;                  // [batch][experts to 16]
  std::int32_t* expert = nullptr;    // [batch][used]
  float* weight = nullptr;           // [batch][used]
  float* gate = nullptr;             // [batch]: gate of the shared expert
  std::int32_t* slot_row = nullptr;  // [batch * used]
  float* slot_weight = nullptr;
  std::int32_t* group = nullptr;  // [experts], `groups` used: those with slots, rising
  std::int32_t* first = nullptr;  // [experts + 1]: first slot of each expert
  FloatRows input;                // [batch * used][width]: rows of Buffers::normed, by slot
  std::int32_t groups = 0;
};

/// Scratch memory of one thread.
struct WorkerScratch {
  float* unpack = nullptr;                  // kUnpackFloats
  float* tile = nullptr;                    // [batch][Buffers::tile_cols]
  float* item_rows = nullptr;               // [batch][Buffers::item_cols]
  float* private_rows = nullptr;            // [kPrivateRows][width]
  std::uint8_t* private_encoded = nullptr;  // [kPrivateRows], encoded
  float* attention = nullptr;               // attention_scratch_floats
  float* token_row = nullptr;               // [width], one embedding row
  float* delta = nullptr;                   // delta_scratch_floats
  float* latent = nullptr;                  // [head_pad]
  float* token_inputs = nullptr;            // [layers * layer_input], one row of the layers' inputs
};

/// The buffers of a batch. Rows are padded to what a product reads; null where the model has no
/// such rows. `encoded`: in the activation format of an operation (Products::encoded_stride).
struct Buffers {
  FloatRows residual;               // x: [batch][width]
  FloatRows normed;                 // h: [batch][width], rows between two operations
  FloatRows query;                  // [batch][heads][head_pad]
  FloatRows attention_out;          // a: [batch][attention_width]
  FloatRows feed_forward;           // f: [batch][ff], or encoded
  std::uint8_t* encoded = nullptr;  // [batch, or batch * used]: rows that a product takes
  FloatRows logit_inputs;           // [logit rows][width]: rows of residual that get logits
  FloatRows logits;                 // [logit rows][vocab], compacted to vocab at the end
  FloatRows logit_maxima;           // [logit rows][blocks of vocab]: backend::LogitRow
  FloatRows mixer_input;  // m: [batch], input of a convolution; in latent attention that of the
                          // queries' product, and later the heads' values
  FloatRows gate;         // z: [batch][attention_width], gates of attention_out; latent numbers
  FloatRows head_input;   // [heads][batch], each head's own rows in latent attention
  std::uint8_t* head_encoded = nullptr;  // the same encoded
  FloatRows delta_gates;                 // [batch][2][state_heads to 16]
  FloatRows layer_input;          // p: [batch][layers][layer_input to 16], each layer's own input
  FloatRows dense_out;            // s: [batch][width], rows that are added to normed later
  FloatRows key;                  // [batch][kv_heads][head_pad], keys before a norm over all heads
  FloatRows expert_feed_forward;  // [batch * used][expert_ff]: feed_forward of the experts
  Routing routing;
  RopeTable rope_tables[2];
  std::int64_t head_pad = 0;   // of the larger kind of heads
  std::int64_t item_cols = 0;  // stride of the rows of a work item
  std::int64_t tile_cols = 0;  // stride of a tile
  std::vector<WorkerScratch> workers;
};

/// Carves the buffers of a plan from `memory`, which has plan.bytes(). `item_panels`: panels in a
/// work item of the kernels that run.
Buffers carve(const plan::ScratchPlan& plan, const plan::ModelShape& shape,
              std::int64_t item_panels, int threads, std::uint8_t* memory);

}  // namespace holdfast::cpu
