// Computes the memory envelope of a load; plan.h has the formulas.

#include <algorithm>
#include <limits>

#include "shared/plan/family.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {
namespace {

constexpr std::int64_t kDefaultContext = 4096;
constexpr std::int32_t kDefaultSlots = 16;
constexpr std::int64_t kDefaultPrefillChunk = 512;
constexpr std::uint64_t kHuge = 2u << 20;
constexpr std::int64_t kTableBytes = 200;  // of a vocabulary entry, measured on 49k to 152k
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// A saturating non-negative integer: the envelope of an absurd request must be too large to fit
/// anywhere, never small by wrapping.
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

std::int64_t to_multiple(std::int64_t n, std::int64_t of) {
  return (n + of - 1) / of * of;
}

std::uint64_t huge_pages(Bytes bytes) {
  return (Bytes(bytes.n / kHuge + (bytes.n % kHuge != 0 ? 1 : 0), true) * Bytes(kHuge, true)).n;
}

/// Returns the scratch of the CPU backend (worker/backend/cpu/load.cpp, allocate_scratch), the
/// largest of all backends.
std::uint64_t scratch_bytes(const ModelShape& shape, const Envelope& load, std::int32_t threads) {
  const std::int64_t head_pad = to_multiple(std::max(shape.head_dim, shape.window_head_dim), 16);
  const Bytes x = to_multiple(shape.width, 32) + 16;
  const Bytes a = to_multiple(attention_width(shape), 32) + 16;
  const Bytes f = to_multiple(dense_ff(shape), 32) + 16;
  const Bytes q = shape.heads * head_pad + 16;
  const Bytes batch = Bytes(load.prefill_chunk) + load.slots;
  const Bytes rows = Bytes(load.slots) + kDraftRows;
  const std::int64_t maxima = to_multiple((shape.vocab + 127) / 128, 16);  // backend::LogitRow
  const auto group_of = [&](std::int64_t n) { return n > 0 ? shape.heads / n : 1; };
  const std::int64_t group = std::max(group_of(shape.kv_heads), group_of(shape.window_kv_heads));
  const std::int64_t queries = std::max<std::int64_t>(256, group);
  const std::int64_t wide = to_multiple(head_pad, 32);
  const Bytes attention = Bytes(queries) * (2 * head_pad + 4) + Bytes(128 * head_pad + 4'672) +
                          Bytes(to_multiple(queries, 16) + 128) * wide;
  // Rows as int15 activations: 96 bytes for each 32 elements.
  const std::int64_t widest =
      std::max({shape.width, attention_width(shape), shape.q_latent, shape.heads * shape.head_value,
                dense_ff(shape), shape.experts > 0 ? shape.expert_ff : std::int64_t{0}});
  const Bytes blocks = (Bytes(to_multiple(widest, 32) / 32) + 1) * 24;
  const std::int64_t slots_of_row =
      shape.experts > 0 ? std::max<std::int64_t>(1, shape.experts_used) : 1;
  const Bytes thread = Bytes(131'072) + batch * (std::max<std::int64_t>(272, head_pad) + 272) +
                       x * 5 + blocks * 4 + attention;
  const std::int64_t second = shape.window_rope_dims > 0
                                  ? shape.window_rope_dims
                                  : shape.rope_dims * (shape.rope_tables - 1);
  const Bytes tables = Bytes(load.context) * (shape.rope_dims + second);
  Bytes floats = batch * (x * 2 + q + a + f + blocks * slots_of_row) +
                 rows * (x + to_multiple(shape.vocab, 16) + maxima) +
                 thread * std::max(threads, 1) + tables;
  if (shape.latent > 0) {
    const std::int64_t m =
        to_multiple(std::max(shape.q_latent, shape.heads * shape.head_value), 32) + 16;
    const std::int64_t n =
        to_multiple(std::max(shape.latent, shape.head_key - shape.rope_dims), 32);
    floats = floats + batch * (a + m + Bytes(shape.heads) * (n + 16 + 24 * (n / 32 + 1))) +
             Bytes(head_pad) * std::max(threads, 1);
  }
  if (shape.attention_step > 0) {
    const std::int64_t gates = 2 * to_multiple(shape.state_heads, 16);
    const std::int64_t head =
        to_multiple(shape.state_key, 16) + to_multiple(shape.state_value, 16) + 1;
    floats = floats + batch * (a + (to_multiple(conv_width(shape), 16) + 16 + gates)) +
             Bytes(32 * head) * std::max(threads, 1);
  }
  if (shape.layer_input > 0) {
    const std::int64_t all = shape.layers * to_multiple(shape.layer_input, 16);
    floats = floats + batch * (all + 16) +
             Bytes(shape.layers * shape.layer_input) * std::max(threads, 1);
  }
  const Family* family = find_family(shape.architecture);
  if (shape.experts > 0 && family != nullptr && family->experts_with_dense_ffn)
    floats = floats + batch * x;
  if (shape.qk_norm_row) floats = floats + batch * (shape.kv_heads * head_pad + 16);
  if (shape.experts > 0) {
    const Bytes slot = x + Bytes(to_multiple(shape.expert_ff, 32) + 16 + 4);
    const Bytes row = Bytes(to_multiple(shape.experts, 16) + 1);
    floats = floats + batch * shape.experts_used * slot + batch * row + Bytes(2 * shape.experts);
  }
  return huge_pages(floats * std::int64_t{sizeof(float)});
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
  const Bytes pages = load_request.pool_tokens > 0 ? Bytes(pages_of(load_request.pool_tokens))
                                                   : Bytes(out.slots) * pages_of(out.context);
  out.pages = clamp_pages(pages.n);
  out.weights = huge_pages(Bytes(shape.weights_bytes, true));
  Bytes rows = 0;  // of a token
  for (KvHeads kind : {plain_heads(shape), window_heads(shape)}) {
    const std::int64_t head_pad = to_multiple(kind.head_dim, 16);
    const std::int64_t row = kv_row_bytes(load_request.kv_type, head_pad).value_or(4 * head_pad);
    if (!shape.causal) kind.layers = std::min<std::int64_t>(kind.layers, 1);
    rows = rows + Bytes(kind.layers) * kind.heads * 2 * row;
  }
  out.kv = huge_pages(pages * kPageTokens * rows);
  // States do not depend on the pages, of which a device with less memory has fewer.
  const Bytes states = Bytes(states_of(out.slots)) * (shape.layers - attention_layers(shape)) *
                       state_floats(shape) * std::int64_t{sizeof(float)};
  out.scratch = (Bytes(scratch_bytes(shape, out, load_request.threads), true) +
                 Bytes(huge_pages(states), true))
                    .n;
  out.tables = (Bytes(shape.vocab) * kTableBytes).n;
  return out;
}

std::uint64_t Envelope::total() const {
  return (Bytes(weights, true) + Bytes(kv, true) + Bytes(scratch, true) + Bytes(tables, true)).n;
}

}  // namespace holdfast::plan
