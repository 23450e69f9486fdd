#include "control/gateway/common/post_headers.h"

#include <algorithm>

namespace holdfast::gateway {
namespace {

constexpr std::size_t kKeyBytesMax = 256;
constexpr std::size_t kListBytesMax = 1'024;

/// Returns the names as a header's value.
std::string list_header(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (out.size() + name.size() > kListBytesMax) return out + ", ...";
    if (!out.empty()) out += ", ";
    for (const char c : name) out.push_back(c > 0x20 && c < 0x7f && c != ',' ? c : '?');
  }
  return out;
}

}  // namespace

bool read_idem_key(const Request& request, std::string* key, FieldError* error) {
  const std::string* sent = request.header("Idempotency-Key");
  if (sent == nullptr) return true;
  const bool plain =
      std::all_of(sent->begin(), sent->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (sent->empty() || sent->size() > kKeyBytesMax || !plain) {
    *error = {"Idempotency-Key must be 1 to 256 visible ASCII characters", "Idempotency-Key"};
    return false;
  }
  *key = *sent;
  return true;
}

static bool read_disconnect_policy(const Request& request, PostHeaders* out, FieldError* error) {
  const std::string* policy = request.header("X-On-Disconnect");
  if (policy == nullptr) return true;
  if (*policy != "continue" && *policy != "cancel") {
    *error = {"X-On-Disconnect must be \"continue\" or \"cancel\"", "X-On-Disconnect"};
    return false;
  }
  out->leaves_for_good = *policy == "cancel";
  out->on_disconnect =
      out->leaves_for_good ? wire::OnDisconnect::kCancel : wire::OnDisconnect::kContinue;
  return true;
}

bool read_post_headers(const Request& request, PostHeaders* out, FieldError* error) {
  if (!read_idem_key(request, &out->idem_key, error)) return false;
  if (!out->idem_key.empty()) out->on_disconnect = wire::OnDisconnect::kContinue;
  if (!read_disconnect_policy(request, out, error)) return false;
  const std::string* last = request.header("Last-Event-ID");
  if (last != nullptr && !last->empty()) {
    out->resume = parse_event_id(*last);
    if (!out->resume) {
      *error = {"Last-Event-ID is not an id of this server: REQUEST.INDEX[,INDEX…]",
                "Last-Event-ID"};
      return false;
    }
  }
  return true;
}

bool leaves_for_good(const PostHeaders& headers, bool stream) {
  if (headers.on_disconnect != wire::OnDisconnect::kCancel) return false;
  return headers.leaves_for_good || !stream;
}

Response resume_mismatch(const std::string& message) {
  wire::Refusal refusal;
  refusal.code = Errc::kIdempotencyMismatch;
  refusal.message = message;
  return error_response(refusal, "Last-Event-ID");
}

void put_limits(const Request& request, wire::Submit* message, std::vector<std::string>* ignored) {
  if (message->priority == wire::PriorityClass::kInteractive && !request.from.may_be_interactive) {
    message->priority = wire::PriorityClass::kNormal;
    ignored->emplace_back("priority");
  }
  message->key_max_requests = request.from.api_key.max_requests;
  message->key_requests_per_minute = request.from.api_key.requests_per_minute;
}

std::vector<Header> answer_headers(const std::vector<std::string>& ignored, bool duplicate,
                                   const std::optional<wire::KeyStanding>& key,
                                   const std::vector<std::string>& notes) {
  std::vector<Header> out = rate_headers(key);
  if (!ignored.empty()) out.emplace_back("X-Holdfast-Ignored", list_header(ignored));
  if (duplicate) out.emplace_back("X-Holdfast-Duplicate", "true");
  if (!notes.empty()) out.emplace_back("X-Holdfast-Chat", list_header(notes));
  return out;
}

}  // namespace holdfast::gateway
