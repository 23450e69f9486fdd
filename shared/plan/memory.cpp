// The memory envelope of a load; the formulas are in plan.h.

#include <algorithm>
#include <limits>

#include "shared/plan/plan.h"

namespace holdfast::plan {
namespace {

constexpr std::int64_t kDefaultContext = 4096;
constexpr std::int32_t kDefaultSlots = 16;
constexpr std::int64_t kDefaultPrefillChunk = 512;
constexpr std::uint64_t kThreadBytes = 1u << 20;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// Saturating non-negative integer: a wish may be absurd, its envelope must then be too large to
/// fit anywhere, never small by wrapping.
struct Bytes {
  std::uint64_t n = 0;
  Bytes(std::int64_t v) : n(v < 0 ? 0 : static_cast<std::uint64_t>(v)) {}  // NOLINT
  explicit Bytes(std::uint64_t v, bool) : n(v) {}
};
Bytes operator*(Bytes a, Bytes b) {
  return Bytes(checked_mul(a.n, b.n).value_or(kMost), true);
}
Bytes operator+(Bytes a, Bytes b) {
  return Bytes(checked_add(a.n, b.n).value_or(kMost), true);
}

std::int64_t pages_of(std::int64_t tokens) {
  return tokens / kPageTokens + (tokens % kPageTokens != 0 ? 1 : 0);
}

std::int32_t clamp_pages(std::uint64_t pages) {
  constexpr auto kMaxPages = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(std::min(pages, kMaxPages));
}

std::uint64_t scratch_bytes(const ModelShape& shape, const Envelope& load, std::int32_t threads) {
  const Bytes q = Bytes(shape.heads) * shape.head_dim;
  const Bytes kv = Bytes(shape.kv_heads) * shape.head_dim;
  const Bytes row = (Bytes(shape.width) * 3 + q * 2 + kv * 2 + Bytes(shape.ff) * 3) * sizeof(float);
  const Bytes rows = Bytes(load.prefill_chunk) + load.slots;
  const Bytes logits = Bytes(load.slots) * shape.vocab * sizeof(float);
  const std::int64_t group = shape.kv_heads > 0 ? shape.heads / shape.kv_heads : 1;
  const Bytes per_thread = Bytes(load.context) * group * sizeof(float) + Bytes(kThreadBytes, true);
  return (rows * row + logits + per_thread * std::max(threads, 1)).n;
}

}  // namespace

std::optional<std::int64_t> kv_row_bytes(std::string_view kv_type, std::int64_t head_dim) {
  if (kv_type == "f32") return 4 * head_dim;
  if (kv_type == "f16" || kv_type == "bf16") return 2 * head_dim;
  if (kv_type == "int8") return head_dim + 4;
  return std::nullopt;
}

Envelope memory_envelope(const ModelShape& shape, const LoadWish& wish) {
  Envelope out;
  const std::int64_t trained = shape.context > 0 ? shape.context : kDefaultContext;
  out.context = wish.context > 0 ? wish.context : std::min(trained, kDefaultContext);
  out.slots = wish.slots > 0 ? wish.slots : kDefaultSlots;
  out.prefill_chunk = wish.prefill_chunk > 0 ? wish.prefill_chunk : kDefaultPrefillChunk;
  const Bytes pages = wish.pool_tokens > 0 ? Bytes(pages_of(wish.pool_tokens))
                                           : Bytes(out.slots) * pages_of(out.context);
  out.pages = clamp_pages(pages.n);
  const std::int64_t row = kv_row_bytes(wish.kv_type, shape.head_dim).value_or(4 * shape.head_dim);
  out.weights = checked_add(shape.weights_bytes, shape.tied_copy_bytes).value_or(kMost);
  out.kv = (pages * kPageTokens * shape.layers * shape.kv_heads * 2 * row).n;
  out.scratch = scratch_bytes(shape, out, wish.threads);
  return out;
}

}  // namespace holdfast::plan
