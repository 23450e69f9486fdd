#include "control/core/core.h"

#include <string>
#include <utility>

namespace holdfast::core {

void Core::start_clock(const Boot& event) {
  clock_offset_ms = event.clock_offset_ms;
  if (!event.boot_id.empty() && event.boot_id == event.clock_boot_id) return;
  clock_offset_ms = now.wall_ms - now.mono_us / 1000;
  if (event.boot_id.empty()) return;
  out->write(PutFlag{"clock.offset", event.boot_id + " " + std::to_string(clock_offset_ms)},
             Durability::kFull);
}

void Core::op_refused(PeerId peer, std::uint64_t tag, wire::Refusal refusal) {
  if (peer == 0) return;
  SendOpResult result;
  result.to = peer;
  result.tag = tag;
  result.refusal = std::move(refusal);
  out->messages.emplace_back(std::move(result));
}

void Core::op_done(PeerId peer, std::uint64_t tag, std::string verb, std::string key) {
  if (peer == 0) return;
  SendOpResult result;
  result.to = peer;
  result.tag = tag;
  result.ok = true;
  result.verb = std::move(verb);
  result.key = std::move(key);
  out->messages.emplace_back(std::move(result));
}

}  // namespace holdfast::core
