#pragma once
// Cross-origin requests: which web pages of other origins may read this gateway's answers. Off
// unless origins are named. Browser credentials (cookies) are never allowed: keys travel in a
// header that the page itself sends.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/http/http_types.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

/// The allowed origins. Immutable, so thread-safe.
class Cors {
 public:
  Cors() = default;
  /// Takes origins such as "https://app.example", or "*" for every page. Fails with kUsage for
  /// anything else.
  static Result<Cors> allow(const std::vector<std::string>& origins);

  bool on() const { return any_ || !origins_.empty(); }
  bool allows(const std::string& origin) const;
  bool any() const { return any_; }
  /// Returns the headers for any answer to this request. The console's paths have none, as only its
  /// own page may read them.
  std::vector<Header> headers(const Request& request) const;
  /// Returns the answer to a preflight request; nullopt if the request is none. `methods`: the
  /// methods of the path, "GET, POST".
  std::optional<Response> preflight(const Request& request, const std::string& methods) const;

 private:
  std::vector<std::string> origins_;
  bool any_ = false;
};

}  // namespace holdfast::gateway
