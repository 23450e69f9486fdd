#pragma once
// Guards against web pages: access to the console's API, and which pages may ask without a key.

#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/http/cors.h"
#include "control/gateway/http/http_types.h"

namespace holdfast::gateway {

/// True for "localhost", "127.0.0.1", "[::1]" (any port, any spelling of 127.x.y.z): Host headers
/// to which no name of another machine can lead, however a name server answers.
bool is_loopback_host(std::string_view host);

/// Returns the refusal of a caller that may not use the console: 403 for a client's key, 415 for a
/// POST whose body is not JSON; nullopt for an operator.
///
/// A request without a key was let in because it reached a loopback address, and any page that is
/// open in a browser on this machine can do the same. It must therefore name that address as its
/// Host (a page of another site whose name was made to point here cannot), come from our own page
/// as far as it says where from (Origin, Sec-Fetch-Site), and if it changes anything its body must
/// be application/json, which a browser sends to another site only after asking. A key proves what
/// these stand for: no browser adds it by itself.
std::optional<Response> refuse_console(const Request& request);

/// Returns the refusal of a request that names another host than loopback, in its Host header or in
/// its target. For any path of an address that needs no key: a page of another site whose name was
/// made to point here must name it.
std::optional<Response> refuse_foreign_host(const Request& request);

/// Returns 403 with `message`.
Response forbidden(const std::string& message);

/// Returns the refusal of a request without a key that a web page of another origin sent (Origin,
/// Sec-Fetch-Site), unless `cors` names it. For any path. Programs send neither header and pass.
std::optional<Response> refuse_foreign_page(const Request& request, const Cors& cors);

}  // namespace holdfast::gateway
