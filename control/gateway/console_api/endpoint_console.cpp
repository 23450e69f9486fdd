// The console: its page, the operator verbs that it may use, and the last hour for its plots.

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/console_api/console_files.h"
#include "control/gateway/console_api/history.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/page_guard.h"
#include "shared/base/check.h"
#include "shared/base/json_fields.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// An operator verb that the page may use. Not in the list: keys, stored objects, stopping the
/// daemon, and what the supervisor tells of workers.
struct ConsoleVerb {
  std::string_view name;
  bool reads;  // reads only: it has a time limit
};
constexpr ConsoleVerb kVerbs[] = {
    {"status", true},
    {"models.list", true},
    {"models.show", true},
    {"models.aliases", true},
    {"models.alias_history", true},
    {"models.add", false},
    {"models.remove", false},
    {"models.load", false},
    {"models.unload", false},
    {"models.pin", false},
    {"models.unpin", false},
    {"models.verify", false},
    {"models.alias", false},
    {"models.alias_remove", false},
    {"models.canary", false},
    {"models.canary_promote", false},
    {"models.canary_rollback", false},
    {"nodes.list", true},
    {"nodes.show", true},
    {"nodes.drain", false},
    {"nodes.resume", false},
    {"workers.list", true},
    {"workers.drain", false},
    {"workers.resume", false},
    {"requests.list", true},
    {"requests.show", true},
    {"requests.cancel", false},
    {"requests.requeue", false},
    {"requests.move", false},
    {"queue.stats", true},
    {"queue.pause", false},
    {"queue.resume", false},
    {"config.list", true},
    {"config.get", true},
    {"config.explain", true},
    {"config.history", true},
    {"config.diff", true},
    {"config.set", false},
    {"config.unset", false},
    {"config.rollback", false},
    {"db.stats", true},
    {"pulls.list", true},
    {"pulls.show", true},
    {"pulls.start", false},
    {"pulls.cancel", false},
};

/// Adds headers for the page and its parts: nothing from other sites, no inline script, no frames.
void add_page_headers(Response& response) {
  response.headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
      "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

/// Returns an answer of the API, which no browser or proxy may cache.
Response document_response(std::string body) {
  Response response;
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.body = std::move(body);
  return response;
}

Response away() {
  wire::Refusal refusal;
  refusal.code = Errc::kUnreachable;
  refusal.message = "the daemon does not answer";
  refusal.retry_after_ms = 1'000;
  return error_response(refusal);
}

/// Reads the arguments and adds the caller, which the page may not choose.
bool read_args(const Request& request, std::string* out, FieldError* error) {
  json args = json::object();
  if (!request.body.empty() && !parse_json_object(request.body, &args, error)) return false;
  args["who"] =
      request.from.key().empty() ? "console" : "console, key " + request.from.api_key.name;
  *out = args.dump(-1, ' ', false, json::error_handler_t::replace);
  return true;
}

}  // namespace

void get_console(Context&, const ExchangePtr& exchange, const Captures& captures) {
  const std::string_view name = captures.empty() ? "index.html" : std::string_view(captures[0]);
  const auto files = console_files();
  const auto file = std::find_if(files.begin(), files.end(), [&](const ConsoleFile& candidate) {
    return candidate.name == name;
  });
  if (file == files.end()) {
    return exchange->respond(error_response(404, "the console has no such file"));
  }
  Response response;
  response.content_type = file->content_type;
  response.headers.emplace_back("ETag", std::string(file->etag));
  response.headers.emplace_back("Cache-Control", "no-cache");
  add_page_headers(response);
  const std::string* if_none_match = exchange->request().header("If-None-Match");
  if (if_none_match != nullptr && *if_none_match == file->etag) {
    response.status = 304;
  } else {
    response.body = file->body;
  }
  exchange->respond(std::move(response));
}

void get_console_history(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (auto refused = refuse_console(exchange->request())) {
    return exchange->respond(std::move(*refused));
  }
  std::int64_t since = 0;
  if (const std::string* text = exchange->request().query_value("since")) {
    const auto r = std::from_chars(text->data(), text->data() + text->size(), since);
    if (r.ec != std::errc() || r.ptr != text->data() + text->size()) {
      return exchange->respond(
          error_response(FieldError{"'since' must be a time in milliseconds", "since"}));
    }
  }
  exchange->respond(document_response(
      context.history == nullptr ? empty_history_document() : context.history->document(since)));
}

namespace {

Response verb_response(client::Answer<std::string> answer) {
  const auto* failure = std::get_if<client::Failure>(&answer);
  if (failure == nullptr) return document_response(std::get<std::string>(std::move(answer)));
  Response response = error_response(*failure);
  // The caller was let in; the verb itself is refused.
  if (failure->code == Errc::kUnauthorized) response.status = 403;
  return response;
}

}  // namespace

void post_console_verb(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  if (auto refused = refuse_console(exchange->request())) {
    return exchange->respond(std::move(*refused));
  }
  const auto verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                 [&](const ConsoleVerb& v) { return v.name == captures[0]; });
  if (verb == std::end(kVerbs) || context.operating == nullptr) {
    return exchange->respond(error_response(404, "the console's API has no such verb"));
  }
  std::string args;
  FieldError error;
  if (!read_args(exchange->request(), &args, &error)) {
    return exchange->respond(error_response(error));
  }
  // The daemon's answer and the time limit race; the second finds the exchange answered. A verb
  // that changes something is waited for, so that its result is known.
  auto open = std::make_shared<bool>(true);
  if (verb->reads) {
    exchange->after(context.console_time, [exchange, open] {
      if (std::exchange(*open, false)) exchange->respond(away());
    });
  }
  const auto all = client::AllTenants::of(exchange->request().from);
  CHECK_MSG(all.has_value(), "refuse_console lets operators in alone");
  context.operating->op_async(
      *all, captures[0], args, [exchange, open](client::Answer<std::string> answer) {
        exchange->post([exchange, open, answer = std::move(answer)]() mutable {
          if (!std::exchange(*open, false)) return;
          exchange->respond(verb_response(std::move(answer)));
        });
      });
}

}  // namespace holdfast::gateway
