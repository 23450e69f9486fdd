// /tokenize and /detokenize, in the forms of vLLM and of llama-server: what a model's vocabulary
// makes of a text, a chat or ids.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/choice_text.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/common/token_question.h"
#include "control/gateway/http/json_body.h"
#include "shared/base/base64.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// Returns a text where the bytes are one, else the bytes: a token may be a part of a character.
json token_bytes_json(const std::string& bytes) {
  if (clean_utf8(bytes) == bytes) return bytes;
  return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
}

/// Reads one of 'prompt' (vLLM: with the tokens that begin a prompt), 'content' (llama-server:
/// without them) and 'messages'.
bool read_tokenize(const json& body, const ParamLimits& limits, TokenizeRequest* request,
                   FieldError* error) {
  Fields fields(body);
  std::string model, text;
  fields.text("model", &model);
  const bool prompt = fields.text("prompt", &text);
  const bool content = fields.text("content", &text);
  const bool chat = fields.take("messages") != nullptr;
  if (prompt + content + chat != 1) {
    fields.fail("prompt", "is required: a string; or 'content', or 'messages', and one alone");
  }
  bool special = !content;
  fields.boolean("add_special_tokens", &special);
  fields.boolean("add_special", &special);
  bool parse_special = true;
  if (!chat) fields.boolean("parse_special", &parse_special);
  fields.boolean("return_token_strs", &request->token_texts);
  fields.boolean("with_pieces", &request->with_token_bytes);
  request->args =
      std::make_shared<json>(json{{"model", model},
                                  {"add_special", special},
                                  {"parse_special", parse_special},
                                  {"pieces", request->token_texts || request->with_token_bytes},
                                  {"packed", true},
                                  {"packed_ids", true}});
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  if (!chat) {
    (*request->args)["text"] = text;
    request->ignored = fields.unknown();
    return true;
  }
  Generation generation;
  if (!parse_chat(body, limits, &generation, error)) return false;
  (*request->args)["messages_json"] = *generation.submit.prompts[0].messages_json;
  return true;
}

bool read_detokenize(const json& body, const ParamLimits&, TokenizeRequest* request,
                     FieldError* error) {
  Fields fields(body);
  std::string model;
  fields.text("model", &model);
  const json* tokens = fields.take("tokens");
  bool ids = tokens != nullptr && tokens->is_array();
  for (const json& id : ids ? *tokens : json::array()) {
    ids = ids && id.is_number_integer() && id >= 0 && id <= INT32_MAX;
  }
  if (!ids) fields.fail("tokens", "is required: an array of integers from 0 to 2147483647");
  request->ignored = fields.unknown();
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  request->args = std::make_shared<json>(json{{"model", model}, {"ids", *tokens}});
  return true;
}

/// The answer to /tokenize, as text that is written part by part.
class TokenText {
 public:
  /// `document` is the daemon's answer.
  TokenText(const TokenizeRequest& request, const json& document) : request_(request) {
    read_ids(document);
    context_ = document.at("context").get<std::int64_t>();
    bytes_ = from_base64(document.value("piece_bytes", "")).value_or("");
    for (const json& end : document.value("piece_ends", json::array())) {
      ends_.push_back(std::min(end.get<std::size_t>(), bytes_.size()));
    }
  }
  bool ended() const { return part_ == Part::kEnded; }
  bool is_long() const { return ids_.size() > kLongTokens; }

  /// Returns at least one byte, and not many more than `bytes`.
  std::string next(std::size_t bytes) {
    std::string out;
    while (out.size() < bytes && !ended()) step(out);
    return out;
  }

 private:
  static constexpr std::size_t kLongTokens = 4'096;
  static constexpr std::size_t kIdBytes = 4;  // packed, little-endian
  enum class Part { kBegin, kTokens, kStrings, kEnded };

  /// Reads packed ids, or numbers from a daemon that does not pack them.
  void read_ids(const json& document) {
    const auto packed = document.find("id_bytes");
    if (packed == document.end()) {
      for (const json& id : document.at("ids")) ids_.push_back(id.get<std::int64_t>());
      return;
    }
    const std::string bytes = from_base64(packed->get_ref<const std::string&>()).value_or("");
    ids_.resize(bytes.size() / kIdBytes);
    for (std::size_t i = 0; i < ids_.size() * kIdBytes; ++i) {
      const std::int64_t byte = static_cast<std::uint8_t>(bytes[i]);
      ids_[i / kIdBytes] |= byte << (i % kIdBytes * 8);
    }
  }
  std::string token_bytes(std::size_t i) const {
    if (i >= ends_.size()) return {};
    const std::size_t from = i == 0 ? 0 : ends_[i - 1];
    return bytes_.substr(from, std::max(ends_[i], from) - from);
  }
  void step(std::string& out) {
    switch (part_) {
      case Part::kBegin:
        out += "{\"tokens\":[";
        return begin(Part::kTokens);
      case Part::kTokens:
        if (at_ < ids_.size()) return add_token(out);
        out += "],\"count\":" + std::to_string(ids_.size()) +
               ",\"max_model_len\":" + std::to_string(context_) + ",\"token_strs\":";
        out += request_.token_texts ? "[" : "null}";
        return begin(request_.token_texts ? Part::kStrings : Part::kEnded);
      case Part::kStrings:
        if (at_ < ends_.size()) {
          if (at_ > 0) out += ',';
          append_json_string(out, clean_utf8(token_bytes(at_++)));
          return;
        }
        out += "]}";
        return begin(Part::kEnded);
      case Part::kEnded:
        return;
    }
  }
  void begin(Part part) {
    part_ = part;
    at_ = 0;
  }
  void add_token(std::string& out) {
    if (at_ > 0) out += ',';
    const std::string id = std::to_string(ids_[at_]);
    out += request_.with_token_bytes && at_ < ends_.size()
               ? "{\"id\":" + id + ",\"piece\":" + token_bytes_json(token_bytes(at_)).dump() + "}"
               : id;
    ++at_;
  }

  const TokenizeRequest request_;
  std::vector<std::int64_t> ids_;
  std::int64_t context_ = 0;
  std::string bytes_;
  std::vector<std::size_t> ends_;
  Part part_ = Part::kBegin;
  std::size_t at_ = 0;  // next token
};

void send_rest(const ExchangePtr& exchange, const std::shared_ptr<TokenText>& text) {
  constexpr std::size_t kPart = 64 * 1024;
  if (text->ended()) return exchange->end();
  exchange->write(text->next(kPart));
  exchange->on_drain(kPart, [exchange, text] { send_rest(exchange, text); });
}

void show_tokens(const ExchangePtr& exchange, const TokenizeRequest& request,
                 const json& document) {
  const auto text = std::make_shared<TokenText>(request, document);
  Response response;
  response.content_type = "application/json";
  response.headers = answer_headers(request.ignored, false);
  if (text->is_long()) {
    exchange->begin_stream(std::move(response), "");
    return send_rest(exchange, text);
  }
  response.body = text->next(SIZE_MAX);
  exchange->respond(std::move(response));
}

void show_text(const ExchangePtr& exchange, const TokenizeRequest& request, const json& document) {
  Response response =
      json_response({{"prompt", document.at("text")}, {"content", document.at("text")}});
  response.headers = answer_headers(request.ignored, false);
  exchange->respond(std::move(response));
}

}  // namespace

void post_tokenize(Context& context, const ExchangePtr& exchange, const Captures&) {
  ask_tokens(context, exchange, {"models.tokenize", read_tokenize, show_tokens});
}

void post_detokenize(Context& context, const ExchangePtr& exchange, const Captures&) {
  ask_tokens(context, exchange, {"models.detokenize", read_detokenize, show_text});
}

}  // namespace holdfast::gateway
