#include "control/gateway/router.h"

#include "control/gateway/endpoints.h"
#include "control/gateway/errors.h"
#include "control/gateway/page_guard.h"

namespace holdfast::gateway {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/health/live", get_live},
    {"GET", "/health/ready", get_ready},
    {"GET", "/health", get_ready},
    {"GET", "/metrics", get_metrics},
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
    {"POST", "/v1/responses", post_responses},
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
    {"GET", "/v1/requests/{}", get_request},
    {"DELETE", "/v1/requests/{}", delete_request},
    {"GET", "/v1/requests/{}/stream", get_request_stream},
};

/// Whether we live may be asked by anybody, and the console's page has nothing of anybody.
bool wants_key(const Context& context, const Route& route) {
  return context.access != nullptr && !route.pattern.starts_with("/health") &&
         route.endpoint != get_console;
}

/// False: it was answered that a key is wanted.
bool admit(Context& context, const ExchangePtr& exchange, const Route& route) {
  if (!wants_key(context, route)) return true;
  auto verdict = context.access->check(exchange->request());
  if (auto* refused = std::get_if<Response>(&verdict)) {
    exchange->respond(std::move(*refused));
    return false;
  }
  auto& principal = std::get<Principal>(verdict);
  if (principal.key.id.empty()) {
    if (auto refused = refuse_foreign_page(exchange->request(), context.cors)) {
      exchange->respond(std::move(*refused));
      return false;
    }
  }
  exchange->admit(std::move(principal));
  return true;
}

/// `waited`: for the keys, which this gateway had not read yet.
void answer(Context& context, const ExchangePtr& exchange, bool waited) {
  const Request& request = exchange->request();
  exchange->set_headers(context.cors.headers(request));
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  std::string allow;
  for (const Route& route : kRoutes) {
    const auto captures = match_path(route.pattern, request.path);
    if (!captures) continue;
    if (route.method == method) {
      exchange->set_route({route.method, route.pattern});
      if (wants_key(context, route) && !waited && !context.access->ready([&context, exchange] {
            exchange->post([&context, exchange] { answer(context, exchange, true); });
          })) {
        return;
      }
      if (!admit(context, exchange, route)) return;
      return route.endpoint(context, exchange, *captures);
    }
    exchange->set_route({"other", route.pattern});
    allow.append(allow.empty() ? "" : ", ").append(route.method);
  }
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

}  // namespace

std::optional<Captures> match_path(std::string_view pattern, std::string_view path) {
  Captures captures;
  while (!pattern.empty()) {
    if (pattern == "{*}" || pattern.starts_with("{}")) {
      const bool rest = pattern == "{*}";
      const std::string_view part = rest ? path : path.substr(0, path.find('/'));
      auto decoded = percent_decode(part, false);
      if (part.empty() || !decoded) return std::nullopt;
      captures.push_back(std::move(*decoded));
      path.remove_prefix(part.size());
      pattern.remove_prefix(rest ? 3 : 2);
    } else {
      if (path.empty() || path.front() != pattern.front()) return std::nullopt;
      path.remove_prefix(1);
      pattern.remove_prefix(1);
    }
  }
  return path.empty() ? std::optional(std::move(captures)) : std::nullopt;
}

Server::Handler make_handler(Context& context) {
  return [&context](const ExchangePtr& exchange) { answer(context, exchange, false); };
}

}  // namespace holdfast::gateway
