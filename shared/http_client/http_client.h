#pragma once
// One HTTP exchange by libcurl on the calling thread, with the proxies of the environment. https is
// verified. Every program that asks another server for something does it here, but webhooks, which
// connect to an address that was checked.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::http {

/// The head of an answer.
struct Head {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last of several

  /// Returns a header's value, empty if it is not there.
  std::string header(const std::string& name) const;
};

/// A request, with the functions that get its answer.
struct Request {
  std::string method = "GET";
  std::string url;
  std::string body;                           // JSON; empty: none
  std::vector<std::string> headers;           // "Name: value"; those of authorization stay with
                                              // the URL's host when a redirect is followed
  bool follow_redirects = false;              // at most eight
  bool plain_http = false;                    // http to other machines; to this one it is allowed
  std::string ca_file;                        // PEM of authorities in place of the system's
  std::int64_t from = 0;                      // first byte; above 0 a range is asked for
  std::int64_t rate_bytes_s = 0;              // 0: no limit
  std::chrono::milliseconds connect{10'000};  // for the connection
  std::chrono::milliseconds timeout{0};       // of the whole exchange; 0: without end
  std::chrono::seconds silence{0};            // so long without a byte: given up; 0: never
  /// Called once, before the body. False ends the exchange.
  std::function<bool(const Head&)> on_head;
  /// Called with each part of the body. False ends the exchange.
  std::function<bool(std::string_view)> on_bytes;
  /// Polled about once a second; true ends the exchange.
  std::function<bool()> stopping;
};

/// The reason why an answer was not read to its end.
enum class Trouble : std::uint8_t {
  kEnded,         // by a function of the request
  kNoConnection,  // nothing was sent
  kUntrusted,     // the certificate, or the file of authorities
  kTls,           // no TLS was spoken
  kTimeout,
  kBroken,  // it broke off: the request may have been read
};
/// An exchange that failed.
struct Failure {
  Trouble trouble = Trouble::kBroken;
  std::string reason;  // libcurl's words
};

/// Sends the request and reads the answer, of any status. Blocks; threads may each have one.
std::variant<Head, Failure> send(const Request& request);

/// Returns the URL without its query, which may have a secret: for messages.
std::string without_query(const std::string& url);

}  // namespace holdfast::http
