// Ollama's API: its chat, generate and embed, and what it tells of models and of itself.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/answers.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/keep_alive.h"
#include "control/gateway/common/post_generation.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/ollama/ollama_body.h"
#include "control/gateway/ollama/ollama_stream.h"
#include "shared/base/clock.h"
#include "shared/base/iso_time.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"
#include "shared/base/version.h"
#include "shared/profile/ollama.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// Programs ask for a version of Ollama to learn what its API has. This is that of the API that is
/// spoken here.
constexpr const char* kApiVersion = "0.13.0";

/// True if the caller may see hashes of files.
bool sees_hashes(const Request& request) {
  return client::AllTenants::of(request.from).has_value();
}

/// Where the file's hash may not be seen, one of the name: programs tell models apart by it.
std::string digest_of(const json& model, const Request& request) {
  if (sees_hashes(request)) return model.value("sha", std::string());
  return hash_bytes("model name", model.value("name", std::string()));
}

json details_of(const json& model) {
  const std::string family = model.value("architecture", std::string());
  return {{"parent_model", ""},   {"format", "gguf"},
          {"family", family},     {"families", json::array({family})},
          {"parameter_size", ""}, {"quantization_level", ""}};
}

/// A model in the lists of /api/tags and /api/ps.
json listed(const json& model, const Request& request) {
  const std::string name = model.value("name", std::string());
  return {{"name", name},
          {"model", name},
          {"size", model.value("size_bytes", std::int64_t{0})},
          {"digest", digest_of(model, request)},
          {"details", details_of(model)}};
}

json capabilities_of(const json& model) {
  if (model.value("makes", std::string()) == "vectors") return json::array({"embedding"});
  json out = json::array({"completion"});
  const chat::OutputKind kind = chat::read_output(model.value("output", std::string()));
  if (kind.format != chat::ToolFormat::kNone) out.push_back("tools");
  if (kind.reasoning) out.push_back("thinking");
  return out;
}

/// Asks the daemon for its models and goes on with the list.
void find_models(Context& context, const ExchangePtr& exchange,
                 std::function<void(const json& models)> then) {
  if (context.operating == nullptr) {
    return exchange->respond(error_response(503, "the daemon's models cannot be read"));
  }
  const auto answer = [then = std::move(then)](const std::string& text) {
    json models = try_parse_json<json>(text);
    if (models.is_object() && models.contains("models")) models = models["models"];
    then(models.is_array() ? models : json::array());
  };
  context.operating->op_async(client::AllTenants::local(), "models.list", "{}",
                              on_strand<std::string>(exchange, answer));
}

using Show = std::function<Response(const json& models)>;

/// Answers with what `show` makes of the daemon's models.
void with_models(Context& context, const ExchangePtr& exchange, const Show& show) {
  find_models(context, exchange,
              [exchange, show](const json& models) { exchange->respond(show(models)); });
}

/// `whole`: with the system message and messages, which are the operator's.
Response model_document(const json& model, const json& profile, bool whole) {
  const std::string family = model.value("architecture", std::string());
  json info = {{"general.architecture", family},
               {family + ".context_length", model.value("context", std::int64_t{0})},
               {family + ".vocab_size", model.value("vocab", std::int64_t{0})}};
  const std::string none;
  json out = {{"license", profile.value("license", none)},
              {"modelfile", profile::modelfile_text(model.value("name", none), profile, whole)},
              {"parameters", profile::ollama_parameters_text(profile)},
              {"template", profile.value("template", none)}};
  for (const char* member : {"system", "messages"}) {
    if (whole && profile.contains(member)) out[member] = profile[member];
  }
  out.update(json{{"details", details_of(model)},
                  {"model_info", std::move(info)},
                  {"capabilities", capabilities_of(model)},
                  {"modified_at", iso_time(model.value("created_ms", std::int64_t{0}))}});
  return json_response(out);
}

/// Answers with a model of the list, and what its name adds to its file.
void show_with_profile(Context& context, const ExchangePtr& exchange, const json& model) {
  const auto answer = [exchange, model](const std::string& text) {
    const json document = try_parse_json<json>(text);
    json profile = document.is_object() ? document.value("profile", json()) : json();
    if (!profile.is_object()) profile = json::object();
    exchange->respond(model_document(model, profile, sees_hashes(exchange->request())));
  };
  const json args = {{"name", model.value("name", std::string())}};
  context.operating->op_async(client::AllTenants::local(), "models.show", args.dump(),
                              on_strand<std::string>(exchange, answer));
}

Response unknown_model(const std::string& name) {
  wire::Refusal refusal;
  refusal.code = Errc::kModelNotFound;
  refusal.message = "'" + name + "' is not registered (GET /api/tags lists the models)";
  return error_response(refusal, "model");
}

/// Has a model unloaded as soon as nobody uses it, and answers as Ollama does.
void answer_unload(Context& context, const ExchangePtr& exchange, const json& body, bool chat) {
  if (context.operating == nullptr) {
    return exchange->respond(error_response(503, "the daemon's models cannot be changed"));
  }
  const std::string name = named_model(body);
  if (name.empty()) {
    return exchange->respond(error_response(
        FieldError{"'model' is required: the name of a model (GET /api/tags)", "model"}));
  }
  const json args = {{"name", name}, {"ms", 0}, {"client", true}};
  const auto answer = [exchange, name, chat](const std::string&) {
    json document = {{"model", name}, {"created_at", iso_time(system_clock().wall_ms())}};
    if (chat) {
      document["message"] = {{"role", "assistant"}, {"content", ""}};
    } else {
      document["response"] = "";
    }
    document["done"] = true;
    document["done_reason"] = "unload";
    exchange->respond(json_response(document));
  };
  context.operating->op_async(client::AllTenants::local(), "models.keep_alive", args.dump(),
                              on_strand<std::string>(exchange, answer));
}

/// Answers a chat or generate without content: its model is loaded, or with keep_alive 0 unloaded.
bool answer_load(Context& context, const ExchangePtr& exchange, bool chat) {
  json body;
  FieldError error;
  if (!parse_json_object(exchange->request().body, &body, &error)) return false;
  if (!is_ollama_load(body, chat)) return false;
  if (parse_keep_alive(body.value("keep_alive", json())) == 0) {
    answer_unload(context, exchange, body, chat);
    return true;
  }
  post_generation(
      context, std::move(exchange), parse_ollama_load,
      [chat](const wire::RequestInfo&) { return std::make_shared<OllamaLoaded>(chat); });
  return true;
}

}  // namespace

void get_ollama_root(Context&, const ExchangePtr& exchange, const Captures&) {
  Response response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "Holdfast is running";
  exchange->respond(std::move(response));
}

void get_ollama_version(Context&, const ExchangePtr& exchange, const Captures&) {
  exchange->respond(json_response({{"version", kApiVersion}, {"holdfast", kVersion}}));
}

void get_ollama_tags(Context& context, const ExchangePtr& exchange, const Captures&) {
  with_models(context, exchange, [exchange](const json& models) {
    json list = json::array();
    for (const json& model : models) {
      json one = listed(model, exchange->request());
      one["modified_at"] = iso_time(model.value("created_ms", std::int64_t{0}));
      list.push_back(std::move(one));
    }
    return json_response({{"models", std::move(list)}});
  });
}

void get_ollama_ps(Context& context, const ExchangePtr& exchange, const Captures&) {
  with_models(context, exchange, [exchange](const json& models) {
    json list = json::array();
    for (const json& model : models) {
      if (model.value("state", std::string()) != "ready") continue;
      json one = listed(model, exchange->request());
      // Without a time a model stays until its memory is wanted.
      const auto unloads_ms = model.value("unloads_ms", std::int64_t{-1});
      one["expires_at"] = unloads_ms < 0 ? "9999-12-31T23:59:59Z" : iso_time(unloads_ms);
      one["size_vram"] = 0;
      one["context_length"] = model.value("context", std::int64_t{0});
      list.push_back(std::move(one));
    }
    return json_response({{"models", std::move(list)}});
  });
}

void post_ollama_show(Context& context, const ExchangePtr& exchange, const Captures&) {
  json body;
  FieldError error;
  if (!parse_json_object(exchange->request().body, &body, &error)) {
    return exchange->respond(error_response(error));
  }
  Fields fields(body);
  std::string name;
  for (const char* member : {"model", "name"}) {
    if (name.empty()) fields.text(member, &name);
  }
  if (name.empty()) fields.fail("model", "is required: the name of a model (GET /api/tags)");
  if (fields.error()) return exchange->respond(error_response(*fields.error()));
  find_models(context, exchange, [&context, exchange, name](const json& models) {
    for (const std::string& candidate : {name, without_latest(name)}) {
      for (const json& model : models) {
        if (model.value("name", std::string()) != candidate) continue;
        return show_with_profile(context, exchange, model);
      }
    }
    exchange->respond(unknown_model(name));
  });
}

void post_ollama_chat(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (answer_load(context, exchange, true)) return;
  post_generation(context, exchange, parse_ollama_chat);
}

void post_ollama_generate(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (answer_load(context, exchange, false)) return;
  post_generation(context, exchange, parse_ollama_generate);
}

void post_ollama_embed(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_ollama_embed);
}

void post_ollama_embeddings(Context& context, const ExchangePtr& exchange, const Captures&) {
  post_generation(context, exchange, parse_ollama_embeddings);
}

}  // namespace holdfast::gateway
