#pragma once
// Requests to a hub or a registry with what it wants to know of us: the hub's token, a registry's
// token that is fetched when it asks for one
// (https://distribution.github.io/distribution/spec/auth/token/).

#include <cstddef>
#include <functional>
#include <string>

#include "shared/base/result.h"
#include "shared/http_client/http_client.h"

namespace holdfast::fetch {

/// The environment of the requests of one pull. Not thread-safe.
class Session {
 public:
  struct Options {
    std::string token;       // of the hub; empty: none
    std::string token_base;  // URLs that begin so get it
    bool offline = false;    // HF_HUB_OFFLINE: nothing is asked for
    std::int64_t rate_bytes_s = 0;
    std::function<bool()> stopping;
  };
  explicit Session(Options options) : options_(std::move(options)) {}

  /// Sends a GET whose body is read by its functions where the status is 200 or 206. Another status
  /// is an error: kUnauthorized, kNotFound, kRateLimited and kUnreachable (5xx: worth another try),
  /// kInvalidRequest. With `from`, 416 is kConflict: the server has no such byte.
  Result<http::Head> get(const http::Request& request);
  /// Returns the body of a short answer, of at most `bytes_max` bytes; kInvalidRequest beyond.
  Result<std::string> document(const std::string& url, const std::string& accept,
                               std::size_t bytes_max);

 private:
  using Getter = Result<http::Head> (Session::*)(const http::Request&);
  Result<http::Head> send(const http::Request& original);
  Result<std::string> read(http::Request request, std::size_t bytes_max, Getter getter);
  Result<void> fetch_token(const std::string& challenge, const std::string& url);

  Options options_;
  std::string registry_token_;
  std::string registry_base_;  // URLs that begin so get it
};

/// Reads the options from the environment: HF_TOKEN, or the file that HF_TOKEN_PATH, HF_HOME or the
/// home folder names, and HF_HUB_OFFLINE. `hub`: the base URL that the token is for.
Session::Options options_of_environment(const std::string& hub);

}  // namespace holdfast::fetch
