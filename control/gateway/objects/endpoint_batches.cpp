// /v1/batches: batches are made, shown and cancelled here; batch_runner.cpp works on them.

#include <nlohmann/json.hpp>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/object_endpoints.h"
#include "control/gateway/common/offline_call.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/objects/batch_runner.h"
#include "control/gateway/objects/batches.h"
#include "control/gateway/objects/files.h"
#include "shared/base/clock.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kHoursMax = 24 * 30;
constexpr std::size_t kMetadataMax = 16;
constexpr std::size_t kMetadataNameBytesMax = 64 * 4;  // of OpenAI's 64 characters
constexpr std::size_t kMetadataTextBytesMax = 512 * 4;

struct NewBatch {
  Context& context;
  ExchangePtr exchange;
  std::string id;
  json body;
};
using NewBatchPtr = std::shared_ptr<NewBatch>;

/// "24h" → seconds; 0 for another text.
std::int64_t window_seconds(const std::string& text) {
  std::int64_t hours = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9' || hours > kHoursMax) return 0;
    hours = hours * 10 + (c - '0');
  }
  return text.ends_with('h') && hours > 0 && hours <= kHoursMax ? hours * kHour : 0;
}

bool is_long_pair(const std::string& name, const json& value) {
  return name.size() > kMetadataNameBytesMax ||
         (value.is_string() && value.get_ref<const std::string&>().size() > kMetadataTextBytesMax);
}

void read_metadata(Fields& fields, json* batch) {
  const json* metadata = fields.take("metadata");
  (*batch)["metadata"] = metadata == nullptr ? json() : *metadata;
  if (metadata == nullptr) return;
  if (!metadata->is_object() || metadata->size() > kMetadataMax) {
    return fields.fail("metadata", "must be an object of at most 16 texts");
  }
  for (const auto& [name, value] : metadata->items()) {
    if (!value.is_string()) fields.fail("metadata", "must be an object of at most 16 texts");
    if (is_long_pair(name, value)) {
      fields.fail("metadata", "may have names of 64 and texts of 512 characters");
    }
  }
}

bool read_batch(const json& body, json* batch, FieldError* error) {
  Fields fields(body);
  std::string endpoint, file, window;
  if (!fields.text("endpoint", &endpoint) || parser_of(endpoint) == nullptr) {
    fields.fail("endpoint", "must be /v1/chat/completions, /v1/completions or /v1/embeddings");
  }
  if (!fields.text("input_file_id", &file) || file.empty()) {
    fields.fail("input_file_id", "is required: the id of an uploaded file");
  }
  if (!fields.text("completion_window", &window) || window_seconds(window) == 0) {
    fields.fail("completion_window", "must be a number of hours, like \"24h\"");
  }
  (*batch)["object"] = "batch";
  (*batch)["endpoint"] = endpoint;
  (*batch)["errors"] = nullptr;
  (*batch)["input_file_id"] = file;
  (*batch)["completion_window"] = window;
  (*batch)["status"] = "validating";
  (*batch)["output_file_id"] = nullptr;
  (*batch)["error_file_id"] = nullptr;
  const std::int64_t now = system_clock().wall_ms() / 1000;
  (*batch)["created_at"] = now;
  for (const char* name : {"in_progress_at", "expires_at", "finalizing_at", "completed_at",
                           "failed_at", "expired_at", "cancelling_at", "cancelled_at"}) {
    (*batch)[name] = nullptr;
  }
  (*batch)["request_counts"] = {{"total", 0}, {"completed", 0}, {"failed", 0}};
  read_metadata(fields, batch);
  fields.take("output_expires_after");
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  (*batch)["expires_at"] = now + window_seconds(window);
  return true;
}

/// Shows the batch, whether this POST or an earlier one made it.
void show_batch(const NewBatchPtr& batch) {
  with_object(batch->context, batch->exchange, kBatchKind, batch->id,
              [batch](const StoredObject& stored) {
                const json now = try_parse_json<json>(stored.body);
                if (now.value("_hash", "") != batch->body["_hash"]) {
                  return batch->exchange->respond(other_body(batch->id));
                }
                if (batch->context.batches != nullptr) batch->context.batches->wake();
                batch->exchange->respond(json_response(batch_json(stored)));
              });
}

/// Makes an object of the batch's id, or finds that the same POST made it before; then runs `next`.
void put_new(const NewBatchPtr& batch, ObjectChange change, void (*next)(const NewBatchPtr&)) {
  change.id = batch->id;
  change.version = 0;
  batch->context.object_store->put(
      batch->exchange->request().from, change,
      [batch, next](client::Answer<ObjectStore::Put> answer) {
        batch->exchange->post([batch, next, answer = std::move(answer)] {
          const auto* failure = std::get_if<client::Failure>(&answer);
          if (failure != nullptr && failure->code != Errc::kConflict) {
            return batch->exchange->respond(error_response(*failure));
          }
          next(batch);
        });
      });
}

void put_batch(const NewBatchPtr& batch) {
  ObjectChange change;
  change.kind = kBatchKind;
  change.body = batch->body.dump(-1, ' ', false, json::error_handler_t::replace);
  put_new(batch, std::move(change), show_batch);
}

/// Makes the mark that there is work before the batch: if only the mark exists, nothing is lost.
void open_batch(const NewBatchPtr& batch) {
  ObjectChange change;
  change.kind = kOpenBatchKind;
  change.body = "{}";
  change.expires_ms = (batch->body["expires_at"].get<std::int64_t>() + 24 * kHour) * 1000;
  put_new(batch, std::move(change), put_batch);
}

/// Tries until it is done or impossible: the batch's worker may store it at the same moment.
void try_cancel(Context& context, const ExchangePtr& exchange, const std::string& id) {
  with_object(
      context, exchange, kBatchKind, id, [&context, exchange, id](const StoredObject& stored) {
        json body = try_parse_json<json>(stored.body);
        const std::string status = body.value("status", "");
        if (status == "cancelling" || status == "cancelled") {
          return exchange->respond(json_response(batch_json(stored)));
        }
        if (batch_ended(status) || status == "finalizing") {
          wire::Refusal refusal;
          refusal.code = Errc::kConflict;
          refusal.message = "batch " + id + " is " + status + ": there is nothing to cancel";
          return exchange->respond(error_response(refusal));
        }
        set_batch_status(body, "cancelling", system_clock().wall_ms());
        ObjectChange change;
        change.kind = kBatchKind;
        change.id = id;
        change.version = stored.version;
        change.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
        context.object_store->put(
            exchange->request().from, change,
            [&context, exchange, id](client::Answer<ObjectStore::Put> answer) {
              exchange->post([&context, exchange, id, answer = std::move(answer)] {
                const auto* failure = std::get_if<client::Failure>(&answer);
                if (failure != nullptr && failure->code != Errc::kConflict) {
                  return exchange->respond(error_response(*failure));
                }
                try_cancel(context, exchange, id);
              });
            });
      });
}

}  // namespace

void post_batches(Context& context, const ExchangePtr& exchange, const Captures&) {
  const Request& request = exchange->request();
  auto batch = std::make_shared<NewBatch>(NewBatch{context, exchange, {}, {}});
  FieldError error;
  json body;
  batch->body["id"] = nullptr;  // the first member, as OpenAI writes it
  if (!parse_json_object(request.body, &body, &error) || !read_batch(body, &batch->body, &error)) {
    return exchange->respond(error_response(error));
  }
  batch->body["_hash"] = hash_body(request.path, body);
  const std::string file = batch->body["input_file_id"];
  with_object(context, exchange, kFileKind, file, [batch, file](const StoredObject& stored) {
    const FileFacts facts = file_facts(stored);
    if (!facts.whole) return batch->exchange->respond(no_such(kFileKind, file));
    if (facts.purpose != "batch") {
      return batch->exchange->respond(error_response(FieldError{
          "'input_file_id' must be a file uploaded with the purpose \"batch\"", "input_file_id"}));
    }
    with_new_id(batch->context, batch->exchange, kBatchKind, "batch_", [batch](const NewId& made) {
      batch->id = made.id;
      batch->body["id"] = made.id;
      if (made.version > 0) batch->body["_id_version"] = made.version;
      open_batch(batch);
    });
  });
}

void get_batches(Context& context, const ExchangePtr& exchange, const Captures&) {
  list_objects(context, exchange, kBatchKind, batch_json);
}

void get_batch(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  with_object(context, exchange, kBatchKind, captures[0], [exchange](const StoredObject& stored) {
    exchange->respond(json_response(batch_json(stored)));
  });
}

void cancel_batch(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  try_cancel(context, exchange, captures[0]);
}

}  // namespace holdfast::gateway
