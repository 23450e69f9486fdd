#include "control/gateway/common/object_store.h"

#include <nlohmann/json.hpp>

#include "control/gateway/http/sse.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using nlohmann::json;

namespace {

client::Failure no_document(const char* verb) {
  client::Failure failure;
  failure.message = std::string(verb) + ": the daemon's answer is no document";
  return failure;
}

/// Returns a handler of the verb's text that continues with `show` of the parsed document.
template <class T, class Show>
std::function<void(client::Answer<std::string>)> reading(
    const char* verb, std::function<void(client::Answer<T>)> done, Show show) {
  return [verb, done = std::move(done), show](client::Answer<std::string> answer) {
    if (auto* failure = std::get_if<1>(&answer)) return done(std::move(*failure));
    const json document = try_parse_json<json>(std::get<0>(answer));
    if (!document.is_object()) return done(no_document(verb));
    try {
      done(show(document));
    } catch (const json::exception&) {
      done(no_document(verb));
    }
  };
}

/// Returns the same for a verb whose answer has no content.
std::function<void(client::Answer<client::OpAnswer>)> text_alone(
    std::function<void(client::Answer<std::string>)> done) {
  return [done = std::move(done)](client::Answer<client::OpAnswer> answer) {
    if (auto* failure = std::get_if<1>(&answer)) return done(std::move(*failure));
    done(std::move(std::get<0>(answer).text));
  };
}

StoredObject parse_stored_object(const json& object) {
  StoredObject stored;
  stored.seq = object.at("seq");
  stored.id = object.at("id");
  stored.owner = object.at("owner");
  stored.version = object.at("version");
  stored.created_ms = object.at("created_ms");
  stored.expires_ms = object.at("expires_ms");
  stored.body = object.at("body").dump();
  stored.bytes = object.at("bytes");
  return stored;
}

}  // namespace

void ObjectStore::put(const client::Caller& caller, const ObjectChange& change,
                      std::function<void(client::Answer<Put>)> done) {
  // The body is JSON text already: it is not parsed to be written again.
  json args = {{"kind", change.kind}, {"id", change.id}, {"owner", caller.tenant()}};
  if (change.version) args["version"] = *change.version;
  if (change.append_at) args["append_at"] = *change.append_at;
  if (change.expires_ms) args["expires_ms"] = *change.expires_ms;
  std::string text = args.dump();
  if (change.body) {
    text.pop_back();
    text += ",\"body\":" + *change.body + "}";
  }
  client_.op_bytes_async(
      caller, "objects.put", text, std::string(change.append),
      text_alone(reading<Put>("objects.put", std::move(done), [](const json& document) {
        return Put{document.at("version"), document.at("bytes")};
      })));
}

void ObjectStore::get(const client::Caller& caller, const std::string& kind, const std::string& id,
                      std::function<void(client::Answer<Found>)> done) {
  if (!is_request_id(id)) return done(Found());
  const json args = {{"kind", kind}, {"id", id}, {"owner", caller.tenant()}};
  client_.op_async(caller, "objects.get", args.dump(),
                   reading<Found>("objects.get", std::move(done), [](const json& document) {
                     return document.at("found") == true
                                ? Found(parse_stored_object(document.at("object")))
                                : Found();
                   }));
}

void ObjectStore::read(const client::Caller& caller, const std::string& kind, const std::string& id,
                       std::int64_t from, std::function<void(client::Answer<std::string>)> done) {
  if (!is_request_id(id)) return done(std::string());
  const json args = {
      {"kind", kind},        {"id", id},   {"owner", caller.tenant()}, {"from", from},
      {"limit", 512 * 1024}, {"raw", true}};
  client_.op_bytes_async(caller, "objects.get", args.dump(), {},
                         [done = std::move(done)](client::Answer<client::OpAnswer> answer) {
                           if (auto* failure = std::get_if<1>(&answer)) return done(*failure);
                           done(std::move(std::get<0>(answer).bytes));
                         });
}

void ObjectStore::list(const client::Caller& caller, const ObjectListQuery& query,
                       std::function<void(client::Answer<Page>)> done) {
  const json args = {{"kind", query.kind},
                     {"owner", caller.tenant()},
                     {"from", query.from},
                     {"order", query.newest_first ? "newest" : "oldest"},
                     {"limit", query.limit}};
  client_.op_async(caller, "objects.list", args.dump(),
                   reading<Page>("objects.list", std::move(done), [](const json& document) {
                     Page page;
                     page.more = document.at("more");
                     for (const json& object : document.at("objects")) {
                       page.objects.push_back(parse_stored_object(object));
                     }
                     return page;
                   }));
}

void ObjectStore::derive(const client::Principal& principal, const std::string& kind,
                         const std::string& prefix, const std::string& key,
                         std::function<void(client::Answer<Derived>)> done) {
  const json args = {{"kind", kind}, {"prefix", prefix}, {"key", key}};
  client_.op_async(principal, "ids.derive", args.dump(),
                   reading<Derived>("ids.derive", std::move(done), [](const json& document) {
                     return Derived{document.at("id"), document.at("version")};
                   }));
}

void ObjectStore::remove(const client::Caller& caller, const std::string& kind,
                         const std::string& id, std::function<void(client::Answer<bool>)> done) {
  if (!is_request_id(id)) return done(false);
  const json args = {{"kind", kind}, {"id", id}, {"owner", caller.tenant()}};
  client_.op_async(caller, "objects.delete", args.dump(),
                   reading<bool>("objects.delete", std::move(done), [](const json& document) {
                     return document.at("deleted") == true;
                   }));
}

}  // namespace holdfast::gateway
