#include "control/gateway/http/cors.h"

#include <algorithm>
#include <string_view>

#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
namespace {

constexpr std::size_t kRequestedHeadersBytesMax = 2'048;
constexpr const char* kPreflightSeconds = "600";
// Headers that a page may read besides the body.
constexpr const char* kExposed =
    "X-Request-Id, X-Client-Request-Id, Retry-After, X-Holdfast-Duplicate, X-Holdfast-Ignored, "
    "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests";

constexpr std::string_view kOriginCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-:[]_+";
constexpr std::string_view kHeaderListCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ";

bool consists_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

/// True for an origin as browsers send it: scheme://host[:port], in lower case, without a path.
bool is_origin(std::string_view text) {
  const std::size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.front() != ':' && host.back() != ':' &&
         consists_of(host, kOriginCharacters) &&
         consists_of(text.substr(0, scheme), kOriginCharacters);
}

/// True for names of headers with commas and spaces between them.
bool is_header_list(std::string_view text) {
  return text.size() <= kRequestedHeadersBytesMax && consists_of(text, kHeaderListCharacters);
}

}  // namespace

Result<Cors> Cors::allow(const std::vector<std::string>& origins) {
  Cors cors;
  for (const std::string& origin : origins) {
    if (origin == "*") {
      cors.any_ = true;
    } else if (is_origin(origin)) {
      cors.origins_.push_back(origin);
    } else {
      return Error{Errc::kUsage,
                   "--cors-origin " + origin +
                       ": expected an origin in lower case and without a path, like "
                       "https://app.example or http://localhost:3000, or * for every page"};
    }
  }
  return cors;
}

bool Cors::allows(const std::string& origin) const {
  return any_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

std::vector<Header> Cors::headers(const Request& request) const {
  if (!on() || request.path.starts_with("/console")) return {};
  std::vector<Header> out;
  // With a list the answer depends on the origin: no cache may give it to another page.
  if (!any_) out.emplace_back("Vary", "Origin");
  const std::string* origin = request.header("Origin");
  if (origin == nullptr || !allows(*origin)) return out;
  out.emplace_back("Access-Control-Allow-Origin", any_ ? "*" : *origin);
  out.emplace_back("Access-Control-Expose-Headers", kExposed);
  return out;
}

std::optional<Response> Cors::preflight(const Request& request, const std::string& methods) const {
  const std::string* origin = request.header("Origin");
  const bool is_preflight =
      origin != nullptr && request.header("Access-Control-Request-Method") != nullptr;
  if (!on() || !is_preflight || request.method != "OPTIONS" ||
      request.path.starts_with("/console")) {
    return std::nullopt;
  }
  if (!allows(*origin)) {
    return error_response(403, "pages of " + *origin + " may not ask (--cors-origin)");
  }
  Response response;
  response.content_type.clear();
  response.headers.emplace_back("Access-Control-Allow-Methods", methods);
  // Clients send headers of their own (x-stainless-…). None of them tells us anything that the page
  // could not say in its body.
  const std::string* requested_headers = request.header("Access-Control-Request-Headers");
  if (requested_headers != nullptr && is_header_list(*requested_headers)) {
    response.headers.emplace_back("Access-Control-Allow-Headers", *requested_headers);
  }
  response.headers.emplace_back("Access-Control-Max-Age", kPreflightSeconds);
  return response;
}

}  // namespace holdfast::gateway
