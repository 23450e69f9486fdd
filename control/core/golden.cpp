#include "control/core/golden.h"

#include <algorithm>
#include <charconv>

namespace holdfast::core {
namespace {

/// Returns the text up to the next line's end and takes it off `rest`.
std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

std::int64_t next_number(std::string_view& rest) {
  const std::string_view line = next_line(rest);
  std::int64_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

}  // namespace

std::string golden_key(const std::string& model_sha, const std::string& numerics_class) {
  return model_sha + "/" + numerics_class;
}

std::string golden_text(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

std::string first_difference(const std::string& before, const std::string& now) {
  std::string_view old_ids = before, new_ids = now;
  for (int i = 0;; ++i) {
    const std::string_view old_id = old_ids.substr(0, old_ids.find(' '));
    const std::string_view new_id = new_ids.substr(0, new_ids.find(' '));
    if (old_id != new_id) {
      return "token " + std::to_string(i) + " is " +
             (new_id.empty() ? "missing" : std::string(new_id)) + " and was " +
             (old_id.empty() ? "missing" : std::string(old_id));
    }
    if (old_id.empty()) return "nothing";
    old_ids.remove_prefix(std::min(old_id.size() + 1, old_ids.size()));
    new_ids.remove_prefix(std::min(new_id.size() + 1, new_ids.size()));
  }
}

std::string verified_key(const InspectedEvent& event) {
  const wire::Inspected& found = event.inspected;
  return event.row.name + "\n" + found.model_sha + "\n" + std::to_string(found.size) + "\n" +
         std::to_string(found.mtime_ns) + "\n" + std::to_string(event.row.weights_bytes) + "\n" +
         std::to_string(event.row.kv_bytes) + "\n" + std::to_string(event.row.scratch_bytes);
}

FoundFile read_verified_key(std::string_view key) {
  FoundFile found;
  found.model = next_line(key);
  found.sha = next_line(key);
  found.size = next_number(key);
  found.mtime_ns = next_number(key);
  found.weights_bytes = next_number(key);
  found.kv_bytes = next_number(key);
  found.scratch_bytes = next_number(key);
  return found;
}

}  // namespace holdfast::core
