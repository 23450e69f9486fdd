#include "control/gateway/http/page_guard.h"

#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
Response forbidden(const std::string& message) {
  wire::Refusal refusal;
  refusal.code = Errc::kUnauthorized;
  refusal.message = message;
  Response response = error_response(refusal);
  response.status = 403;
  return response;
}

namespace {

bool is_number_up_to(std::string_view text, int most) {
  if (text.empty() || text.size() > 5) return false;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  return value <= most;
}

/// True for 127.x.y.z with all four numbers.
bool is_loopback_v4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int parts = 0;
  for (;;) {
    const std::size_t dot = host.find('.');
    if (!is_number_up_to(host.substr(0, dot), 255)) return false;
    ++parts;
    if (dot == std::string_view::npos) return parts == 4;
    host.remove_prefix(dot + 1);
  }
}

bool is_json(const Request& request) {
  const std::string* header = request.header("Content-Type");
  if (header == nullptr) return false;
  std::string_view type = *header;
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return equal_ignoring_case(type, "application/json");
}

/// True if the request says that another site's page sent it.
bool is_from_elsewhere(const Request& request, const std::string& host) {
  const std::string* site = request.header("Sec-Fetch-Site");
  if (site != nullptr && *site != "same-origin" && *site != "none") return true;
  const std::string* origin = request.header("Origin");
  return origin != nullptr &&
         !equal_ignoring_case(*origin, (request.secure ? "https://" : "http://") + host);
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  std::string_view port;
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.back() != ']';
  if (has_port) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
    if (!is_number_up_to(port, 65'535)) return false;
  }
  return equal_ignoring_case(host, "localhost") || host == "[::1]" || is_loopback_v4(host);
}

std::optional<Response> refuse_foreign_host(const Request& request) {
  const std::string* host = request.header("Host");
  if (host != nullptr && is_loopback_host(*host) && !request.absolute_form) return std::nullopt;
  return forbidden(
      "without a key this address is served as localhost, 127.0.0.1 and [::1], named in the Host "
      "header and not in the request's target; for another name make a key (holdfast keys create "
      "NAME)");
}

std::optional<Response> refuse_foreign_page(const Request& request, const Cors& cors) {
  const std::string* origin = request.header("Origin");
  if (origin != nullptr && cors.allows(*origin)) return std::nullopt;
  const std::string* host = request.header("Host");
  if (host != nullptr && is_loopback_host(*host) && !is_from_elsewhere(request, *host)) {
    return std::nullopt;
  }
  return forbidden("a web page of another place (" + (origin == nullptr ? "unnamed" : *origin) +
                   ") asks without a key; name it with --cors-origin if it may, or give it a key");
}

std::optional<Response> refuse_console(const Request& request) {
  if (!request.from.is_operator()) {
    return forbidden(
        "this key's role is client: the console wants an operator's "
        "(holdfast keys create NAME --role operator)");
  }
  if (request.method == "POST" && !is_json(request)) {
    return error_response(415, "the console's API takes Content-Type: application/json");
  }
  if (!request.from.key().empty()) return std::nullopt;
  const std::string* host = request.header("Host");
  if (host == nullptr || !is_loopback_host(*host)) {
    return forbidden(
        "without a key the console is served to localhost, 127.0.0.1 and [::1] by "
        "those names alone; for another name make a key (holdfast keys create NAME "
        "--role operator)");
  }
  if (is_from_elsewhere(request, *host)) {
    return forbidden("this request comes from another site's page");
  }
  return std::nullopt;
}

}  // namespace holdfast::gateway
