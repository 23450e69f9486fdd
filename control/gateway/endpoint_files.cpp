// /v1/files: a file is taken whole, put into the database piece by piece, and only then shown.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/gateway/endpoints.h"
#include "control/gateway/files.h"
#include "control/gateway/kept_endpoints.h"
#include "control/gateway/multipart.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kPieceBytes = 512 * 1024;  // that is read at a time
constexpr std::size_t kPutBytes = 128 * 1024;    // and written, in a commit of its own
constexpr std::int64_t kPartialMs = 3'600'000;   // what was never finished goes after that
constexpr std::size_t kNameBytesMax = 512;
constexpr const char* kPurposes[] = {"assistants", "batch",     "fine-tune",
                                     "vision",     "user_data", "evals"};

std::int64_t now_ms() {
  return system_clock().wall_ms();
}

/// One upload on its way into the database. The exchange holds the bytes.
struct Upload {
  Context& context;
  ExchangePtr exchange;
  std::string id;
  FileFacts facts;
  std::string_view data;
  std::int64_t keep_ms = 0;  // 0 = for ever
};
using UploadPtr = std::shared_ptr<Upload>;

void look(const UploadPtr& upload);

bool read_expiry(const std::vector<FormPart>& parts, std::int64_t* keep_ms, FieldError* error) {
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
    *keep_ms = seconds * 1000;
  }
  return true;
}

bool read_upload(const Request& request, Upload* out, FieldError* error) {
  const std::string* type = request.header("Content-Type");
  std::vector<FormPart> parts;
  if (!parse_form(type == nullptr ? "" : *type, request.body, &parts, error)) return false;
  const FormPart* file = nullptr;
  for (const FormPart& part : parts) {
    if (part.name == "purpose") out->facts.purpose = part.data;
    if (part.name == "file") file = &part;
  }
  const bool known = std::find(std::begin(kPurposes), std::end(kPurposes), out->facts.purpose) !=
                     std::end(kPurposes);
  if (!known) {
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
  return read_expiry(parts, &out->keep_ms, error);
}

/// The next piece behind `at` bytes, the last one with the end of the upload.
KeepChange next_piece(const Upload& upload, std::int64_t at, bool is_new) {
  const auto from = static_cast<std::size_t>(at);
  KeepChange change;
  change.kind = kFileKind;
  change.id = upload.id;
  change.append = upload.data.substr(from, kPutBytes);
  change.append_at = at;
  if (is_new) change.version = 0;
  FileFacts facts = upload.facts;
  facts.whole = from + change.append.size() == upload.data.size();
  change.body = file_body(facts);
  const std::int64_t keep_ms = facts.whole ? upload.keep_ms : kPartialMs;
  change.expires_ms = keep_ms == 0 ? 0 : now_ms() + keep_ms;
  return change;
}

void send_pieces(const UploadPtr& upload, std::int64_t at, bool is_new);

/// The turn ends with the daemon's answer.
void put_piece(const UploadPtr& upload, std::int64_t at, bool is_new, TenantSlots::Slot turn) {
  const KeepChange change = next_piece(*upload, at, is_new);
  const bool last = static_cast<std::size_t>(at) + change.append.size() == upload->data.size();
  upload->context.keeper->put(
      upload->exchange->request().from, change,
      [upload, last, turn = std::move(turn)](client::Answer<Keeper::Put> answer) mutable {
        turn = nullptr;
        upload->exchange->post([upload, last, answer = std::move(answer)] {
          const auto* failure = std::get_if<client::Failure>(&answer);
          if (failure != nullptr && failure->code != Errc::kConflict) {
            return upload->exchange->respond(error_response(*failure));
          }
          // After a conflict the truth is in the database: this put may have come twice.
          if (failure != nullptr || last) return look(upload);
          send_pieces(upload, std::get<0>(answer).bytes, false);
        });
      });
}

/// What is behind `at` bytes, piece by piece, each when it is the tenant's turn: the link to the
/// daemon and its one thread are the other tenants' too.
void send_pieces(const UploadPtr& upload, std::int64_t at, bool is_new) {
  const auto granted = [upload, at, is_new](TenantSlots::Slot turn) {
    upload->exchange->post([upload, at, is_new, turn = std::move(turn)]() mutable {
      put_piece(upload, at, is_new, std::move(turn));
    });
  };
  const std::string tenant = upload->exchange->request().from.tenant();
  CHECK(upload->context.piece_turns->take(tenant, granted));
}

/// Goes on from what the database has of it.
void look(const UploadPtr& upload) {
  upload->context.keeper->get(
      upload->exchange->request().from, kFileKind, upload->id,
      on_strand<Keeper::Found>(upload->exchange, [upload](const Keeper::Found& found) {
        if (!found) return send_pieces(upload, 0, true);
        const FileFacts facts = file_facts(*found);
        if (facts.hash != upload->facts.hash) {
          return upload->exchange->respond(other_body(upload->id));
        }
        if (facts.whole) return upload->exchange->respond(json_response(file_json(*found)));
        send_pieces(upload, found->bytes, false);
      }));
}

/// Content on its way out.
struct Download {
  Context& context;
  ExchangePtr exchange;
  Kept file;
  std::int64_t at = 0;
};

void send_content(const std::shared_ptr<Download>& download) {
  if (download->at >= download->file.bytes) return download->exchange->end();
  download->context.keeper->read(download->exchange->request().from, kFileKind, download->file.id,
                                 download->at, [download](client::Answer<std::string> answer) {
                                   download->exchange->post([download, answer = std::move(answer)] {
                                     const auto* piece = std::get_if<std::string>(&answer);
                                     // Without the rest the client must see a broken answer, not a
                                     // short file.
                                     if (piece == nullptr || piece->empty())
                                       return download->exchange->abort();
                                     download->at += static_cast<std::int64_t>(piece->size());
                                     download->exchange->write(*piece);
                                     download->exchange->on_drain(
                                         kPieceBytes, [download] { send_content(download); });
                                   });
                                 });
}

}  // namespace

void post_files(Context& context, ExchangePtr exchange, const Captures&) {
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

void get_files(Context& context, ExchangePtr exchange, const Captures&) {
  const std::string* purpose = exchange->request().query_value("purpose");
  list_kept(context, exchange, kFileKind, [purpose](const Kept& kept) {
    const bool wanted = purpose == nullptr || file_facts(kept).purpose == *purpose;
    return wanted ? file_json(kept) : json();
  });
}

void get_file(Context& context, ExchangePtr exchange, const Captures& captures) {
  with_kept(context, exchange, kFileKind, captures[0], [exchange](const Kept& kept) {
    const json shown = file_json(kept);
    exchange->respond(shown.is_null() ? no_such(kFileKind, kept.id) : json_response(shown));
  });
}

void delete_file(Context& context, ExchangePtr exchange, const Captures& captures) {
  const std::string id = captures[0];
  context.keeper->remove(
      exchange->request().from, kFileKind, id,
      on_strand<bool>(exchange, [exchange, id](bool deleted) {
        if (!deleted) return exchange->respond(no_such(kFileKind, id));
        exchange->respond(json_response({{"id", id}, {"object", "file"}, {"deleted", true}}));
      }));
}

void get_file_content(Context& context, ExchangePtr exchange, const Captures& captures) {
  with_kept(context, exchange, kFileKind, captures[0], [&context, exchange](Kept kept) {
    if (!file_facts(kept).whole) return exchange->respond(no_such(kFileKind, kept.id));
    Response head;
    head.content_type = "application/octet-stream";
    exchange->begin_stream(std::move(head), "");
    send_content(std::make_shared<Download>(Download{context, exchange, std::move(kept), 0}));
  });
}

}  // namespace holdfast::gateway
