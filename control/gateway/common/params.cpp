#include "control/gateway/common/params.h"

#include <sodium.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "control/gateway/common/format_fields.h"
#include "control/gateway/common/keep_alive.h"
#include "control/gateway/common/sampling_fields.h"
#include "control/gateway/common/thinking_fields.h"
#include "control/gateway/common/tool_fields.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"
#include "shared/chat/messages.h"
#include "shared/grammar/request.h"
#include "shared/sampling/given.h"
#include "shared/wire/bounds.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

// The command line has no limits of its own to read (shared/wire/bounds.h).
static_assert(ParamLimits{}.stops == wire::kStopsMax);
static_assert(ParamLimits{}.stop_bytes == wire::kStopBytesMax);
constexpr std::int64_t kDimensionsMax = 1 << 20;
constexpr std::int64_t kTimeoutMsMax = std::int64_t{1} << 40;
// Depth of body.messages[i].tool_calls[j].function.arguments.
constexpr int kArgumentsDepth = 6;

void read_stops(Fields& fields, const ParamLimits& limits, std::vector<std::string>* out) {
  const json* stop = fields.take("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    out->push_back(stop->get<std::string>());
  } else if (stop->is_array() && stop->size() <= limits.stops) {
    for (const json& s : *stop) {
      if (!s.is_string()) return fields.fail("stop", "must be a string or an array of strings");
      out->push_back(s.get<std::string>());
    }
  } else if (stop->is_array()) {
    return fields.fail("stop", "has more than " + std::to_string(limits.stops) + " strings");
  } else {
    return fields.fail("stop", "must be a string or an array of strings");
  }
  for (const std::string& s : *out) {
    if (s.empty()) fields.fail("stop", "has an empty string");
    if (s.size() > limits.stop_bytes) {
      fields.fail("stop",
                  "has a string of more than " + std::to_string(limits.stop_bytes) + " bytes");
    }
  }
}

void read_priority(Fields& fields, wire::PriorityClass* out) {
  const json* value = fields.take("priority");
  if (value == nullptr) return;
  if (value->is_number_integer()) {  // as in vLLM: lower is earlier
    const bool zero = *value == 0;
    *out = zero         ? wire::PriorityClass::kNormal
           : *value < 0 ? wire::PriorityClass::kInteractive
                        : wire::PriorityClass::kBatch;
    return;
  }
  if (*value == "interactive") {
    *out = wire::PriorityClass::kInteractive;
  } else if (*value == "normal") {
    *out = wire::PriorityClass::kNormal;
  } else if (*value == "batch") {
    *out = wire::PriorityClass::kBatch;
  } else {
    fields.fail("priority", "must be \"interactive\", \"normal\", \"batch\" or an integer");
  }
}

void read_sampling(Fields& fields, wire::Submit* submit) {
  read_plain_sampling(fields, &submit->sampling);
  std::int64_t seed = 0;
  if (!fields.integer("seed", INT64_MIN, INT64_MAX, &seed)) return;
  submit->sampling.seed = static_cast<std::uint64_t>(seed);
  submit->seed_given = true;
}

void read_stream(Fields& fields, Shape* shape, std::vector<std::string>* ignored) {
  fields.boolean("stream", &shape->stream);
  const json* options = fields.take("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.fail("stream_options", "must be an object");
  if (!shape->stream) return fields.fail("stream_options", "is only allowed with 'stream': true");
  Fields inner(*options, "stream_options.");
  inner.boolean("include_usage", &shape->include_usage);
  if (inner.error()) fields.fail(inner.error()->param, "must be true or false");
  for (std::string& name : inner.unknown()) ignored->push_back(std::move(name));
}

/// Reads the model, and how the request waits.
void read_common(Fields& fields, Generation* out) {
  wire::Submit& submit = out->submit;
  if (!fields.text("model", &submit.model) || submit.model.empty()) {
    fields.fail("model", "is required: the name of a model (GET /v1/models lists them)");
  }
  read_priority(fields, &submit.priority);
  fields.text("user", &out->shape.user);
  // Requests of one conversation get the same target of an alias.
  if (!fields.text("session_id", &submit.sticky) || submit.sticky.empty()) {
    submit.sticky = out->shape.user;
  }
  fields.integer("queue_timeout_ms", 0, kTimeoutMsMax, &submit.queue_timeout_ms);
  fields.integer("total_timeout_ms", 0, kTimeoutMsMax, &submit.total_timeout_ms);
  if (const json* value = fields.take("keep_alive")) {
    submit.keep_alive_ms = parse_keep_alive(*value);
    if (!submit.keep_alive_ms) fields.fail("keep_alive", kKeepAliveForm);
  }
}

/// Reads vLLM's field; there too it is for answers in one document.
void read_prompt_logprobs(Fields& fields, Generation* out) {
  std::int64_t top = 0;
  if (!read_logprobs(fields, "prompt_logprobs", &top)) return;
  if (out->shape.stream) {
    return fields.fail("prompt_logprobs",
                       "cannot be streamed; /v1/completions streams them with "
                       "'echo': true and 'logprobs'");
  }
  out->shape.prompt_logprobs = static_cast<int>(top);
  std::int32_t& prompt_logprobs = out->submit.sampling.prompt_logprobs;
  prompt_logprobs = std::max(prompt_logprobs, static_cast<std::int32_t>(top));
}

/// Reads the fields of all endpoints that generate text.
void read_generation(Fields& fields, const ParamLimits& limits, Generation* out) {
  wire::Submit& submit = out->submit;
  read_common(fields, out);
  out->shape.usage_details = true;
  read_sampling(fields, &submit);
  read_stops(fields, limits, &submit.stops);
  read_stream(fields, &out->shape, &out->ignored);
  std::int64_t n = 1;
  fields.integer("n", 1, limits.n, &n);
  submit.n = static_cast<std::int32_t>(n);
  read_prompt_logprobs(fields, out);
}

/// Reads best_of: the best n of so many choices, compared by their log-probabilities.
void read_best_of(Fields& fields, const ParamLimits& limits, Generation* out) {
  std::int64_t best_of = 0;
  wire::Submit& submit = out->submit;
  if (!fields.integer("best_of", 1, limits.n, &best_of) || best_of == submit.n) return;
  if (best_of < submit.n) return fields.fail("best_of", "must be at least 'n'");
  if (out->shape.stream) return fields.fail("best_of", "cannot be streamed when it is above 'n'");
  out->shape.returned_choices = submit.n;
  submit.n = static_cast<std::int32_t>(best_of);
  out->shape.hide_logs = submit.sampling.logprobs < 0;
  submit.sampling.logprobs = std::max(submit.sampling.logprobs, 0);
}

bool finish(Fields& fields, const ParamLimits& limits, Generation* out, FieldError* error) {
  const auto choices = static_cast<std::int64_t>(out->submit.prompts.size()) * out->submit.n;
  if (choices > limits.choices) {
    fields.fail("n",
                "times the number of prompts must be at most " + std::to_string(limits.choices));
  }
  if (fields.error()) {
    *error = *fields.error();
    return false;
  }
  out->shape.choices = static_cast<int>(choices);
  out->submit.given =
      sampling::given_options([&](std::string_view name) { return fields.has(name); });
  if (fields.has("max_completion_tokens")) out->submit.given->emplace_back("max_tokens");
  for (std::string& name : fields.unknown()) out->ignored.push_back(std::move(name));
  return true;
}

bool is_tokens(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_number();
}

void read_tokens(Fields& fields, const char* name, const json& value,
                 std::vector<wire::Prompt>* out) {
  std::vector<wire::TokenId> ids;
  ids.reserve(value.size());
  for (const json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      return fields.fail(name, "has a token id that is not an integer from 0 to 2147483647");
    }
    ids.push_back(id.get<wire::TokenId>());
  }
  wire::Prompt prompt;
  prompt.ids = std::move(ids);
  out->push_back(std::move(prompt));
}

/// Reads prompts from the member `name`, usually `prompt`.
void read_prompts(Fields& fields, const char* name, const json& value, const ParamLimits& limits,
                  std::vector<wire::Prompt>* out) {
  constexpr const char* kExpected =
      "must be a string, an array of strings, an array of token ids or an array of such arrays";
  if (value.is_string()) {
    wire::Prompt prompt;
    prompt.text = value.get<std::string>();
    out->push_back(std::move(prompt));
    return;
  }
  if (is_tokens(value)) return read_tokens(fields, name, value, out);
  if (!value.is_array() || value.empty()) return fields.fail(name, kExpected);
  if (value.size() > static_cast<std::size_t>(limits.choices)) {
    return fields.fail(name, "has more than " + std::to_string(limits.choices) + " prompts");
  }
  const bool texts = value[0].is_string();
  for (const json& item : value) {
    if (texts ? !item.is_string() : !is_tokens(item)) return fields.fail(name, kExpected);
    read_prompts(fields, name, item, limits, out);
  }
}

/// Reads where the answer begins: after its opening, after the last message as it stands, or within
/// the last message.
void read_opening(Fields& fields, json* root, Generation* out) {
  bool goes_on = false;
  fields.boolean("continue_final_message", &goes_on);
  out->opens_answer = !goes_on;
  if (fields.boolean("add_generation_prompt", &out->opens_answer)) {
    (*root)["add_generation_prompt"] = out->opens_answer;
  }
  if (!goes_on) return;
  if (out->opens_answer) {
    return fields.fail("continue_final_message",
                       "and 'add_generation_prompt' exclude each other: an answer that has begun "
                       "is not opened again");
  }
  const json& last = (*root)["messages"].back();
  if (last["role"] != "assistant" || last.contains("tool_calls")) {
    return fields.fail("continue_final_message",
                       "needs a last message of the role assistant, without calls of tools");
  }
  out->prefill = chat::prefill_of(last);
  (*root)["continue_final_message"] = true;  // may move what `last` refers to
  if (out->prefill == chat::Prefill::kText && !out->must_call.empty()) {
    fields.fail("tool_choice",
                "asks for a call at the begin of an answer, and the last message has begun its "
                "text; send \"auto\" or \"none\"");
  }
}

void read_messages(Fields& fields, Generation* out) {
  const json* messages = fields.take("messages");
  json root = json::object();
  root["messages"] = messages == nullptr ? json() : *messages;
  const auto open = [&](std::string_view text) { return out->budget.open(text, kArgumentsDepth); };
  if (const auto fault = chat::normalize_messages(root["messages"], open)) {
    return fields.fail(fault->where, fault->what);
  }
  read_tools(fields, &root, out);
  read_opening(fields, &root, out);
  for (const char* name : {"chat_template_kwargs", "parse_special"}) {
    if (const json* value = fields.take(name)) root[name] = *value;
  }
  read_thinking(fields, &root, out);
  wire::Prompt prompt;
  prompt.messages_json = root.dump();
  if (!fields.check("messages", out->budget.make(prompt.messages_json->size()))) return;
  out->submit.prompts.push_back(std::move(prompt));
}

/// Reads the format of the text and the sampling fields that go into the extra.
void read_extra(Fields& fields, const ParamLimits& limits, Generation* out) {
  std::optional<grammar::GrammarRequest> format = read_format(fields, out->budget, &out->ignored);
  // Finishing is the default for JSON: a document that is cut off has no use. mirostat cannot be
  // led to an end (docs/use/structured-output.md).
  const json* mirostat = fields.take("mirostat");
  const bool led = mirostat == nullptr || *mirostat == 0;
  bool finish = format && format->kind.starts_with("json_") && led;
  fields.boolean("guided_finish", &finish);
  if (finish && !format) {
    fields.fail("guided_finish", "needs a 'response_format' or guided_… field beside it");
  }
  if (format) format->finish = finish;
  std::string& extra = out->submit.sampling.extra;
  extra = read_sampling_extra(fields, format ? grammar::extra_of(*format) : std::string(),
                              limits.bias_ids);
  fields.check("logit_bias", out->budget.make(extra.size()));
}

/// Checks the bytes of `echo`, which repeats the prompt in every choice.
void check_echo(Fields& fields, const ParamLimits& limits, const wire::Submit& submit) {
  if (!submit.echo) return;
  std::size_t bytes = 0;
  for (const wire::Prompt& prompt : submit.prompts) {
    if (prompt.text) bytes += prompt.text->size();
    if (prompt.ids) bytes += prompt.ids->size() * sizeof(wire::TokenId);
  }
  bytes *= static_cast<std::size_t>(submit.n);
  if (bytes <= limits.echo_bytes) return;
  fields.fail("echo", "would say " + std::to_string(bytes) + " bytes of prompts again, at most " +
                          std::to_string(limits.echo_bytes) + " are; ask for fewer choices");
}

}  // namespace

bool parse_completion(const json& body, const ParamLimits& limits, Generation* out,
                      FieldError* error) {
  if (!out->budget.begun()) out->budget.take(body);
  Fields fields(body);
  fields.open("extra_body");
  out->shape.api = Api::kCompletions;
  read_generation(fields, limits, out);
  wire::Submit& submit = out->submit;
  const json* prompt = fields.take("prompt");
  if (prompt == nullptr) {
    fields.fail("prompt", "is required");
  } else {
    read_prompts(fields, "prompt", *prompt, limits, &submit.prompts);
  }
  read_extra(fields, limits, out);
  fields.boolean("echo", &submit.echo);
  fields.boolean("add_special_tokens", &submit.add_special);
  std::int64_t value = 16;
  fields.integer("max_tokens", 0, wire::kMaxTokens.high, &value);
  if (value == 0 && !submit.echo && submit.sampling.prompt_logprobs < 0) {
    fields.fail("max_tokens", "may be 0 only with 'echo': true or 'prompt_logprobs'");
  }
  submit.max_tokens = value;
  if (read_logprobs(fields, "logprobs", &value)) {
    submit.sampling.logprobs = static_cast<std::int32_t>(value);
    std::int32_t& of_prompt = submit.sampling.prompt_logprobs;
    if (submit.echo) of_prompt = std::max(of_prompt, submit.sampling.logprobs);
  }
  read_best_of(fields, limits, out);
  check_echo(fields, limits, submit);
  return finish(fields, limits, out, error);
}

bool parse_chat(const json& body, const ParamLimits& limits, Generation* out, FieldError* error) {
  if (!out->budget.begun()) out->budget.take(body);
  Fields fields(body);
  fields.open("extra_body");
  out->shape.api = Api::kChat;
  read_generation(fields, limits, out);
  wire::Submit& submit = out->submit;
  std::int64_t value = 0;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (fields.integer(name, wire::kMaxTokens.low, wire::kMaxTokens.high, &value))
      submit.max_tokens = value;
  }
  read_messages(fields, out);
  read_extra(fields, limits, out);
  bool logprobs = false;
  fields.boolean("logprobs", &logprobs);
  if (logprobs) submit.sampling.logprobs = 0;
  if (read_logprobs(fields, "top_logprobs", &value)) {
    if (!logprobs) fields.fail("top_logprobs", "is only allowed with 'logprobs': true");
    submit.sampling.logprobs = static_cast<std::int32_t>(value);
  }
  return finish(fields, limits, out, error);
}

bool parse_embedding(const json& body, const ParamLimits& limits, Generation* out,
                     FieldError* error) {
  if (!out->budget.begun()) out->budget.take(body);
  Fields fields(body);
  fields.open("extra_body");
  out->shape.api = Api::kEmbeddings;
  read_common(fields, out);
  const json* input = fields.take("input");
  if (input == nullptr) {
    fields.fail("input", "is required");
  } else {
    read_prompts(fields, "input", *input, limits, &out->submit.prompts);
  }
  std::string text;
  if (fields.text("encoding_format", &text)) {
    if (text != "float" && text != "base64") {
      fields.fail("encoding_format", "must be \"float\" or \"base64\"");
    }
    out->shape.base64 = text == "base64";
  }
  fields.integer("dimensions", 1, kDimensionsMax, &out->shape.dimensions);
  fields.boolean("normalize", &out->shape.normalize);
  nlohmann::json embedding = {{"normalize", out->shape.normalize}};
  if (fields.text("pooling", &text)) {
    if (text != "mean" && text != "cls" && text != "last") {
      fields.fail("pooling", "must be \"mean\", \"cls\" or \"last\"");
    }
    embedding["pooling"] = text;
  }
  fields.boolean("add_special_tokens", &out->submit.add_special);
  out->submit.sampling.extra = nlohmann::json{{"embedding", embedding}}.dump();
  return finish(fields, limits, out, error);
}

std::string hash_bytes(std::string_view bytes, std::string_view more) {
  CHECK(sodium_init() >= 0);
  unsigned char digest[32];
  crypto_generichash_state state;
  CHECK(crypto_generichash_init(&state, nullptr, 0, sizeof digest) == 0);
  for (const std::string_view part : {bytes, more}) {
    CHECK(crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                                    part.size()) == 0);
  }
  CHECK(crypto_generichash_final(&state, digest, sizeof digest) == 0);
  return to_hex(ByteSpan(reinterpret_cast<const std::byte*>(digest), sizeof digest));
}

std::string hash_body(std::string_view path, const json& body) {
  std::string text(path);
  text.push_back('\0');
  return hash_bytes(text + nlohmann::json(body).dump());  // nlohmann::json sorts the members
}

}  // namespace holdfast::gateway
