#pragma once
// An HTTP request and its answer as plain data: no socket, no library.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/client/principal.h"

namespace holdfast::gateway {

using Header = std::pair<std::string, std::string>;

/// The key of a request; requests with one key are counted together.
struct ApiKey {
  std::string id;    // empty: no key was needed
  std::string name;  // for people
  std::optional<std::int64_t> max_requests;
  std::optional<std::int64_t> requests_per_minute;
};

/// The caller of a request, with its key's limits and rights. By default a client without rights.
struct Principal : client::Principal {
  Principal() : client::Principal({}, {}, client::Role::kClient) {}
  Principal(client::Principal who, ApiKey api_key)
      : client::Principal(std::move(who)),
        api_key(std::move(api_key)),
        may_be_interactive(is_operator()) {}
  /// Returns the operator without a key.
  static Principal local() { return {client::Principal::local(), {}}; }

  ApiKey api_key;
  bool may_be_interactive = false;  // may use that priority
};

/// Both ends of a connection, as the server sees them. Addresses are in network order, ports in the
/// machine's.
struct TcpEnds {
  struct End {
    std::array<std::uint8_t, 16> address{};  // IPv4 uses the first four
    std::uint16_t port = 0;
  };
  bool v6 = false;
  End client, server;
};

/// A parsed request.
struct Request {
  std::string method;           // as sent: "GET"
  std::string path;             // as sent, without the query: still percent-encoded
  std::vector<Header> query;    // decoded names and values
  std::vector<Header> headers;  // names as sent
  std::string body;
  std::size_t body_limit = 1024 * 1024;  // most bytes of the body, also once it is decoded
  bool http11 = true;
  bool keep_alive = true;
  bool expects_continue = false;
  bool absolute_form = false;   // its target named a host: http://host/path
  bool secure = false;          // it came over TLS
  bool body_read = true;        // false: it has a body, which was not read
  bool body_follows = false;    // its body comes in parts, on demand; `body` is empty
  TcpEnds ends;                 // of its connection
  std::int64_t arrived_us = 0;  // when its head was read; monotonic clock
  Principal from;               // set before an endpoint sees it

  /// Returns the value of the first header of that name (any case), nullptr if there is none.
  const std::string* header(std::string_view name) const;
  const std::string* query_value(std::string_view name) const;
};

/// Returns what the client calls its request (X-Client-Request-Id, else X-Request-Id, which proxies
/// set): up to 128 visible ASCII characters; empty if there is none or it has another form.
std::string client_request_id(const Request& request);

/// A whole answer, without the headers that the connection decides: Content-Length and Connection.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;
  std::string body;
};

/// Returns "OK", "Not Found", …; "Status" for a number that we do not use.
std::string_view reason_phrase(int status);

/// Returns the answer's head up to and with the empty line. `length` < 0: chunked, or without a
/// length on HTTP/1.0. Line breaks in values become spaces.
std::string response_head(const Response& response, bool http11, bool close, std::int64_t length);

/// Decodes %XX (and '+' as a space if `form`). Returns nullopt if a % is not followed by two hex
/// digits.
std::optional<std::string> percent_decode(std::string_view text, bool form);

/// Compares names of headers: ASCII letters of either case are equal.
bool equal_ignoring_case(std::string_view a, std::string_view b);
/// Returns the text without the blanks and tabs around it.
std::string_view trimmed(std::string_view text);

}  // namespace holdfast::gateway
