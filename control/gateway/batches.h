#pragma once
// Batches as they are kept: kind "batch", the body is OpenAI's batch object with members of ours
// that begin with "_". While one has not ended there is an object of the same id and kind
// "batch.open", which also says who works on it.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/keeper.h"

namespace holdfast::gateway {

inline constexpr const char* kBatchKind = "batch";
inline constexpr const char* kOpenBatchKind = "batch.open";

/// The body as OpenAI shows it.
nlohmann::ordered_json batch_json(const Kept& kept);

/// Sets status and the time that goes with it ("completed" → "completed_at").
void set_batch_status(nlohmann::ordered_json& batch, const std::string& status,
                      std::int64_t now_ms);
bool batch_ended(std::string_view status);

/// One line of the output or error file, with its line end. `error_code` not empty: there is no
/// response.
std::string batch_result_line(const std::string& request_id, const std::string& custom_id,
                              int status, const std::string& body);
std::string batch_error_line(const std::string& request_id, const std::string& custom_id,
                             const std::string& code, const std::string& message);

}  // namespace holdfast::gateway
