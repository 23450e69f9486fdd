#include "shared/base/result.h"

#include <array>

namespace holdfast {
namespace {

constexpr std::array kNames = {std::string_view("queue_full"),
                               std::string_view("context_exceeded"),
                               std::string_view("memory_exhausted"),
                               std::string_view("rate_limited"),
                               std::string_view("deadline_unreachable"),
                               std::string_view("model_not_found"),
                               std::string_view("model_failed"),
                               std::string_view("placement_unsupported"),
                               std::string_view("no_chat_template"),
                               std::string_view("quarantined"),
                               std::string_view("invalid_request"),
                               std::string_view("unauthorized"),
                               std::string_view("draining"),
                               std::string_view("storage_full"),
                               std::string_view("no_standby"),
                               std::string_view("idempotency_mismatch"),
                               std::string_view("not_found"),
                               std::string_view("usage"),
                               std::string_view("conflict"),
                               std::string_view("io"),
                               std::string_view("file_invalid"),
                               std::string_view("unsupported"),
                               std::string_view("storage"),
                               std::string_view("corrupt"),
                               std::string_view("disk_full"),
                               std::string_view("version_newer"),
                               std::string_view("unreachable"),
                               std::string_view("timeout"),
                               std::string_view("cancelled"),
                               std::string_view("expired"),
                               std::string_view("worker_lost"),
                               std::string_view("numerics_nan"),
                               std::string_view("determinism_violation"),
                               std::string_view("determinism_class_unavailable"),
                               std::string_view("stale_fence"),
                               std::string_view("internal")};
static_assert(kNames.size() == static_cast<std::size_t>(Errc::kInternal) + 1);

}  // namespace

std::string_view errc_name(Errc code) {
  const auto index = static_cast<std::size_t>(code);
  CHECK(index < kNames.size());
  return kNames[index];
}

Errc errc_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Errc>(i);
  }
  return Errc::kInternal;
}

}  // namespace holdfast
