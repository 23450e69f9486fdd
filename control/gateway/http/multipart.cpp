#include "control/gateway/http/multipart.h"

#include <algorithm>
#include <optional>

#include "control/gateway/http/http_types.h"

namespace holdfast::gateway {
namespace {

constexpr std::size_t kPartsMax = 64;
constexpr std::size_t kHeadBytesMax = 4096;
constexpr std::size_t kBoundaryBytesMax = 70;  // RFC 2046

/// Reads a value in quotes, which begins at the first byte. `used`: where its last quote is; there
/// is no value without one.
std::optional<std::string> quoted_value(std::string_view rest, std::size_t* used) {
  std::string value;
  std::size_t at = 1;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] == '\\' && at + 1 < rest.size()) ++at;
    value.push_back(rest[at]);
  }
  *used = at;
  return at == rest.size() ? std::nullopt : std::optional(std::move(value));
}

/// Returns the value of a header's parameter: `name=value` or `name="va\"lue"`.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  std::size_t at = header.find(';');
  while (at != std::string_view::npos) {
    header.remove_prefix(at + 1);
    const std::size_t equals = header.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(header.substr(0, equals));
    std::string_view rest = header.substr(equals + 1);
    std::optional<std::string> value;
    std::size_t used = 0;
    if (rest.starts_with('"')) {
      value = quoted_value(rest, &used);
      if (!value) return std::nullopt;
    } else {
      used = std::min(rest.find(';'), rest.size());
      value = trimmed(rest.substr(0, used));
    }
    if (equal_ignoring_case(key, name)) return value;
    header = rest;
    at = header.find(';', used);
  }
  return std::nullopt;
}

bool fail(FieldError* error, const char* message) {
  *error = {std::string("the form ") + message, "file"};
  return false;
}

/// Reads the lines before a part's data: only its name and file name matter.
bool read_head(std::string_view head, FormPart* part, FieldError* error) {
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return fail(error, "has a part with a broken header");
    if (!equal_ignoring_case(trimmed(line.substr(0, colon)), "Content-Disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    auto name = parameter(value, "name");
    if (!name) return fail(error, "has a part without a name");
    part->name = std::move(*name);
    part->filename = parameter(value, "filename").value_or("");
  }
  return !part->name.empty() || fail(error, "has a part without a name");
}

}  // namespace

namespace {

/// Takes a part and the boundary behind it from the body. `next`: that boundary.
bool read_part(std::string_view& body, std::string_view next, std::vector<FormPart>* out,
               FieldError* error) {
  if (!body.starts_with("\r\n")) return fail(error, "has a line behind its boundary");
  if (out->size() == kPartsMax) return fail(error, "has more than 64 parts");
  body.remove_prefix(2);
  const std::size_t head = body.substr(0, kHeadBytesMax).find("\r\n\r\n");
  if (head == std::string_view::npos) return fail(error, "has a part without an end of its head");
  FormPart part;
  if (!read_head(body.substr(0, head), &part, error)) return false;
  body.remove_prefix(head + 4);
  const std::size_t end = body.find(next);
  if (end == std::string_view::npos) return fail(error, "ends inside a part");
  part.data = body.substr(0, end);
  out->push_back(std::move(part));
  body.remove_prefix(end + next.size());
  return true;
}

}  // namespace

bool parse_form(std::string_view content_type, std::string_view body, std::vector<FormPart>* out,
                FieldError* error) {
  const std::string_view kind = content_type.substr(0, content_type.find(';'));
  if (!equal_ignoring_case(trimmed(kind), "multipart/form-data")) {
    return fail(error, "must be multipart/form-data");
  }
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kBoundaryBytesMax) {
    return fail(error, "has no boundary of 1 to 70 characters in its Content-Type");
  }
  const std::string mark = "--" + *boundary;
  const std::string next = "\r\n" + mark;
  if (!body.starts_with(mark)) return fail(error, "does not begin with its boundary");
  body.remove_prefix(mark.size());
  while (!body.starts_with("--")) {
    if (!read_part(body, next, out, error)) return false;
  }
  return true;
}

}  // namespace holdfast::gateway
