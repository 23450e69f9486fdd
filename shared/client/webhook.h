#pragma once
// Webhooks: where ends of batches and responses are told, and how such a message is signed
// (https://www.standardwebhooks.com). Targets are objects of the kind "webhook" (docs/webhooks.md):
// {"url", "events", "tenant", "private", "secrets": [{"secret", "until_ms"}]}.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::client {

inline constexpr const char* kWebhookKind = "webhook";
/// Deliveries: due ones, and those that ended; both have the delivery's id.
inline constexpr const char* kDueKind = "webhook.due";
inline constexpr const char* kDoneKind = "webhook.done";

/// What may be told. Of a batch and of a response.
inline constexpr const char* kWebhookEvents[] = {
    "batch.completed",    "batch.failed",    "batch.expired",      "batch.cancelled",
    "response.completed", "response.failed", "response.cancelled", "response.incomplete"};

/// "whsec_" and the base64 of 32 random bytes.
std::string new_webhook_secret();

/// "v1,BASE64": HMAC-SHA256 of "ID.TIMESTAMP.BODY" with the bytes that stand behind "whsec_".
/// kInvalidRequest: the secret is none.
Result<std::string> sign_webhook(std::string_view secret, std::string_view id,
                                 std::int64_t timestamp_s, std::string_view body);

struct WebhookUrl {
  bool https = true;
  std::string host;  // a name, or an address without brackets
  std::uint16_t port = 443;
  std::string path;      // with the query, "/" at least
  bool numeric = false;  // the host is an address
};
/// http and https, no user, no fragment. kUsage says what is wrong.
Result<WebhookUrl> parse_webhook_url(std::string_view url);

/// False for an address of this machine, of a private network, or one that is no single host's:
/// what nobody on the internet can answer at. `address`: as getaddrinfo writes numbers.
bool is_public_address(const std::string& address);

}  // namespace holdfast::client
