#include "worker/engine/slot_table.h"

namespace holdfast::engine {

SlotTable::SlotTable(const ModelEngineConfig& config)
    : slots_(static_cast<std::size_t>(config.slots)) {
  for (Slot& slot : slots_) {
    if (config.recurrent) slot.recurrent.at = static_cast<std::int32_t>(&slot - slots_.data());
    slot.tokens.reserve(static_cast<std::size_t>(config.context));
    slot.prefix.pages.reserve(static_cast<std::size_t>(pages_for(config.context)));
    slot.prefix.marks.reserve(slots_.size() + 2);
  }
}

Slot* SlotTable::find(SequenceKey key) {
  for (Slot& slot : slots_) {
    if (slot.state != Slot::State::kFree && slot.key == key) return &slot;
  }
  return nullptr;
}

Result<Slot*> SlotTable::claim(SequenceKey key) {
  if (find(key) != nullptr) return Error{Errc::kConflict, key_text(key) + "key in use"};
  for (Slot& slot : slots_) {
    if (slot.state != Slot::State::kFree) continue;
    slot.state = Slot::State::kWaiting;
    slot.key = key;
    slot.age = ++ages_;
    return &slot;
  }
  return Error{Errc::kRateLimited,
               key_text(key) + "all " + std::to_string(slots_.size()) + " slots are taken"};
}

}  // namespace holdfast::engine
