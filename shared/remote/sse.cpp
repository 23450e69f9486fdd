#include "shared/remote/sse.h"

#include <cstddef>
#include <utility>

namespace holdfast::remote {
namespace {

constexpr std::size_t kEventBytesMax = std::size_t{16} << 20;

}  // namespace

bool SseReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + event_.data.size() > kEventBytesMax) return false;
    if (end == std::string_view::npos) return true;
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    if (!take_line(std::exchange(line_, {}))) return false;
  }
  return true;
}

bool SseReader::take_line(std::string_view line) {
  if (line.empty()) {
    const SseEvent event = std::exchange(event_, {});
    return !std::exchange(has_data_, false) || on_event_(event);
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "id") event_.id = value;
  if (name == "event") event_.type = value;
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
  return true;
}

}  // namespace holdfast::remote
