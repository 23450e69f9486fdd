// Ollama's blobs: files of models that operators send by their hash, before /api/create names them.
// The bytes go on to the fetcher's store while they come; no file is held in memory.

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/body_encoding.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/ollama/blob_link.h"
#include "control/gateway/ollama/ollama_change.h"
#include "shared/pull/blob.h"

namespace holdfast::gateway {
namespace {

/// Returns the digits of the path's digest, or answers why not.
std::optional<std::string> read_digest(Context& context, const ExchangePtr& exchange,
                                       const Captures& captures) {
  if (!may_change_models(context, exchange)) return std::nullopt;
  if (context.blobs == nullptr) {
    exchange->respond(error_response(
        503,
        "this gateway has no store of blobs: the daemon is on another machine; send the file to a "
        "gateway there, or have it pulled (POST /v1/pulls)"));
    return std::nullopt;
  }
  auto digits = pull::digest_digits(captures[0]);
  if (!digits) {
    exchange->respond(error_response(
        FieldError{"the digest is not right: expected sha256: and 64 digits in lower case", ""}));
  }
  return digits;
}

/// The length that the client tells; -1: none, the body comes in chunks.
std::int64_t told_length(const Request& request) {
  const std::string* text = request.header("Content-Length");
  std::int64_t bytes = -1;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), bytes);
  return bytes;
}

Response refused(const Error& error) {
  wire::Refusal refusal;
  refusal.code = error.code;
  refusal.message = error.what;
  return error_response(refusal);
}

/// One blob on its way. Runs on the exchange's strand but for what the link calls.
class Reception : public std::enable_shared_from_this<Reception> {
 public:
  explicit Reception(ExchangePtr exchange) : exchange_(std::move(exchange)) {}

  void begin(BlobLink& link, const std::string& digits) {
    const auto on_strand = [self = shared_from_this()](auto work) {
      self->exchange_->post([self, work = std::move(work)] { work(*self); });
    };
    upload_ = link.store(
        digits, told_length(exchange_->request()),
        [on_strand] { on_strand([](Reception& self) { self.receive(); }); },
        [on_strand](Result<std::int64_t> stored) {
          on_strand([stored = std::move(stored)](Reception& self) { self.answer(stored); });
        });
    exchange_->on_close([self = shared_from_this()] { self->upload_->abort(); });
  }

 private:
  void receive() {
    BodyParts parts;
    parts.on_bytes = [self = shared_from_this()](std::string bytes) {
      self->upload_->write(std::move(bytes), [self] {
        self->exchange_->post([self] { self->exchange_->next_part(); });
      });
    };
    parts.on_end = [self = shared_from_this()] { self->upload_->end(); };
    parts.on_failure = [self = shared_from_this()](Response why) {
      self->upload_->abort();
      self->exchange_->respond(std::move(why));
    };
    exchange_->receive_body(parts);
  }

  void answer(const Result<std::int64_t>& stored) {
    if (!stored) return exchange_->respond(refused(stored.error()));
    Response response;
    response.status = 201;
    exchange_->respond(std::move(response));
  }

  ExchangePtr exchange_;
  std::shared_ptr<BlobUpload> upload_;
};

}  // namespace

void head_ollama_blob(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const auto digits = read_digest(context, exchange, captures);
  if (!digits) return;
  context.blobs->find(*digits, [exchange](Result<std::int64_t> found) {
    exchange->post([exchange, found = std::move(found)] {
      if (!found) return exchange->respond(refused(found.error()));
      exchange->respond(Response());
    });
  });
}

void post_ollama_blob(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const auto digits = read_digest(context, exchange, captures);
  if (!digits) return;
  if (has_encoding(exchange->request())) {
    return exchange->respond(
        error_response(415, "blobs are sent without Content-Encoding: their hash is of the bytes"));
  }
  std::make_shared<Reception>(exchange)->begin(*context.blobs, *digits);
}

}  // namespace holdfast::gateway
