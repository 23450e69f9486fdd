#pragma once
// One HTTP request by libcurl on the calling thread: proxies and authorities of the environment,
// redirects, ranges, a bandwidth limit. https is verified.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::fetch {

/// The head of an answer.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last of several

  /// Returns a header's value, empty if it is not there.
  std::string header(const std::string& name) const;
};

/// A GET, and what becomes of its answer.
struct HttpGet {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"; those of authorization go to this host alone
  std::int64_t from = 0;             // first byte; above 0 it is asked for as a range
  std::int64_t rate_bytes_s = 0;     // 0: no limit
  /// Called once, before the body. False ends the request.
  std::function<bool(const HttpHead&)> on_head;
  /// Called with each part of the body. False ends the request.
  std::function<bool(std::string_view)> on_bytes;
  /// Polled about once a second; true ends the request.
  std::function<bool()> stopping;
};

/// Sends the request and reads the answer. kUnreachable: there was none, or it broke off, with the
/// reason; kCancelled: a function of the request ended it. Blocks; threads may each have one.
Result<HttpHead> http_get(const HttpGet& get);

/// Reads a whole answer of at most `bytes_max` bytes; kInvalidRequest beyond that.
struct HttpDocument {
  HttpHead head;
  std::string body;
};
Result<HttpDocument> http_document(HttpGet get, std::size_t bytes_max);

}  // namespace holdfast::fetch
