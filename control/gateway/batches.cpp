#include "control/gateway/batches.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "control/gateway/json_fields.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kErrorsMax = 20;
constexpr std::size_t kCustomIdBytesMax = 512;
constexpr std::array<std::string_view, 4> kEnds = {"completed", "failed", "expired", "cancelled"};

/// What is wrong with a line; empty code: nothing.
BatchError read_line(std::string_view text, std::string_view endpoint, std::set<std::string>& seen,
                     BatchLine* out) {
  json line;
  FieldError error;
  if (!parse_json_object(text, &line, &error)) return {"invalid_json_line", error.message, 0};
  const json id = line.value("custom_id", json());
  if (!id.is_string() || id.get_ref<const std::string&>().empty() ||
      id.get_ref<const std::string&>().size() > kCustomIdBytesMax) {
    return {"missing_required_parameter", "custom_id: a text of 1 to 512 bytes is required", 0};
  }
  out->custom_id = id.get<std::string>();
  if (!seen.insert(out->custom_id).second) {
    return {"duplicate_custom_id", "custom_id \"" + out->custom_id + "\" is there twice", 0};
  }
  if (line.value("method", json()) != "POST") {
    return {"invalid_method", "method: must be \"POST\"", 0};
  }
  if (line.value("url", json()) != json(std::string(endpoint))) {
    return {"mismatched_endpoint", "url: must be \"" + std::string(endpoint) + "\"", 0};
  }
  if (!line.value("body", json()).is_object()) {
    return {"missing_required_parameter", "body: an object is required", 0};
  }
  return {};
}

std::string line_text(const json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

json batch_json(const Kept& kept) {
  json body = json::parse(kept.body, nullptr, false);
  if (!body.is_object()) return {};
  json shown;
  for (const auto& [name, value] : body.items()) {
    if (!name.starts_with("_")) shown[name] = value;
  }
  return shown;
}

void set_batch_status(json& batch, const std::string& status, std::int64_t now_ms) {
  batch["status"] = status;
  batch[status + "_at"] = now_ms / 1000;
}

bool batch_ended(std::string_view status) {
  return std::find(kEnds.begin(), kEnds.end(), status) != kEnds.end();
}

std::vector<BatchError> read_batch_lines(std::string_view content, std::string_view endpoint,
                                         std::vector<BatchLine>* out) {
  std::vector<BatchError> errors;
  std::set<std::string> seen;
  for (std::int64_t number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view text = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
    BatchLine line;
    line.text = text;
    BatchError error = read_line(text, endpoint, seen, &line);
    if (out->size() == kBatchLinesMax) {
      error = {"too_many_lines", "a batch has at most 50000 lines", 0};
    }
    if (error.code.empty()) {
      out->push_back(std::move(line));
      continue;
    }
    error.line = number;
    errors.push_back(std::move(error));
    if (errors.size() == kErrorsMax) break;
  }
  if (errors.empty() && out->empty()) errors.push_back({"empty_file", "there is no line in it", 0});
  return errors;
}

std::string batch_result_line(const std::string& request_id, const std::string& custom_id,
                              int status, const std::string& body) {
  json response = {{"status_code", status}, {"request_id", request_id}};
  response["body"] = json::parse(body, nullptr, false);
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
