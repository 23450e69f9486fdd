#pragma once
// The router: which function answers which request. One table (router.cpp), one file for each group
// of endpoints.

#include <optional>
#include <span>
#include <string_view>

#include "control/gateway/common/context.h"
#include "control/gateway/http/server.h"

namespace holdfast::gateway {

/// One row of the router's table.
struct Route {
  std::string_view method;
  std::string_view pattern;  // "/v1/requests/{}/stream"; a last {*} takes the rest with its slashes
  Endpoint endpoint;
};

/// Returns every route.
std::span<const Route> routes();

/// Returns nullopt if the path does not match the pattern (or is badly encoded).
std::optional<Captures> match_path(std::string_view pattern, std::string_view path);

/// Returns the whole gateway as a server's handler. It answers 404 and 405 (with Allow) itself;
/// HEAD counts as GET.
Server::Handler make_handler(Context& context);

/// Returns the gate that decides who is let in before the body of a request is read: callers with a
/// valid key, and everybody where no key is needed. `context` must be set when the server runs.
Gate make_gate(Context* const& context);

}  // namespace holdfast::gateway
