// /v1/files: a file is received whole, stored in the database chunk by chunk, and only then shown.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/object_endpoints.h"
#include "control/gateway/http/multipart.h"
#include "control/gateway/objects/files.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kChunkBytes = 512 * 1024;  // read at a time
constexpr std::size_t kPutBytes = 128 * 1024;    // stored at a time, in a commit of its own
constexpr std::int64_t kPartialMs = 3'600'000;   // an unfinished upload is deleted after this
constexpr std::size_t kNameBytesMax = 512;
constexpr const char* kPurposes[] = {"assistants", "batch",     "fine-tune",
                                     "vision",     "user_data", "evals"};

std::int64_t now_ms() {
  return system_clock().wall_ms();
}

/// One upload that is being stored. The exchange holds its bytes.
struct Upload {
  Context& context;
  ExchangePtr exchange;
  std::string id;
  FileFacts facts;
  std::string_view data;
  std::int64_t ttl_ms = 0;  // 0 = without end
};
using UploadPtr = std::shared_ptr<Upload>;

void look(const UploadPtr& upload);

bool read_expiry(const std::vector<FormPart>& parts, std::int64_t* ttl_ms, FieldError* error) {
  for (const FormPart& part : parts) {
    if (part.name == "expires_after[anchor]" && part.data != "created_at") {
      *error = {"'expires_after[anchor]' must be \"created_at\"", part.name};
      return false;
    }
    if (part.name != "expires_after[seconds]") continue;
    std::int64_t seconds = 0;
    const auto r = std::from_chars(part.data.begin(), part.data.end(), seconds);
    if (r.ec != std::errc() || r.ptr != part.data.end() || seconds < 1 || seconds > 1LL << 32) {
      *error = {"'expires_after[seconds]' must be a positive number", part.name};
      return false;
    }
    *ttl_ms = seconds * 1000;
  }
  return true;
}

/// The last part of that name; nullptr if there is none.
const FormPart* last_part(const std::vector<FormPart>& parts, std::string_view name) {
  const auto found = std::find_if(parts.rbegin(), parts.rend(),
                                  [&](const FormPart& part) { return part.name == name; });
  return found == parts.rend() ? nullptr : &*found;
}

bool read_upload(const Request& request, Upload* out, FieldError* error) {
  const std::string* type = request.header("Content-Type");
  std::vector<FormPart> parts;
  if (!parse_form(type == nullptr ? "" : *type, request.body, &parts, error)) return false;
  if (const FormPart* purpose = last_part(parts, "purpose")) out->facts.purpose = purpose->data;
  const FormPart* file = last_part(parts, "file");
  const bool recognised = std::find(std::begin(kPurposes), std::end(kPurposes),
                                    out->facts.purpose) != std::end(kPurposes);
  if (!recognised) {
    *error = {"'purpose' is required: \"batch\" or another of OpenAI's", "purpose"};
    return false;
  }
  if (file == nullptr || file->data.empty()) {
    *error = {file == nullptr ? "'file' is required" : "'file' is empty", "file"};
    return false;
  }
  out->facts.filename = file->filename.empty() ? "file" : file->filename;
  out->facts.filename.resize(std::min(out->facts.filename.size(), kNameBytesMax));
  out->data = file->data;
  out->facts.hash = hash_bytes(out->facts.purpose + '\0', file->data);
  return read_expiry(parts, &out->ttl_ms, error);
}

/// Returns the chunk that follows `at` bytes; the last one also ends the upload.
ObjectChange next_chunk(const Upload& upload, std::int64_t at, bool is_new) {
  const auto from = static_cast<std::size_t>(at);
  ObjectChange change;
  change.kind = kFileKind;
  change.id = upload.id;
  change.append = upload.data.substr(from, kPutBytes);
  change.append_at = at;
  if (is_new) change.version = 0;
  FileFacts facts = upload.facts;
  facts.whole = from + change.append.size() == upload.data.size();
  change.body = file_body(facts);
  const std::int64_t ttl_ms = facts.whole ? upload.ttl_ms : kPartialMs;
  change.expires_ms = ttl_ms == 0 ? 0 : now_ms() + ttl_ms;
  return change;
}

void send_chunks(const UploadPtr& upload, std::int64_t at, bool is_new);

/// Stores one chunk. Its slot is free again with the daemon's answer.
void put_chunk(const UploadPtr& upload, std::int64_t at, bool is_new, TenantSlots::Slot turn) {
  const ObjectChange change = next_chunk(*upload, at, is_new);
  const bool last = static_cast<std::size_t>(at) + change.append.size() == upload->data.size();
  upload->context.object_store->put(
      upload->exchange->request().from, change,
      [upload, last, turn = std::move(turn)](client::Answer<ObjectStore::Put> answer) mutable {
        turn = nullptr;
        upload->exchange->post([upload, last, answer = std::move(answer)] {
          const auto* failure = std::get_if<client::Failure>(&answer);
          if (failure != nullptr && failure->code != Errc::kConflict) {
            return upload->exchange->respond(error_response(*failure));
          }
          // After a conflict the database has the truth: this put may have come twice.
          if (failure != nullptr || last) return look(upload);
          send_chunks(upload, std::get<0>(answer).bytes, false);
        });
      });
}

/// Stores what follows `at` bytes, chunk by chunk, each when the tenant has a slot: the link to the
/// daemon and its one thread also serve the other tenants.
void send_chunks(const UploadPtr& upload, std::int64_t at, bool is_new) {
  const auto granted = [upload, at, is_new](TenantSlots::Slot turn) {
    upload->exchange->post([upload, at, is_new, turn = std::move(turn)]() mutable {
      put_chunk(upload, at, is_new, std::move(turn));
    });
  };
  const std::string tenant = upload->exchange->request().from.tenant();
  CHECK(upload->context.upload_chunk_slots->take(tenant, granted));
}

/// Continues from what the database has of the upload.
void look(const UploadPtr& upload) {
  upload->context.object_store->get(
      upload->exchange->request().from, kFileKind, upload->id,
      on_strand<ObjectStore::Found>(upload->exchange, [upload](const ObjectStore::Found& found) {
        if (!found) return send_chunks(upload, 0, true);
        const FileFacts facts = file_facts(*found);
        if (facts.hash != upload->facts.hash) {
          return upload->exchange->respond(other_body(upload->id));
        }
        if (facts.whole) return upload->exchange->respond(json_response(file_json(*found)));
        send_chunks(upload, found->bytes, false);
      }));
}

/// Content that is being sent.
struct Download {
  Context& context;
  ExchangePtr exchange;
  StoredObject file;
  std::int64_t at = 0;
};

void send_content(const std::shared_ptr<Download>& download) {
  if (download->at >= download->file.bytes) return download->exchange->end();
  download->context.object_store->read(
      download->exchange->request().from, kFileKind, download->file.id, download->at,
      [download](client::Answer<std::string> answer) {
        download->exchange->post([download, answer = std::move(answer)] {
          const auto* chunk = std::get_if<std::string>(&answer);
          // A missing rest must look like a broken answer, not like a short file.
          if (chunk == nullptr || chunk->empty()) return download->exchange->abort();
          download->at += static_cast<std::int64_t>(chunk->size());
          download->exchange->write(*chunk);
          download->exchange->on_drain(kChunkBytes, [download] { send_content(download); });
        });
      });
}

}  // namespace

void post_files(Context& context, const ExchangePtr& exchange, const Captures&) {
  auto upload = std::make_shared<Upload>(Upload{context, exchange, {}, {}, {}, 0});
  FieldError error;
  if (!read_upload(exchange->request(), upload.get(), &error)) {
    return exchange->respond(error_response(error));
  }
  with_new_id(context, exchange, kFileKind, "file-", [upload](const NewId& made) {
    upload->id = made.id;
    upload->facts.id_version = made.version;
    look(upload);
  });
}

void get_files(Context& context, const ExchangePtr& exchange, const Captures&) {
  const std::string* purpose = exchange->request().query_value("purpose");
  list_objects(context, exchange, kFileKind, [purpose](const StoredObject& stored) {
    const bool matches = purpose == nullptr || file_facts(stored).purpose == *purpose;
    return matches ? file_json(stored) : json();
  });
}

void get_file(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  with_object(context, exchange, kFileKind, captures[0], [exchange](const StoredObject& stored) {
    const json document = file_json(stored);
    exchange->respond(document.is_null() ? no_such(kFileKind, stored.id) : json_response(document));
  });
}

void delete_file(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const std::string id = captures[0];
  context.object_store->remove(
      exchange->request().from, kFileKind, id,
      on_strand<bool>(exchange, [exchange, id](bool deleted) {
        if (!deleted) return exchange->respond(no_such(kFileKind, id));
        exchange->respond(json_response({{"id", id}, {"object", "file"}, {"deleted", true}}));
      }));
}

void get_file_content(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  with_object(context, exchange, kFileKind, captures[0], [&context, exchange](StoredObject stored) {
    if (!file_facts(stored).whole) return exchange->respond(no_such(kFileKind, stored.id));
    Response head;
    head.content_type = "application/octet-stream";
    exchange->begin_stream(std::move(head), "");
    send_content(std::make_shared<Download>(Download{context, exchange, std::move(stored), 0}));
  });
}

}  // namespace holdfast::gateway
