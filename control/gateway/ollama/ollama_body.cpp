#include "control/gateway/ollama/ollama_body.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "shared/base/json_fields.h"
#include "shared/profile/ollama.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

bool is_empty_text(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

/// Values that Ollama takes where a client names none.
constexpr std::pair<const char*, double> kDefaults[] = {
    {"temperature", 0.8}, {"top_p", 0.9}, {"repetition_penalty", 1.1}};
constexpr std::int64_t kTopK = 40;
constexpr std::int64_t kRepeatLastN = 64;

/// Members that have no effect here.
constexpr const char* kWithoutEffect[] = {"template", "context",           "truncate",
                                          "shift",    "debug_render_only", "verbose"};

/// Reads one body: what is ours goes to `made`, what has no effect to `ignored`.
class Reader {
 public:
  explicit Reader(const json& body) : fields_(body) {}

  Fields& fields() { return fields_; }
  json& made() { return made_; }

  /// Reads what chat and generate have in common.
  void read_generation() {
    read_model();
    made_["stream"] = true;
    bool stream = true;
    if (fields_.boolean("stream", &stream)) made_["stream"] = stream;
    read_options();
    read_format();
    read_think();
    copy("logprobs");
    copy("top_logprobs");
  }
  void read_model() {
    std::string model;
    for (const char* name : {"model", "name"}) {
      if (model.empty()) fields_.text(name, &model);
    }
    if (model.empty()) fields_.fail("model", "is required: the name of a model (GET /api/tags)");
    made_["model"] = without_latest(model);
    copy("keep_alive");
  }
  void read_options() {
    const json* options = fields_.take("options");
    json given = options == nullptr ? json::object() : *options;
    if (!given.is_object()) return fields_.fail("options", "must be an object");
    for (const auto& [name, value] : kDefaults) made_[name] = value;
    made_["top_k"] = kTopK;
    made_["repeat_last_n"] = kRepeatLastN;
    for (const auto& [name, value] : made_.items()) made_defaults_.insert(name);
    for (const auto& [name, value] : given.items()) take_option(name, value);
  }
  /// Refuses images: there is no model here that sees.
  void refuse_images(const json& images, const std::string& name) {
    const bool none = images.is_null() || (images.is_array() && images.empty());
    if (!none) fields_.fail(name, "cannot be read: this server's models read text only");
  }
  void copy(const char* name) {
    if (const json* value = fields_.take(name)) made_[name] = *value;
  }

  /// Parses what was made. The names of what had no effect are those of Ollama.
  bool parse(bool (*parse_ours)(const json&, const ParamLimits&, Generation*, FieldError*), Api api,
             const ParamLimits& limits, Generation* out, FieldError* error, const json& body) {
    for (const char* name : kWithoutEffect) {
      if (fields_.take(name) != nullptr) ignored_.emplace_back(name);
    }
    for (const std::string& name : fields_.unknown()) ignored_.push_back(name);
    out->budget.take(body);
    if (!fields_.error()) fields_.check("messages", out->budget.make(made_));
    if (fields_.error()) {
      *error = *fields_.error();
      return false;
    }
    if (!parse_ours(made_, limits, out, error)) return false;
    out->shape.api = api;
    name_given(*out->submit.given);
    for (std::string& name : ignored_) out->ignored.push_back(std::move(name));
    return true;
  }

 private:
  /// Takes out the options that have only Ollama's defaults: a profile of the model gives others.
  void name_given(std::vector<std::string>& given) const {
    std::erase_if(given, [&](const std::string& name) {
      return made_defaults_.contains(name) && !given_.contains(name);
    });
    if (unbounded_) given.emplace_back("max_tokens");
  }
  void take_option(const std::string& name, const json& value) {
    if (value.is_null()) return;
    if (name == "num_predict") return read_num_predict(value);
    const auto ours = profile::our_option(name);
    if (!ours) {
      ignored_.push_back("options." + name);
      return;
    }
    made_[std::string(*ours)] = value;
    given_.emplace(*ours);
  }
  /// -1 and -2 are "as many as fit", which is what a request without a bound gets.
  void read_num_predict(const json& value) {
    if (!value.is_number_integer()) return fields_.fail("options.num_predict", "must be a number");
    const auto tokens = value.get<std::int64_t>();
    if (tokens == 0 || tokens < -2) {
      return fields_.fail("options.num_predict", "must be positive, or -1 for no bound");
    }
    if (tokens > 0) made_["max_tokens"] = tokens;
    unbounded_ = tokens < 0;
  }
  void read_format() {
    const json* format = fields_.take("format");
    if (format == nullptr || is_empty_text(*format)) return;
    if (*format == "json") {
      made_["response_format"] = {{"type", "json_object"}};
    } else if (format->is_object()) {
      made_["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", "format"}, {"schema", *format}}}};
    } else {
      fields_.fail("format", "must be \"json\" or a JSON schema");
    }
  }
  /// A switch, or an effort as the models of the gpt-oss family have it.
  void read_think() {
    const json* think = fields_.take("think");
    if (think == nullptr) return;
    if (think->is_boolean()) {
      made_["enable_thinking"] = *think;
    } else if (*think == "low" || *think == "medium" || *think == "high") {
      made_["reasoning_effort"] = *think;
    } else {
      fields_.fail("think", "must be true, false, \"low\", \"medium\" or \"high\"");
    }
  }

  Fields fields_;
  json made_ = json::object();
  std::set<std::string, std::less<>> made_defaults_;  // before the client's options
  std::set<std::string, std::less<>> given_;          // options of the client
  bool unbounded_ = false;                            // num_predict says "as many as fit"
  std::vector<std::string> ignored_;
};

/// A message of a history in the form of our chats: thinking and the name of a tool have other
/// names.
json message_of(const json& message) {
  json out = message;
  if (out.contains("thinking")) {
    out["reasoning_content"] = out["thinking"];
    out.erase("thinking");
  }
  if (out.contains("tool_name")) {
    out["name"] = out["tool_name"];
    out.erase("tool_name");
  }
  out.erase("images");
  return out;
}

void read_messages(Reader& reader) {
  const json* messages = reader.fields().take("messages");
  if (messages == nullptr || !messages->is_array()) {
    return reader.fields().fail("messages", "is required: an array of messages");
  }
  json list = json::array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const json& message = (*messages)[i];
    const std::string at = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) return reader.fields().fail(at, "must be an object");
    reader.refuse_images(message.value("images", json()), at + ".images");
    list.push_back(message_of(message));
  }
  reader.made()["messages"] = std::move(list);
}

/// The prompt as a conversation of one turn, with the system's text before it.
void read_prompt(Reader& reader) {
  std::string prompt, system;
  reader.fields().text("prompt", &prompt);
  reader.fields().text("system", &system);
  json messages = json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  reader.made()["messages"] = std::move(messages);
}

bool is_raw(const json& body) {
  return body.value("raw", json()) == true;
}

/// A body's prompt goes to the model as it is. The completion's own bound of 16 tokens is OpenAI's.
bool parse_raw(Reader& reader, const json& body, const ParamLimits& limits, Generation* out,
               FieldError* error) {
  reader.copy("prompt");
  json& made = reader.made();
  made.erase("enable_thinking");
  made.erase("reasoning_effort");
  if (made.value("logprobs", json()) == true)
    made["logprobs"] = made.value("top_logprobs", json(0));
  if (made.value("logprobs", json()) == false) made.erase("logprobs");
  made.erase("top_logprobs");
  const bool bounded = made.contains("max_tokens");
  if (!reader.parse(parse_completion, Api::kOllamaRaw, limits, out, error, body)) return false;
  if (!bounded) out->submit.max_tokens.reset();
  return true;
}

}  // namespace

std::string without_latest(const std::string& name) {
  constexpr std::string_view kLatest = ":latest";
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

std::string named_model(const json& body) {
  for (const char* member : {"model", "name"}) {
    const auto it = body.find(member);
    if (it != body.end() && it->is_string() && !is_empty_text(*it)) {
      return without_latest(it->get<std::string>());
    }
  }
  return {};
}

bool is_ollama_load(const json& body, bool chat) {
  const json content = body.value(chat ? "messages" : "prompt", json());
  return content.is_null() || is_empty_text(content) || (content.is_array() && content.empty());
}

bool parse_ollama_chat(const json& body, const ParamLimits& limits, Generation* out,
                       FieldError* error) {
  Reader reader(body);
  reader.read_generation();
  read_messages(reader);
  reader.copy("tools");
  return reader.parse(parse_chat, Api::kOllamaChat, limits, out, error, body);
}

bool parse_ollama_generate(const json& body, const ParamLimits& limits, Generation* out,
                           FieldError* error) {
  Reader reader(body);
  reader.read_generation();
  reader.refuse_images(body.value("images", json()), "images");
  (void)reader.fields().take("images");
  std::string suffix;
  if (reader.fields().text("suffix", &suffix) && !suffix.empty()) {
    reader.fields().fail("suffix", "is not supported: this server does not fill in the middle");
  }
  bool raw = false;
  reader.fields().boolean("raw", &raw);
  if (is_raw(body)) return parse_raw(reader, body, limits, out, error);
  read_prompt(reader);
  return reader.parse(parse_chat, Api::kOllamaGenerate, limits, out, error, body);
}

bool parse_ollama_embed(const json& body, const ParamLimits& limits, Generation* out,
                        FieldError* error) {
  Reader reader(body);
  reader.read_model();
  reader.copy("input");
  reader.copy("dimensions");
  (void)reader.fields().take("options");
  return reader.parse(parse_embedding, Api::kOllamaEmbed, limits, out, error, body);
}

bool parse_ollama_embeddings(const json& body, const ParamLimits& limits, Generation* out,
                             FieldError* error) {
  Reader reader(body);
  reader.read_model();
  std::string prompt;
  if (!reader.fields().text("prompt", &prompt)) reader.fields().fail("prompt", "is required");
  reader.made()["input"] = prompt;
  reader.made()["normalize"] = false;
  (void)reader.fields().take("options");
  return reader.parse(parse_embedding, Api::kOllamaEmbeddings, limits, out, error, body);
}

bool parse_ollama_load(const json& body, const ParamLimits& limits, Generation* out,
                       FieldError* error) {
  Reader reader(body);
  reader.read_model();
  reader.made()["prompt"] = " ";
  reader.made()["max_tokens"] = 1;
  for (const auto& [name, value] : body.items()) (void)reader.fields().take(name);
  return reader.parse(parse_completion, Api::kOllamaRaw, limits, out, error, body);
}

}  // namespace holdfast::gateway
