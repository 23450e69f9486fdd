#include "control/gateway/kept_endpoints.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/gateway/post_headers.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kPage = 20;
constexpr std::int64_t kPageMax = 100;

struct ListWish {
  ExchangePtr exchange;
  ShowKept show;
  KeepList query;
  std::int64_t limit = kPage;
  json data = json::array();
};

/// False: the query has been answered with its error.
bool read_wish(const ExchangePtr& exchange, ListWish* wish) {
  const Request& request = exchange->request();
  const auto fail = [&](const char* what, const char* name) {
    exchange->respond(error_response(FieldError{what, name}));
    return false;
  };
  if (const std::string* limit = request.query_value("limit")) {
    const auto r = std::from_chars(limit->data(), limit->data() + limit->size(), wish->limit);
    if (r.ec != std::errc() || r.ptr != limit->data() + limit->size() || wish->limit < 1 ||
        wish->limit > kPageMax) {
      return fail("'limit' must be a whole number from 1 to 100", "limit");
    }
  }
  if (const std::string* order = request.query_value("order")) {
    if (*order != "asc" && *order != "desc") {
      return fail("'order' must be \"asc\" or \"desc\"", "order");
    }
    wish->query.newest_first = *order == "desc";
  }
  return true;
}

void answer_list(const ListWish& wish, bool more) {
  json body;
  body["object"] = "list";
  body["first_id"] = wish.data.empty() ? json() : wish.data.front()["id"];
  body["last_id"] = wish.data.empty() ? json() : wish.data.back()["id"];
  body["has_more"] = more;
  body["data"] = wish.data;
  wish.exchange->respond(json_response(body));
}

/// Page by page, until there are as many to be seen as were asked for.
void gather(Context& context, const std::shared_ptr<ListWish>& wish) {
  wish->query.limit = kPageMax;
  context.keeper->list(wish->exchange->request().from, wish->query,
                       on_strand<Keeper::Page>(wish->exchange, [&context, wish](Keeper::Page page) {
                         for (const Kept& kept : page.objects) {
                           json shown = wish->show(kept);
                           if (shown.is_null()) continue;
                           if (static_cast<std::int64_t>(wish->data.size()) == wish->limit) {
                             return answer_list(*wish, true);
                           }
                           wish->data.push_back(std::move(shown));
                         }
                         if (!page.more) return answer_list(*wish, false);
                         wish->query.from = page.objects.back().seq;
                         gather(context, wish);
                       }));
}

}  // namespace

void with_new_id(Context& context, const ExchangePtr& exchange, const std::string& kind,
                 const std::string& prefix, std::function<void(NewId)> work) {
  const Request& request = exchange->request();
  std::string key;
  FieldError error;
  if (!read_idem_key(request, &key, &error)) return exchange->respond(error_response(error));
  if (key.empty()) return work({prefix + context.new_request_id(), 0});
  context.keeper->derive(request.from, kind, prefix, key,
                         on_strand<Keeper::Derived>(
                             exchange, [work = std::move(work)](const Keeper::Derived& derived) {
                               work({derived.id, derived.version});
                             }));
}

Response json_response(const json& body) {
  Response response;
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

Response no_such(const std::string& kind, const std::string& id) {
  wire::Refusal refusal;
  refusal.code = Errc::kNotFound;
  refusal.message = "no such " + kind + ": " + id;
  return error_response(refusal, "id");
}

Response other_body(const std::string& id) {
  wire::Refusal refusal;
  refusal.code = Errc::kIdempotencyMismatch;
  refusal.message = id + " was made under this Idempotency-Key with another body";
  return error_response(refusal, "Idempotency-Key");
}

void with_kept(Context& context, const ExchangePtr& exchange, const std::string& kind,
               const std::string& id, std::function<void(Kept)> work) {
  context.keeper->get(
      exchange->request().from, kind, id,
      on_strand<Keeper::Found>(exchange,
                               [exchange, kind, id, work = std::move(work)](Keeper::Found found) {
                                 if (!found) return exchange->respond(no_such(kind, id));
                                 work(std::move(*found));
                               }));
}

void list_kept(Context& context, const ExchangePtr& exchange, const std::string& kind,
               ShowKept show) {
  auto wish = std::make_shared<ListWish>();
  wish->exchange = exchange;
  wish->show = std::move(show);
  wish->query.kind = kind;
  if (!read_wish(exchange, wish.get())) return;
  const std::string* after = exchange->request().query_value("after");
  if (after == nullptr || after->empty()) return gather(context, wish);
  with_kept(context, exchange, kind, *after, [&context, wish](const Kept& last) {
    wish->query.from = last.seq;
    gather(context, wish);
  });
}

}  // namespace holdfast::gateway
