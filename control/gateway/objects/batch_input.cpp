#include "control/gateway/objects/batch_input.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/http/json_body.h"
#include "shared/base/bytes.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kErrorsMax = 20;
constexpr std::size_t kCustomIdBytesMax = 512;

/// Limits for a line: the body is one level deeper there.
JsonLimits line_limits() {
  JsonLimits limits = kBodyLimits;
  ++limits.depth_max;
  return limits;
}

JsonLimits any_depth() {
  JsonLimits limits;
  limits.depth_max = INT32_MAX;
  return limits;
}

}  // namespace

BatchReader::BatchReader(std::string endpoint, std::size_t body_bytes_max, Guard guard)
    : endpoint_(std::move(endpoint)),
      line_bytes_max_(body_bytes_max + kBatchLineExtra),
      guard_(std::move(guard)) {}

bool BatchReader::is_hopeless() const {
  return errors_.size() == kErrorsMax;
}

void BatchReader::append_to_line(std::string_view part) {
  line_bytes_ += part.size();
  at_ += static_cast<std::int64_t>(part.size());
  line_ += part.substr(0, line_bytes_max_ - std::min(line_.size(), line_bytes_max_));
}

void BatchReader::feed(std::string_view chunk) {
  while (!chunk.empty() && !is_hopeless()) {
    const std::size_t end = chunk.find('\n');
    append_to_line(chunk.substr(0, end));
    if (end == std::string_view::npos) return;
    chunk.remove_prefix(end + 1);
    end_line();
    ++at_;
  }
}

std::vector<BatchError> BatchReader::end() {
  if (line_bytes_ > 0 && !is_hopeless()) end_line();
  if (errors_.empty() && lines_.empty()) {
    errors_.push_back({"empty_file", "there is no line in it", 0});
  }
  return std::move(errors_);
}

void BatchReader::end_line() {
  ++number_;
  BatchLine line;
  line.bytes = std::exchange(line_bytes_, 0);
  line.from = at_ - static_cast<std::int64_t>(line.bytes);
  const std::string text = std::exchange(line_, {});
  if (text.find_first_not_of(" \t\r") == std::string::npos) return;
  BatchError error;
  const auto read = [&] {
    error = line.bytes > line_bytes_max_ ? read_large(text, &line) : read_line(text, &line);
  };
  const bool was_read = !guard_ || guard_(lines_.size(), read);
  if (!guard_) read();
  if (!was_read) line.refusal = "it ended the process that read it, and is not read again";
  if (lines_.size() == kBatchLinesMax) {
    error = {"too_many_lines", "a batch has at most 50000 lines", 0};
  }
  if (error.code.empty()) {
    lines_.push_back(std::move(line));
    return;
  }
  error.line = number_;
  errors_.push_back(std::move(error));
}

/// Reads only the custom_id of a line that was cut off.
BatchError BatchReader::read_large(std::string_view text, BatchLine* out) {
  const auto id = find_text_member(text, "custom_id");
  if (!id || id->empty() || id->size() > kCustomIdBytesMax || !is_valid_utf8(*id)) {
    return {"line_too_large",
            "has " + std::to_string(out->bytes) + " bytes, at most " +
                std::to_string(line_bytes_max_) + " are taken",
            0};
  }
  if (!custom_ids_.insert(*id).second) {
    return {"duplicate_custom_id", "custom_id \"" + *id + "\" is there twice", 0};
  }
  out->custom_id = *id;
  out->refusal = "the line has " + std::to_string(out->bytes) + " bytes, at most " +
                 std::to_string(line_bytes_max_) + " are taken, as of a POST";
  return {};
}

namespace {

/// The fault in method, path or body of a line; its code is empty if there is none.
BatchError fault_of_call(const json& line, const std::string& endpoint) {
  if (line.value("method", json()) != "POST") {
    return {"invalid_method", "method: must be \"POST\"", 0};
  }
  if (line.value("url", json()) != json(endpoint)) {
    return {"mismatched_endpoint", "url: must be \"" + endpoint + "\"", 0};
  }
  const auto body = line.find("body");
  if (body == line.end() || !body->is_object()) {
    return {"missing_required_parameter", "body: an object is required", 0};
  }
  return {};
}

}  // namespace

/// Reads a line. Returns the fault that fails the whole batch, if any; its code is empty otherwise.
BatchError BatchReader::read_line(std::string_view text, BatchLine* out) {
  json line;
  FieldError error;
  const Result<JsonSize> size = measure_json(text, line_limits());
  if (!size && is_valid_utf8(text) && is_json(text, any_depth())) {
    const BatchError large = read_large(text, out);
    out->refusal = "the line is " + size.error().what;
    return large;
  }
  if (!parse_json_object(text, &line, &error, line_limits())) {
    return {"invalid_json_line", error.message, 0};
  }
  const json id = line.value("custom_id", json());
  if (!id.is_string() || id.get_ref<const std::string&>().empty() ||
      id.get_ref<const std::string&>().size() > kCustomIdBytesMax) {
    return {"missing_required_parameter", "custom_id: a text of 1 to 512 bytes is required", 0};
  }
  out->custom_id = id.get<std::string>();
  if (!custom_ids_.insert(out->custom_id).second) {
    return {"duplicate_custom_id", "custom_id \"" + out->custom_id + "\" is there twice", 0};
  }
  return fault_of_call(line, endpoint_);
}

}  // namespace holdfast::gateway
