#pragma once
// An HTTP client of a running server that does what a careful program does: it reads SSE, and when
// the connection is cut it comes back with the same Idempotency-Key and its Last-Event-ID.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::process {

struct HttpAnswer {
  int status = 0;  // 0: the connection was refused or cut before a whole head came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // ended as HTTP requires, not by a cut
};

/// Sends one request on a connection of its own. `on_body` gets the body as it comes.
HttpAnswer http_exchange(const std::string& url, const std::string& request,
                         const std::function<void(const std::string&)>& on_body = {});
std::string http_post_text(const std::string& path, const std::string& json,
                           const std::vector<std::pair<std::string, std::string>>& headers = {});
std::string http_get_text(const std::string& path,
                          const std::vector<std::pair<std::string, std::string>>& headers = {});

/// The way in which a client that was cut off asks for the rest.
enum class Resume : std::uint8_t {
  kPost,     // the same POST, with Last-Event-ID
  kGet,      // GET /v1/requests/ID/stream, with Last-Event-ID
  kGetFrom,  // GET /v1/requests/ID/stream?from=INDEX
};

/// The result of one choice. Calls are names and arguments, without their ids.
struct ChoiceResult {
  std::string text, reasoning, calls, finish;
  bool operator==(const ChoiceResult&) const = default;
};

struct SseResult {
  std::string request_id;
  std::string text;  // of all choices, in order of arrival
  std::string finish;
  std::string failure;     // what was wrong, empty if nothing was
  std::int64_t index = 0;  // of the last event id: tokens of all choices
  std::map<std::int64_t, ChoiceResult> choices;
  std::map<std::int64_t, std::string> text_at;  // all text up to an event's index
  int connections = 0;
};

/// Streams a completion or chat request to its end, however often it is cut. `on_progress` is
/// called after each event, `url` at each connection. `patient`: 429, 503 and 504 are waited out (a
/// server in trouble answers with them), else they are failures.
SseResult stream_sse(const std::function<std::string()>& url, const std::string& path,
                     const std::string& json, const std::string& key, Resume resume,
                     const std::function<void(const SseResult&)>& on_progress, bool patient);
SseResult stream_sse(const std::string& url, const std::string& path, const std::string& json,
                     const std::string& key, Resume resume,
                     const std::function<void(std::int64_t)>& on_progress = {});

}  // namespace holdfast::process
