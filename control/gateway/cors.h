#pragma once
// Cross-origin requests: which web pages of other places may read what this gateway answers. Off
// unless origins are named. Credentials of browsers (cookies) are never allowed: keys travel in a
// header that the page itself sends.

#include <optional>
#include <string>
#include <vector>

#include "control/gateway/http_types.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

class Cors {
 public:
  Cors() = default;
  /// Of "https://app.example" and the like, or "*" for every page. kUsage for anything else.
  static Result<Cors> allow(const std::vector<std::string>& origins);

  bool on() const { return any_ || !origins_.empty(); }
  bool allows(const std::string& origin) const;
  bool any() const { return any_; }
  /// For every answer to this request. The console's paths have none: it is for its own page alone.
  std::vector<Header> headers(const Request& request) const;
  /// The answer to the question that a browser asks before the request; nullopt: it is none.
  /// `methods`: those of the path, "GET, POST".
  std::optional<Response> preflight(const Request& request, const std::string& methods) const;

 private:
  std::vector<std::string> origins_;
  bool any_ = false;
};

}  // namespace holdfast::gateway
