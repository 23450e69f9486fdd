// /tokenize and /detokenize, in the forms of vLLM and of llama-server: what a model's own
// vocabulary makes of a text, a chat or ids. The daemon's helpers do the work; nothing is kept.

#include <nlohmann/json.hpp>

#include "control/gateway/choice_text.h"
#include "control/gateway/endpoints.h"
#include "control/gateway/json_fields.h"
#include "control/gateway/kept_endpoints.h"
#include "control/gateway/post_headers.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

struct Wish {
  json args = json::object();  // of the daemon's verb
  bool token_texts = false;    // vLLM's return_token_strs
  bool with_pieces = false;    // llama-server's
  std::vector<std::string> ignored;
};

/// The bytes of each token as the daemon gives them, [[104, 105], …].
std::vector<std::string> read_pieces(const json& document) {
  std::vector<std::string> out;
  for (const json& piece : document.value("pieces", json::array())) {
    const auto bytes = piece.get<std::vector<std::uint8_t>>();
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

/// A text where the bytes are one, else the bytes: a token may be a part of a character.
json piece_json(const std::string& bytes) {
  if (clean_utf8(bytes) == bytes) return bytes;
  return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
}

/// One of 'prompt' (vLLM: with the tokens that begin a prompt), 'content' (llama-server: without)
/// and 'messages'.
bool read_tokenize(const json& body, const ParamLimits& limits, Wish* wish, FieldError* error) {
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
  fields.boolean("return_token_strs", &wish->token_texts);
  fields.boolean("with_pieces", &wish->with_pieces);
  wish->args = {{"model", model},
                {"add_special", special},
                {"pieces", wish->token_texts || wish->with_pieces}};
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  if (!chat) {
    wish->args["text"] = text;
    wish->ignored = fields.unknown();
    return true;
  }
  Generation generation;
  if (!parse_chat(body, limits, &generation, error)) return false;
  wish->args["messages_json"] = *generation.submit.prompts[0].messages_json;
  return true;
}

bool read_detokenize(const json& body, const ParamLimits&, Wish* wish, FieldError* error) {
  Fields fields(body);
  std::string model;
  fields.text("model", &model);
  const json* tokens = fields.take("tokens");
  bool ids = tokens != nullptr && tokens->is_array();
  for (const json& id : ids ? *tokens : json::array()) {
    ids = ids && id.is_number_integer() && id >= 0 && id <= INT32_MAX;
  }
  if (!ids) fields.fail("tokens", "is required: an array of integers from 0 to 2147483647");
  wish->ignored = fields.unknown();
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  wish->args = {{"model", model}, {"ids", *tokens}};
  return true;
}

json show_tokens(const Wish& wish, const json& document) {
  json out;
  const json& ids = document.at("ids");
  const std::vector<std::string> pieces = read_pieces(document);
  json& tokens = out["tokens"] = ids;
  for (std::size_t i = 0; wish.with_pieces && i < pieces.size(); ++i) {
    tokens[i] = {{"id", ids[i]}, {"piece", piece_json(pieces[i])}};
  }
  out["count"] = ids.size();
  out["max_model_len"] = document.at("context");
  out["token_strs"] = nullptr;
  if (wish.token_texts) {
    json& texts = out["token_strs"] = json::array();
    for (const std::string& piece : pieces) texts.push_back(clean_utf8(piece));
  }
  return out;
}

json show_text(const Wish&, const json& document) {
  return {{"prompt", document.at("text")}, {"content", document.at("text")}};
}

using Read = bool (*)(const json&, const ParamLimits&, Wish*, FieldError*);
using Show = json (*)(const Wish&, const json&);

void ask(Context& context, const ExchangePtr& exchange, const char* verb, Read read, Show show) {
  Wish wish;
  FieldError error;
  json body;
  if (!parse_json_object(exchange->request().body, &body, &error) ||
      !read(body, context.params, &wish, &error)) {
    return exchange->respond(error_response(error));
  }
  const std::string args = wish.args.dump();
  wish.args.clear();
  const auto answer = [exchange, wish = std::move(wish), show](const std::string& text) {
    try {
      Response response = json_response(show(wish, try_parse_json<json>(text)));
      response.headers = answer_headers(wish.ignored, false);
      exchange->respond(std::move(response));
    } catch (const json::exception& e) {
      exchange->respond(error_response(500, std::string("the daemon's answer: ") + e.what()));
    }
  };
  context.operating->op_async(exchange->request().from, verb, args,
                              on_strand<std::string>(exchange, answer));
}

}  // namespace

void post_tokenize(Context& context, ExchangePtr exchange, const Captures&) {
  ask(context, exchange, "models.tokenize", read_tokenize, show_tokens);
}

void post_detokenize(Context& context, ExchangePtr exchange, const Captures&) {
  ask(context, exchange, "models.detokenize", read_detokenize, show_text);
}

}  // namespace holdfast::gateway
