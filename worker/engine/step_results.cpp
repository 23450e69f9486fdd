#include "worker/engine/step_results.h"

#include <utility>

namespace holdfast::engine {

StepResults::StepResults(const ModelEngineConfig& config, SequencePages& pages) : pages_(pages) {
  produced_.reserve(static_cast<std::size_t>(config.slots));
  usage_.pages_total = config.pages;
}

void StepResults::end(Slot& slot, Produced last) {
  produced_.push_back(std::move(last));
  release(slot);
}

void StepResults::fail(Slot& slot, const Error& error) {
  Produced p;
  p.key = slot.key;
  p.start = slot.probe.request ? 0 : slot.generated();
  p.finish = wire::FinishReason::kError;
  p.error = error;
  end(slot, std::move(p));
}

void StepResults::release(Slot& slot) {
  pages_.give_back(slot);
  slot.reset();
}

}  // namespace holdfast::engine
