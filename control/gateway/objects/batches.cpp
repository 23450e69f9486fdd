#include "control/gateway/objects/batches.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 4> kEnds = {"completed", "failed", "expired", "cancelled"};

std::string line_text(const json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

json batch_json(const StoredObject& stored) {
  json body = try_parse_json<json>(stored.body);
  if (!body.is_object()) return {};
  json document;
  for (const auto& [name, value] : body.items()) {
    if (!name.starts_with("_")) document[name] = value;
  }
  return document;
}

void set_batch_status(json& batch, const std::string& status, std::int64_t now_ms) {
  batch["status"] = status;
  batch[status + "_at"] = now_ms / 1000;
}

bool batch_ended(std::string_view status) {
  return std::find(kEnds.begin(), kEnds.end(), status) != kEnds.end();
}

std::string batch_result_line(const std::string& request_id, const std::string& custom_id,
                              int status, const std::string& body) {
  json response = {{"status_code", status}, {"request_id", request_id}};
  response["body"] = try_parse_json<json>(body);
  return line_text({{"id", "batch_req_" + request_id},
                    {"custom_id", custom_id},
                    {"response", std::move(response)},
                    {"error", nullptr}});
}

std::string batch_error_line(const std::string& request_id, const std::string& custom_id,
                             const std::string& code, const std::string& message) {
  return line_text({{"id", "batch_req_" + request_id},
                    {"custom_id", custom_id},
                    {"response", nullptr},
                    {"error", {{"code", code}, {"message", message}}}});
}

}  // namespace holdfast::gateway
