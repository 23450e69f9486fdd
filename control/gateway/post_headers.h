#pragma once
// The headers of a POST that makes something, and those of its answer.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/errors.h"
#include "control/gateway/sse.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// What the headers say about a generation.
struct PostHeaders {
  std::string idem_key;
  std::optional<EventId> resume;
  wire::OnDisconnect on_disconnect = wire::OnDisconnect::kCancel;
  bool leaves_for_good = false;  // X-On-Disconnect: cancel
};
/// Whether a client that leaves can come back: not to an answer whose id it has not seen, nor where
/// it said so.
bool leaves_for_good(const PostHeaders& headers, bool stream);
/// Idempotency-Key; `key` stays empty without one. False: `error` says what a key is.
bool read_idem_key(const Request& request, std::string* key, FieldError* error);
/// Idempotency-Key, X-On-Disconnect, Last-Event-ID. False: `error` names the one that is wrong.
bool read_post_headers(const Request& request, PostHeaders* out, FieldError* error);

/// Puts the limits of the request's key into `message`; the SDK says whose it is. A priority that
/// the key has no right to becomes the ordinary one and is named in `ignored`.
void put_limits(const Request& request, wire::Submit* message, std::vector<std::string>* ignored);

/// Last-Event-ID names something else than what this POST is.
Response resume_mismatch(const std::string& message);

/// X-Holdfast-Ignored, X-Holdfast-Chat (`notes`), X-Holdfast-Duplicate and x-ratelimit-…, where
/// they apply.
std::vector<Header> answer_headers(const std::vector<std::string>& ignored, bool duplicate,
                                   const std::optional<wire::KeyStanding>& key = {},
                                   const std::vector<std::string>& notes = {});

}  // namespace holdfast::gateway
