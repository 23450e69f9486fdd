#pragma once
// Who may use the console's API, and which web pages may ask without a key.

#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/cors.h"
#include "control/gateway/http_types.h"

namespace holdfast::gateway {

/// "localhost", "127.0.0.1", "[::1]" (any port, any spelling of 127.x.y.z): a Host header that no
/// other machine's name can lead to, however a name server answers.
bool is_loopback_host(std::string_view host);

/// The refusal, or nothing. An operator may; a client's key may not (403).
///
/// A request that came without a key was let in because it reached a loopback address, and so can
/// whatever page is open in a browser on this machine. It must therefore name that address as its
/// Host (a page of another site whose name was made to point here cannot), come from our own page
/// as far as it says where from (Origin, Sec-Fetch-Site), and if it changes anything its body must
/// be application/json, which a browser sends to another site only after asking. A key proves
/// what these stand for: no browser adds it by itself.
std::optional<Response> refuse_console(const Request& request);

/// For any path of an address that wants no key: the refusal of a request that names another host
/// than loopback, in its Host header or in its target. A page of another site whose name was made
/// to point here cannot do without.
std::optional<Response> refuse_foreign_host(const Request& request);

/// 403.
Response forbidden(const std::string& message);

/// For a request without a key, of any path: the refusal if a web page of another place sent it
/// (Origin, Sec-Fetch-Site), one that `cors` does not name. Programs send neither and are let
/// through.
std::optional<Response> refuse_foreign_page(const Request& request, const Cors& cors);

}  // namespace holdfast::gateway
