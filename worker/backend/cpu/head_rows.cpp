#include "worker/backend/cpu/head_rows.h"

namespace holdfast::cpu {

std::uint8_t* HeadRows::page_of(const PackedOp& op, bool value, std::int64_t head) const {
  const HeadKind& kind = kind_of(op);
  const std::int64_t value_offset = value ? kind.page_bytes * context_.limits.pages : 0;
  return context_.memory.kv.data() + op.heads.pages_at + value_offset +
         head * (kind.page_bytes / kind.kv_heads);
}

void HeadRows::rotate(std::int32_t rope, float* head, std::int64_t position) const {
  if (rope < 0) return;
  const RopeTable& table = buffers_.rope_tables[rope];
  kernels_.rope(
      head, {table.cos + position * table.pairs, table.sin + position * table.pairs,
             static_cast<std::int32_t>(table.pairs), shape_.rope_style == plan::RopeStyle::kNeox});
}

void HeadRows::store(const PackedOp& op, int which, std::int64_t head, const Token& token,
                     const float* values) {
  const std::int64_t page = batch_.segment(token.segment).pages[token.position / kPageTokens];
  const HeadKind& kind = kind_of(op);
  std::uint8_t* at = page_of(op, which == 2, head) + page * kind.page_bytes;
  const auto slot = static_cast<std::int32_t>(token.position % kPageTokens);
  if (which == 1) {
    kernels_.store_key(values, static_cast<std::int32_t>(kind.head_dim), slot, context_.kv_type,
                       at);
  } else {
    kernels_.store_value(values, static_cast<std::int32_t>(kind.pad), slot, context_.kv_type, at);
  }
}

}  // namespace holdfast::cpu
