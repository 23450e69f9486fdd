#pragma once
// One HTTP exchange with the gateway of an address, by libcurl. Certificates are checked. Redirects
// are refused: a key must never go to another place. Answers are bounded.

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/remote/address.h"

namespace holdfast::remote {

/// Longest answer that is kept whole.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{32} << 20;

/// A request. Without `stream` the whole answer is kept.
struct HttpCall {
  std::string method = "GET";
  std::string path;                              // "/v1/models"
  std::string body;                              // JSON; empty: none
  std::vector<std::string> headers;              // "Name: value"
  std::chrono::milliseconds timeout{30'000};     // of the whole exchange; 0: without end
  std::chrono::seconds silence{0};               // so long without a byte: given up; 0: never
  std::function<bool(std::string_view)> stream;  // gets events as they come; false ends
  std::function<bool()> stopping;                // asked about once a second; true ends
};

/// The answer to a request.
struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // empty if `stream` got it
  bool streamed = false;                       // it was text/event-stream, with status 200
  std::string header(const std::string& name) const;
};

/// Sends one request and reads its answer, of any status but a redirect. Blocks. Errors name the
/// URL: kUnreachable (no connection: nothing was sent), kIo (the connection ended, or another
/// failure on the way: the request may have been read), kTimeout, kCancelled (`stopping` or
/// `stream` ended it), kInvalidRequest (a redirect, or a longer answer than kAnswerBytesMax).
Result<HttpReply> exchange(const Address& address, const HttpCall& call);

}  // namespace holdfast::remote
