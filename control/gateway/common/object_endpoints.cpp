#include "control/gateway/common/object_endpoints.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/gateway/common/post_headers.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kPage = 20;
constexpr std::int64_t kPageMax = 100;

struct ListRequest {
  ExchangePtr exchange;
  ObjectRenderer show;
  ObjectListQuery query;
  std::int64_t limit = kPage;
  json data = json::array();
};

/// Reads the query. Returns false if it was answered with an error.
bool read_list_query(const ExchangePtr& exchange, ListRequest* list_request) {
  const Request& request = exchange->request();
  const auto fail = [&](const char* what, const char* name) {
    exchange->respond(error_response(FieldError{what, name}));
    return false;
  };
  if (const std::string* limit = request.query_value("limit")) {
    const auto r =
        std::from_chars(limit->data(), limit->data() + limit->size(), list_request->limit);
    if (r.ec != std::errc() || r.ptr != limit->data() + limit->size() || list_request->limit < 1 ||
        list_request->limit > kPageMax) {
      return fail("'limit' must be a whole number from 1 to 100", "limit");
    }
  }
  if (const std::string* order = request.query_value("order")) {
    if (*order != "asc" && *order != "desc") {
      return fail("'order' must be \"asc\" or \"desc\"", "order");
    }
    list_request->query.newest_first = *order == "desc";
  }
  return true;
}

void answer_list(const ListRequest& list_request, bool more) {
  json body;
  body["object"] = "list";
  body["first_id"] = list_request.data.empty() ? json() : list_request.data.front()["id"];
  body["last_id"] = list_request.data.empty() ? json() : list_request.data.back()["id"];
  body["has_more"] = more;
  body["data"] = list_request.data;
  list_request.exchange->respond(json_response(body));
}

/// Gathers page by page, until there are as many visible objects as were asked for.
void gather(Context& context, const std::shared_ptr<ListRequest>& list_request) {
  list_request->query.limit = kPageMax;
  context.object_store->list(
      list_request->exchange->request().from, list_request->query,
      on_strand<ObjectStore::Page>(
          list_request->exchange, [&context, list_request](ObjectStore::Page page) {
            for (const StoredObject& stored : page.objects) {
              json document = list_request->show(stored);
              if (document.is_null()) continue;
              if (static_cast<std::int64_t>(list_request->data.size()) == list_request->limit) {
                return answer_list(*list_request, true);
              }
              list_request->data.push_back(std::move(document));
            }
            if (!page.more) return answer_list(*list_request, false);
            list_request->query.from = page.objects.back().seq;
            gather(context, list_request);
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
  context.object_store->derive(
      request.from, kind, prefix, key,
      on_strand<ObjectStore::Derived>(
          exchange, [work = std::move(work)](const ObjectStore::Derived& derived) {
            work({derived.id, derived.version});
          }));
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

void with_object(Context& context, const ExchangePtr& exchange, const std::string& kind,
                 const std::string& id, std::function<void(StoredObject)> work) {
  context.object_store->get(
      exchange->request().from, kind, id,
      on_strand<ObjectStore::Found>(
          exchange, [exchange, kind, id, work = std::move(work)](ObjectStore::Found found) {
            if (!found) return exchange->respond(no_such(kind, id));
            work(std::move(*found));
          }));
}

void list_objects(Context& context, const ExchangePtr& exchange, const std::string& kind,
                  ObjectRenderer show) {
  auto list_request = std::make_shared<ListRequest>();
  list_request->exchange = exchange;
  list_request->show = std::move(show);
  list_request->query.kind = kind;
  if (!read_list_query(exchange, list_request.get())) return;
  const std::string* after = exchange->request().query_value("after");
  if (after == nullptr || after->empty()) return gather(context, list_request);
  with_object(context, exchange, kind, *after, [&context, list_request](const StoredObject& last) {
    list_request->query.from = last.seq;
    gather(context, list_request);
  });
}

}  // namespace holdfast::gateway
