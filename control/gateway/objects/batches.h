#pragma once
// Batches as stored objects: kind "batch", whose body is OpenAI's batch object with members of our
// own that begin with "_". Until a batch has ended, an object of the same id and kind "batch.open"
// exists, which also names the worker that holds the lease.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/common/object_store.h"

namespace holdfast::gateway {

inline constexpr const char* kBatchKind = "batch";
inline constexpr const char* kOpenBatchKind = "batch.open";

/// Returns the body as OpenAI shows it.
nlohmann::ordered_json batch_json(const StoredObject& stored);

/// Sets the status and the time that belongs to it ("completed" → "completed_at").
void set_batch_status(nlohmann::ordered_json& batch, const std::string& status,
                      std::int64_t now_ms);
/// True for a status after which nothing changes.
bool batch_ended(std::string_view status);

/// Returns one line of the output or error file, with its line end. The error line has no response.
std::string batch_result_line(const std::string& request_id, const std::string& custom_id,
                              int status, const std::string& body);
std::string batch_error_line(const std::string& request_id, const std::string& custom_id,
                             const std::string& code, const std::string& message);

}  // namespace holdfast::gateway
