#include "control/gateway/http/shape.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::json;

namespace {

struct ApiNames {
  std::string_view name;
  std::string_view path;
};
constexpr std::array<ApiNames, 10> kApis = {{{"completions", "/v1/completions"},
                                             {"chat", "/v1/chat/completions"},
                                             {"embeddings", "/v1/embeddings"},
                                             {"messages", "/v1/messages"},
                                             {"tokens", "/v1/requests"},
                                             {"ollama_chat", "/api/chat"},
                                             {"ollama_generate", "/api/generate"},
                                             {"ollama_raw", "/api/generate"},
                                             {"ollama_embed", "/api/embed"},
                                             {"ollama_embeddings", "/api/embeddings"}}};

Api api_from_name(std::string_view name) {
  const auto at = std::find_if(kApis.begin(), kApis.end(),
                               [&](const ApiNames& names) { return names.name == name; });
  return at == kApis.end() ? Api::kCompletions : static_cast<Api>(at - kApis.begin());
}

}  // namespace

std::string_view api_path(Api api) {
  return kApis.at(static_cast<std::size_t>(api)).path;
}

std::optional<chat::OutputOptions> parse_options(const Shape& shape) {
  const chat::OutputKind kind = chat::read_output(shape.output);
  chat::OutputOptions options;
  options.format = kind.format;
  options.tools = shape.tools && kind.format != chat::ToolFormat::kNone;
  options.reasoning = kind.reasoning;
  options.starts_in_reasoning = kind.opens_reasoning;
  options.starts_in_text = kind.goes_on;
  options.json_arguments = shape.json_arguments;
  const bool parses = options.tools || options.reasoning || chat::has_channels(kind.format);
  if (!is_chat(shape.api) || !parses) return std::nullopt;
  return options;
}

bool is_chat(Api api) {
  return api == Api::kChat || api == Api::kMessages || api == Api::kOllamaChat ||
         api == Api::kOllamaGenerate;
}

bool is_embedding(Api api) {
  return api == Api::kEmbeddings || api == Api::kOllamaEmbed || api == Api::kOllamaEmbeddings;
}

bool is_ollama(Api api) {
  return api >= Api::kOllamaChat;
}

bool is_whole(const Shape& shape) {
  return is_embedding(shape.api) || shape.returned_choices > 0;
}

std::string encode_shape(const Shape& shape) {
  json out = {{"api", kApis.at(static_cast<std::size_t>(shape.api)).name},
              {"stream", shape.stream},
              {"usage", shape.include_usage},
              {"choices", shape.choices},
              {"hash", shape.body_hash}};
  for (const auto& [name, text] : {std::pair<const char*, const std::string*>("user", &shape.user),
                                   {"client_id", &shape.client_id},
                                   {"output", &shape.output}}) {
    if (!text->empty()) out[name] = *text;
  }
  if (shape.tools) out["tools"] = true;
  const bool typed = chat::has_plain_values(chat::read_output(shape.output).format);
  if (typed && !shape.json_arguments.empty()) out["json_arguments"] = shape.json_arguments;
  if (shape.returned_choices > 0) out["keep"] = shape.returned_choices;
  if (shape.hide_logs) out["hide_logs"] = true;
  if (shape.prompt_logprobs >= 0) out["prompt_logprobs"] = shape.prompt_logprobs;
  if (shape.function_call) out["function_call"] = true;
  if (shape.usage_details) out["usage_details"] = true;
  if (shape.base64) out["base64"] = true;
  if (shape.dimensions > 0) out["dimensions"] = shape.dimensions;
  if (!shape.normalize) out["as_computed"] = true;
  return json{{"gateway", out}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

namespace {

/// Members of an object, each of its type or as if it were not there.
struct Members {
  const json& all;

  bool flag(const char* name) const {
    const auto found = all.find(name);
    return found != all.end() && found->is_boolean() && found->get<bool>();
  }
  std::string text(const char* name) const {
    const auto found = all.find(name);
    return found != all.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  std::int64_t count(const char* name, std::int64_t otherwise) const {
    const auto found = all.find(name);
    return found != all.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                            : otherwise;
  }
};

}  // namespace

Shape decode_shape(const std::string& meta) {
  Shape shape;
  const json all = try_parse_json<json>(meta);
  if (!all.is_object() || !all.contains("gateway") || !all["gateway"].is_object()) return shape;
  const Members in{all["gateway"]};
  shape.api = api_from_name(in.text("api"));
  shape.stream = in.flag("stream");
  shape.include_usage = in.flag("usage");
  shape.choices = static_cast<int>(in.count("choices", 1));
  shape.body_hash = in.text("hash");
  shape.user = in.text("user");
  shape.client_id = in.text("client_id");
  shape.output = in.text("output");
  shape.tools = in.flag("tools");
  const json arguments = in.all.value("json_arguments", json::object());
  for (const auto& [function, names] : arguments.items()) {
    for (const json& name : names) {
      if (name.is_string()) shape.json_arguments[function].insert(name.get<std::string>());
    }
  }
  shape.returned_choices = static_cast<int>(in.count("keep", 0));
  shape.hide_logs = in.flag("hide_logs");
  shape.prompt_logprobs = static_cast<int>(in.count("prompt_logprobs", -1));
  shape.function_call = in.flag("function_call");
  shape.usage_details = in.flag("usage_details");
  shape.base64 = in.flag("base64");
  shape.dimensions = in.count("dimensions", 0);
  shape.normalize = !in.flag("as_computed");
  return shape;
}

}  // namespace holdfast::gateway
