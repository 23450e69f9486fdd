#include "control/gateway/router.h"

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/body_encoding.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/page_guard.h"

namespace holdfast::gateway {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/health/live", get_live},
    {"GET", "/health/ready", get_ready},
    {"GET", "/health", get_ready},
    {"GET", "/metrics", get_metrics},
    {"GET", "/version", get_version},
    {"GET", "/openapi.json", get_openapi},
    {"GET", "/console", get_console},
    {"GET", "/console/", get_console},
    {"GET", "/console/{}", get_console},
    {"GET", "/console/api/history", get_console_history},
    {"POST", "/console/api/{}", post_console_verb},
    {"GET", "/v1/models", get_models},
    {"GET", "/v1/models/{*}", get_model},
    {"POST", "/v1/completions", post_completions},
    {"POST", "/v1/chat/completions", post_chat_completions},
    {"POST", "/v1/embeddings", post_embeddings},
    {"POST", "/v1/messages", post_messages},
    {"POST", "/v1/messages/count_tokens", post_message_count},
    {"POST", "/v1/responses", post_responses},
    {"GET", "/v1/responses", get_response_socket},
    {"POST", "/v1/responses/input_tokens", post_input_count},
    {"POST", "/v1/responses/compact", post_responses_compact},
    {"GET", "/v1/responses/{}", get_response},
    {"DELETE", "/v1/responses/{}", delete_response},
    {"POST", "/v1/responses/{}/cancel", cancel_response},
    {"GET", "/v1/responses/{}/input_items", get_response_items},
    {"POST", "/tokenize", post_tokenize},
    {"POST", "/detokenize", post_detokenize},
    {"POST", "/v1/files", post_files},
    {"GET", "/v1/files", get_files},
    {"GET", "/v1/files/{}", get_file},
    {"DELETE", "/v1/files/{}", delete_file},
    {"GET", "/v1/files/{}/content", get_file_content},
    {"POST", "/v1/batches", post_batches},
    {"GET", "/v1/batches", get_batches},
    {"GET", "/v1/batches/{}", get_batch},
    {"POST", "/v1/batches/{}/cancel", cancel_batch},
    {"GET", "/", get_ollama_root},
    {"GET", "/api/version", get_ollama_version},
    {"GET", "/api/tags", get_ollama_tags},
    {"GET", "/api/ps", get_ollama_ps},
    {"POST", "/api/show", post_ollama_show},
    {"POST", "/api/chat", post_ollama_chat},
    {"POST", "/api/generate", post_ollama_generate},
    {"POST", "/api/embed", post_ollama_embed},
    {"POST", "/api/embeddings", post_ollama_embeddings},
    {"POST", "/api/pull", post_ollama_pull},
    {"POST", "/api/push", refuse_ollama_push},
    {"POST", "/api/create", post_ollama_create},
    {"POST", "/api/copy", post_ollama_copy},
    {"DELETE", "/api/delete", delete_ollama_model},
    {"HEAD", "/api/blobs/{}", head_ollama_blob},
    {"POST", "/api/blobs/{}", post_ollama_blob},
    {"POST", "/v1/pulls", post_pulls},
    {"GET", "/v1/pulls", get_pulls},
    {"GET", "/v1/pulls/{*}", get_pull},
    {"DELETE", "/v1/pulls/{*}", delete_pull},
    {"POST", "/v1/requests", post_request},
    {"GET", "/v1/requests/{}", get_request},
    {"DELETE", "/v1/requests/{}", delete_request},
    {"GET", "/v1/requests/{}/stream", get_request_stream},
};

/// True if the route needs a key. Health may be asked without one, and the console's page has no
/// data.
bool wants_key(const Context& context, const Route& route) {
  return context.access != nullptr && !route.pattern.starts_with("/health") &&
         route.endpoint != get_console;
}

/// Returns the refusal if the key's role may not use the route.
std::optional<Response> refuse_role(const Principal& principal, const Route& route) {
  const bool counters = route.endpoint == get_metrics;
  const client::Role role = principal.role();
  if (role == client::Role::kMetrics && !counters) {
    return forbidden("this key's role is metrics: it may read GET /metrics and nothing else");
  }
  if (role == client::Role::kClient && counters) {
    return forbidden(
        "this key's role is client: /metrics tells of all tenants and wants the role metrics or "
        "operator (holdfast keys create NAME --role metrics)");
  }
  return std::nullopt;
}

/// Refuses a key by its role; a request without a key by where it comes from.
std::optional<Response> refuse_principal(const Context& context, const Request& request,
                                         const Principal& principal, const Route& route) {
  if (!principal.key().empty()) return refuse_role(principal, route);
  if (auto refused = refuse_foreign_host(request)) return refused;
  return refuse_foreign_page(request, context.cors);
}

/// Sets the principal. Returns false if the request was refused and answered.
bool admit(Context& context, const ExchangePtr& exchange, const Route& route) {
  if (context.access == nullptr) exchange->admit(Principal::local());
  if (!wants_key(context, route)) return true;
  auto verdict = context.access->check(exchange->request());
  std::optional<Response> refused;
  if (auto* response = std::get_if<Response>(&verdict)) {
    refused = std::move(*response);
  } else {
    auto& principal = std::get<Principal>(verdict);
    refused = refuse_principal(context, exchange->request(), principal, route);
    if (!refused) exchange->admit(std::move(principal));
  }
  if (refused) exchange->respond(std::move(*refused));
  return !refused;
}

void answer(Context& context, const ExchangePtr& exchange, bool waited);

/// Bounds the wait for the keys. While they cannot be read, a gateway without keys still tells its
/// own users its own counters: they want to know that the daemon is unreachable.
void wait_for_keys(Context& context, const ExchangePtr& exchange, const Route& route,
                   const std::shared_ptr<bool>& open) {
  if (route.endpoint != get_metrics) return;
  exchange->after(context.metrics_time, [&context, exchange, open] {
    const Request& request = exchange->request();
    if (!*open || !context.access->keyless() || context.access->refuse_peer(request) ||
        refuse_foreign_page(request, context.cors)) {
      return;
    }
    *open = false;
    answer_gateway_metrics(context, exchange);
  });
}

/// Returns true if the request waits for the keys and is answered later.
bool waits_for_keys(Context& context, const ExchangePtr& exchange, const Route& route) {
  if (!wants_key(context, route)) return false;
  auto open = std::make_shared<bool>(true);
  const bool ready = context.access->ready(exchange->request(), [&context, exchange, open] {
    exchange->post([&context, exchange, open] {
      if (std::exchange(*open, false)) answer(context, exchange, true);
    });
  });
  if (!ready) wait_for_keys(context, exchange, route, open);
  return !ready;
}

/// Returns the refusal of a request whose key was not valid when its head came, so that the body
/// was not read, and is valid now.
Response not_read(const Request& request) {
  wire::Refusal refusal;
  refusal.code = Errc::kUnreachable;
  refusal.message =
      "the keys were not known yet when " + request.path + " was asked for; try again";
  refusal.retry_after_ms = 1'000;
  return error_response(refusal);
}

/// Runs the endpoint of the route, or answers why not.
void serve(Context& context, const ExchangePtr& exchange, const Route& route,
           const Captures& captures, bool waited) {
  const Request& request = exchange->request();
  exchange->set_route({route.method, route.pattern});
  if (!waited && waits_for_keys(context, exchange, route)) return;
  if (!admit(context, exchange, route)) return;
  if (!request.body_read && wants_key(context, route)) {
    return exchange->respond(not_read(request));
  }
  if (!is_encoded(request)) return route.endpoint(context, exchange, captures);
  decode_body(exchange, [&context, exchange, endpoint = route.endpoint, captured = captures] {
    endpoint(context, exchange, captured);
  });
}

/// Answers a request that no route takes. `allow`: the methods that its path takes.
void answer_no_route(Context& context, const ExchangePtr& exchange, const std::string& allow) {
  const Request& request = exchange->request();
  if (allow.empty()) {
    exchange->set_route({"other", "other"});
    return exchange->respond(
        error_response(404, "no such path: " + request.method + " " + request.path));
  }
  if (auto preflight = context.cors.preflight(request, allow)) {
    return exchange->respond(std::move(*preflight));
  }
  Response response =
      error_response(405, request.path + " does not take " + request.method + ", but " + allow);
  response.headers.emplace_back("Allow", allow);
  exchange->respond(std::move(response));
}

/// HEAD is answered as GET, without the body, where it has no route of its own.
bool takes_method(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

/// Answers the request. `waited`: it has waited for the keys to be read.
void answer(Context& context, const ExchangePtr& exchange, bool waited) {
  const Request& request = exchange->request();
  exchange->set_headers(context.cors.headers(request));
  if (context.access != nullptr && context.access->keyless()) {
    if (auto refused = refuse_foreign_host(request)) return exchange->respond(std::move(*refused));
  }
  std::string allow;
  for (const Route& route : kRoutes) {
    const auto captures = match_path(route.pattern, request.path);
    if (!captures) continue;
    if (takes_method(route, request.method))
      return serve(context, exchange, route, *captures, waited);
    exchange->set_route({"other", route.pattern});
    allow.append(allow.empty() ? "" : ", ").append(route.method);
  }
  answer_no_route(context, exchange, allow);
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

/// Takes what a hole at the beginning of the pattern, {} or {*}, stands for. Returns false if the
/// path has nothing there.
static bool take_capture(std::string_view& pattern, std::string_view& path, Captures& captures) {
  const bool rest = pattern == "{*}";
  const std::string_view part = rest ? path : path.substr(0, path.find('/'));
  auto decoded = percent_decode(part, false);
  if (part.empty() || !decoded) return false;
  captures.push_back(std::move(*decoded));
  path.remove_prefix(part.size());
  pattern.remove_prefix(rest ? 3 : 2);
  return true;
}

std::optional<Captures> match_path(std::string_view pattern, std::string_view path) {
  Captures captures;
  while (!pattern.empty()) {
    if (pattern == "{*}" || pattern.starts_with("{}")) {
      if (!take_capture(pattern, path, captures)) return std::nullopt;
    } else {
      if (path.empty() || path.front() != pattern.front()) return std::nullopt;
      path.remove_prefix(1);
      pattern.remove_prefix(1);
    }
  }
  return path.empty() ? std::optional(std::move(captures)) : std::nullopt;
}

/// True if the path needs a key. Health and the console's page need none, even while the keys
/// cannot be read.
static bool path_wants_key(const Context& context, const Request& head) {
  for (const Route& route : kRoutes) {
    if (match_path(route.pattern, head.path)) return wants_key(context, route);
  }
  return true;
}

Gate make_gate(Context* const& context) {
  Gate gate;
  gate.open = [&context] {
    return context->access == nullptr || context->access->may_be_keyless();
  };
  gate.look = [&context](const Request& head,
                         std::function<void()> again) -> std::optional<Caller> {
    Access* access = context->access.get();
    if (access == nullptr) return Caller{true, {}};
    const bool waits = again != nullptr && path_wants_key(*context, head);
    if (waits && !access->ready(head, std::move(again))) return std::nullopt;
    const auto verdict = access->check(head);
    const auto* principal = std::get_if<Principal>(&verdict);
    return principal == nullptr ? Caller{} : Caller{true, principal->tenant()};
  };
  return gate;
}

Server::Handler make_handler(Context& context) {
  return [&context](const ExchangePtr& exchange) { answer(context, exchange, false); };
}

}  // namespace holdfast::gateway
