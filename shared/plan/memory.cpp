// Computes the memory envelope of a load; plan.h has the formulas, scratch.h the scratch memory.

#include <algorithm>
#include <limits>

#include "shared/plan/kernel_sizes.h"
#include "shared/plan/plan.h"
#include "shared/plan/saturating.h"
#include "shared/plan/scratch.h"

namespace holdfast::plan {
namespace {

constexpr std::int64_t kDefaultContext = 4096;
constexpr std::int32_t kDefaultSlots = 16;
constexpr std::int64_t kDefaultPrefillChunk = 512;
constexpr std::uint64_t kHuge = 2u << 20;
constexpr std::int64_t kTableBytes = 200;  // of a vocabulary entry, measured on 49k to 152k

std::int64_t pages_of(std::int64_t tokens) {
  return tokens / kPageTokens + (tokens % kPageTokens != 0 ? 1 : 0);
}

std::int32_t clamp_pages(std::uint64_t pages) {
  constexpr auto kMaxPages = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(std::min(pages, kMaxPages));
}

std::uint64_t huge_pages(Saturating bytes) {
  return whole(bytes, kHuge).n;
}

std::uint64_t scratch_bytes(const ModelShape& shape, const Envelope& load, std::int32_t threads) {
  const Saturating slots = load.slots;
  const ScratchPlan plan(shape, {load.context, (Saturating(load.prefill_chunk) + slots).n,
                                 (slots + kDraftRows).n, threads});
  return huge_pages(Saturating::of(plan.bytes()));
}

}  // namespace

std::optional<std::int64_t> kv_row_bytes(std::string_view kv_type, std::int64_t head_dim) {
  if (kv_type == "f32") return 4 * head_dim;
  if (kv_type == "f16" || kv_type == "bf16") return 2 * head_dim;
  if (kv_type == "int8") return head_dim + 4;
  if (kv_type == "fp8") return head_dim;
  return std::nullopt;
}

Envelope memory_envelope(const ModelShape& shape, const LoadRequest& load_request) {
  Envelope out;
  const std::int64_t trained = shape.context > 0 ? shape.context : kDefaultContext;
  out.context =
      load_request.context > 0 ? load_request.context : std::min(trained, kDefaultContext);
  out.slots = load_request.slots > 0 ? load_request.slots : kDefaultSlots;
  out.prefill_chunk =
      load_request.prefill_chunk > 0 ? load_request.prefill_chunk : kDefaultPrefillChunk;
  if (!shape.causal) out.prefill_chunk = std::max(out.prefill_chunk, out.context);
  const Saturating pages = load_request.pool_tokens > 0
                               ? Saturating(pages_of(load_request.pool_tokens))
                               : Saturating(out.slots) * pages_of(out.context);
  out.pages = clamp_pages(pages.n);
  out.weights = huge_pages(Saturating::of(shape.weights_bytes));
  Saturating rows = 0;  // of a token
  for (KvHeads kind : {plain_heads(shape), window_heads(shape)}) {
    const std::int64_t head_pad = round_up(kind.head_dim, 16);
    const std::int64_t row = kv_row_bytes(load_request.kv_type, head_pad).value_or(4 * head_pad);
    if (!shape.causal) kind.layers = std::min<std::int64_t>(kind.layers, 1);
    rows = rows + Saturating(kind.layers) * kind.heads * 2 * row;
  }
  out.kv = huge_pages(pages * kPageTokens * rows);
  // States do not depend on the pages, of which a device with less memory has fewer.
  const Saturating states = Saturating::of(state_bytes(shape, states_of(out.slots)));
  out.scratch = (Saturating::of(scratch_bytes(shape, out, load_request.threads)) +
                 Saturating::of(huge_pages(states)))
                    .n;
  out.tables = (Saturating(shape.vocab) * kTableBytes).n;
  out.load = Saturating::of(shape.load_bytes).n;
  return out;
}

std::uint64_t Envelope::total() const {
  return (Saturating::of(weights) + Saturating::of(kv) + Saturating::of(scratch) +
          Saturating::of(tables) + Saturating::of(load))
      .n;
}

}  // namespace holdfast::plan
