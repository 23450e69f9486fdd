#include "control/gateway/http/sse.h"

#include <algorithm>
#include <charconv>

namespace holdfast::gateway {
namespace {

constexpr std::size_t kChoicesMax = 4096;
constexpr std::int64_t kIndexMax = std::int64_t{1} << 53;
constexpr std::size_t kRequestIdBytesMax = 128;

}  // namespace

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string format_event_id(const EventId& id) {
  std::string out = id.request_id;
  for (std::size_t i = 0; i < id.sent.size(); ++i) {
    out.push_back(i == 0 ? '.' : ',');
    out += std::to_string(id.sent[i]);
  }
  return out;
}

std::optional<std::vector<std::int64_t>> parse_indexes(std::string_view text) {
  std::vector<std::int64_t> out;
  for (;;) {
    std::int64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || value < 0 || value > kIndexMax || out.size() == kChoicesMax) {
      return std::nullopt;
    }
    out.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return out;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

std::optional<EventId> parse_event_id(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || !is_request_id(text.substr(0, dot))) return std::nullopt;
  auto sent = parse_indexes(text.substr(dot + 1));
  if (!sent) return std::nullopt;
  return EventId{std::string(text.substr(0, dot)), std::move(*sent)};
}

void append_event(std::string& out, std::string_view id, std::string_view data) {
  out.append("id: ").append(id).append("\ndata: ").append(data).append("\n\n");
}

void append_event_without_id(std::string& out, std::string_view name, std::string_view data) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(data).append("\n\n");
}

}  // namespace holdfast::gateway
