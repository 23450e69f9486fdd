#pragma once
// Server-sent events: their text, and the ids that make a stream resumable at every event.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::gateway {

/// `<request>.<i0>[,<i1>…]`: for each choice, the number of tokens whose text has been handed out.
struct EventId {
  std::string request_id;
  std::vector<std::int64_t> sent;
};

/// Returns "REQUEST.i,j,…" with the index of each choice; parse_event_id() reads it.
std::string format_event_id(const EventId& id);
/// True for 1 to 128 visible ASCII characters. Other texts cannot be ids: never ask the daemon
/// about them.
bool is_request_id(std::string_view text);
/// Returns nullopt for anything else, also for more than 4096 choices.
std::optional<EventId> parse_event_id(std::string_view text);
/// Parses "3" or "3,0,7", as in ?from=.
std::optional<std::vector<std::int64_t>> parse_indexes(std::string_view text);

/// Appends one event: id line, data line, empty line. `data` has no line break.
void append_event(std::string& out, std::string_view id, std::string_view data);

/// Appends an event without an id: a client that comes back names the last event that had one.
/// `name` empty: a plain message.
void append_event_without_id(std::string& out, std::string_view name, std::string_view data);

/// A comment line, ignored by every reader. No empty line follows: some clients (openai's Python
/// library) take an empty line after an id for an event and fail on its empty data.
inline constexpr std::string_view kKeepAliveComment = ": keep-alive\n";
inline constexpr std::string_view kRetryLine = "retry: 250\n";

}  // namespace holdfast::gateway
