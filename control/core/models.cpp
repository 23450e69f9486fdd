#include "control/core/models.h"

#include <algorithm>
#include <array>

namespace holdfast::core {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"registered", "placing",  "loading",  "warming",
                                                    "ready",      "draining", "unloaded", "failed"};

}  // namespace

std::string_view model_state_name(ModelState state) {
  return kNames.at(static_cast<std::size_t>(state));
}

ModelState model_state_from_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? ModelState::kFailed
                               : static_cast<ModelState>(found - kNames.begin());
}

bool has_ended(ModelState state) {
  return state == ModelState::kUnloaded || state == ModelState::kFailed;
}

bool waits_for_placement(const Model& model) {
  return model.row.load_requested && model.row.state != ModelState::kReady &&
         model.row.state != ModelState::kFailed;
}

bool is_encoder(const ModelRow& row) {
  return row.shape.find("\"causal\":false") != std::string::npos;  // plan::shape_to_json writes it
}

std::int64_t largest_context(const ModelRow& row, std::int64_t bytes) {
  const std::int64_t wished = std::max<std::int64_t>(row.pages, 1);
  const std::int64_t page_bytes = (row.kv_bytes + wished - 1) / wished;
  const std::int64_t available = bytes - row.weights_bytes - row.scratch_bytes;
  if (available <= 0 || page_bytes <= 0) return available <= 0 ? 0 : row.context;
  const std::int64_t pages = available / page_bytes;
  return pages >= pages_for(row.context, kPageTokens) ? row.context : pages * kPageTokens;
}

std::optional<Envelope> fit_envelope(const ModelRow& row, std::int64_t free_bytes,
                                     Pages pages_taken, std::int64_t* needed) {
  const std::int64_t wished = std::max<std::int64_t>(row.pages, 1);
  const std::int64_t page_bytes = (row.kv_bytes + wished - 1) / wished;
  const std::int64_t context = std::max<std::int64_t>(pages_for(row.context, kPageTokens), 1);
  const std::int64_t least = pages_taken == Pages::kAll ? wished : std::min(wished, context);
  const std::int64_t fixed = row.weights_bytes + row.scratch_bytes;
  if (needed != nullptr) *needed = fixed + least * page_bytes;
  if (fixed + least * page_bytes > free_bytes) return std::nullopt;
  const std::int64_t available = page_bytes > 0 ? (free_bytes - fixed) / page_bytes : wished;
  const std::int64_t pages = std::min(wished, available);
  return Envelope{pages, fixed + pages * page_bytes};
}

}  // namespace holdfast::core
