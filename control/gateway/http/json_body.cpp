#include "control/gateway/http/json_body.h"

#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

bool parse_json_object(std::string_view text, json* out, FieldError* error,
                       const JsonLimits& limits) {
  if (!is_valid_utf8(text)) {
    *error = {"the body is not valid UTF-8", ""};
    return false;
  }
  Result<json> parsed = parse_json<json>(text, limits);
  if (!parsed) {
    *error = {"the body is " + parsed.error().what, ""};
    return false;
  }
  *out = std::move(parsed).value();
  if (!out->is_object()) {
    *error = {"the body must be a JSON object, it is a " + json_kind(*out), ""};
    return false;
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (u < 0x20 || u == 0x7f) {
      out += "\\u00";
      out.push_back(kHex[u >> 4]);
      out.push_back(kHex[u & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace holdfast::gateway
