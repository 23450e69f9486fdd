#pragma once
// The headers of a POST that generates, and the headers of its answer.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/http/errors.h"
#include "control/gateway/http/sse.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

/// Options of a generation in its headers.
struct PostHeaders {
  std::string idem_key;
  std::optional<EventId> resume;
  wire::OnDisconnect on_disconnect = wire::OnDisconnect::kCancel;
  bool leaves_for_good = false;  // X-On-Disconnect: cancel
};
/// True if a client that leaves cannot come back: the answer's id is not known to it (no stream),
/// or it said so.
bool leaves_for_good(const PostHeaders& headers, bool stream);
/// Reads Idempotency-Key; `key` remains empty without one. Returns false if it is invalid; `error`
/// says what a key is.
bool read_idem_key(const Request& request, std::string* key, FieldError* error);
/// Reads Idempotency-Key, X-On-Disconnect and Last-Event-ID. Returns false if one is invalid;
/// `error` names it.
bool read_post_headers(const Request& request, PostHeaders* out, FieldError* error);

/// Puts the limits of the request's key into `message`; the SDK adds the principal. A priority to
/// which the key has no right becomes the normal one and is named in `ignored`.
void put_limits(const Request& request, wire::Submit* message, std::vector<std::string>* ignored);

/// Returns the refusal of a Last-Event-ID that names something else than this POST.
Response resume_mismatch(const std::string& message);

/// Returns X-Holdfast-Ignored, X-Holdfast-Chat (`notes`), X-Holdfast-Duplicate and x-ratelimit-…,
/// where they apply.
std::vector<Header> answer_headers(const std::vector<std::string>& ignored, bool duplicate,
                                   const std::optional<wire::KeyStanding>& key = {},
                                   const std::vector<std::string>& notes = {});

}  // namespace holdfast::gateway
