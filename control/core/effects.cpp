#include "control/core/effects.h"

namespace holdfast::core {

const std::vector<TokenId>* prompt_in_group(const Effects& effects, Seq seq, std::int32_t prompt) {
  for (const RowChange& change : effects.rows) {
    const auto* added = std::get_if<InsertRequest>(&change);
    if (added == nullptr || added->row.seq != seq) continue;
    return &added->payload.prompt_ids.at(static_cast<std::size_t>(prompt));
  }
  return nullptr;
}

}  // namespace holdfast::core
