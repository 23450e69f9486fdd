#include "shared/request_json/request_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"
#include "shared/sampling/extra.h"
#include "shared/sampling/given.h"
#include "shared/sampling/parameters.h"

namespace holdfast::request_json {
namespace {

using json = nlohmann::ordered_json;
using sampling::Parameter;

constexpr std::int64_t kTimeMsMax = std::int64_t{1} << 40;
constexpr std::int64_t kChoicesMax = 65'536;

void read_member(Fields& fields, const Parameter& parameter, float* out) {
  fields.number(parameter.name, parameter.range.low, parameter.range.high, out);
}
void read_member(Fields& fields, const Parameter& parameter, std::int32_t* out) {
  std::int64_t number = 0;
  const auto low = static_cast<std::int64_t>(parameter.range.low);
  const auto high = static_cast<std::int64_t>(parameter.range.high);
  if (fields.integer(parameter.name, low, high, &number)) *out = static_cast<std::int32_t>(number);
}
void read_member(Fields& fields, const Parameter& parameter, bool* out) {
  fields.boolean(parameter.name, out);
}
void read_member(Fields&, const Parameter&, std::uint64_t*) {}  // the seed: any number

void read_seed(Fields& fields, wire::Submit* submit) {
  const json* seed = fields.take("seed");
  if (seed == nullptr) return;
  if (!seed->is_number_integer()) return fields.fail("seed", "must be an integer");
  submit->sampling.seed = seed->is_number_unsigned()
                              ? seed->get<std::uint64_t>()
                              : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  submit->seed_given = true;
}

void read_sampling(Fields& fields, wire::Submit* submit) {
  json extra = json::object();
  for (const Parameter& parameter : sampling::kParameters) {
    bool plain = false;
    sampling::visit_plain(parameter, [&](auto member) {
      plain = true;
      read_member(fields, parameter, &(submit->sampling.*member));
    });
    const std::string name(parameter.name);
    if (plain) continue;
    if (const json* value = fields.take(name)) extra[name] = *value;
  }
  read_seed(fields, submit);
  if (extra.empty()) return;
  const auto good = sampling::parse_extra(extra.dump(), std::numeric_limits<std::int32_t>::max());
  if (!good) return fields.fail("sampling", "is not right: " + good.error().what);
  submit->sampling.extra = extra.dump();
}

void read_ids(Fields& fields, const json& ids, wire::Prompt* prompt) {
  bool good = ids.is_array();
  std::vector<wire::TokenId> list;
  for (const json& id : good ? ids : json::array()) {
    good = good && id.is_number_integer() && id >= 0 &&
           id <= std::numeric_limits<wire::TokenId>::max();
    if (good) list.push_back(id.get<wire::TokenId>());
  }
  if (!good) return fields.fail("ids", "must be a list of token ids");
  prompt->ids = std::move(list);
}

void read_prompt(Fields& fields, wire::Submit* submit) {
  wire::Prompt& prompt = submit->prompts.emplace_back();
  std::string text;
  int given = 0;
  if (fields.text("prompt", &text)) {
    prompt.text = std::move(text);
    ++given;
  }
  if (const json* ids = fields.take("ids")) {
    read_ids(fields, *ids, &prompt);
    ++given;
  }
  const json* tools = fields.take("tools");
  if (const json* messages = fields.take("messages")) {
    if (!messages->is_array()) return fields.fail("messages", "must be a list of messages");
    json chat = {{"messages", *messages}};
    if (tools != nullptr) chat["tools"] = *tools;
    prompt.messages_json = chat.dump();
    ++given;
  }
  if (given == 1) return;
  fields.fail("prompt", "is one of 'prompt', 'ids' and 'messages'; exactly one is needed");
}

void read_stops(Fields& fields, wire::Submit* submit) {
  const json* stop = fields.take("stop");
  if (stop == nullptr) return;
  for (const json& one : stop->is_array() ? *stop : json::array({*stop})) {
    if (!one.is_string()) return fields.fail("stop", "must be a string, or a list of strings");
    submit->stops.push_back(one.get<std::string>());
  }
}

void read_priority(Fields& fields, wire::Submit* submit) {
  std::string priority;
  if (!fields.text("priority", &priority)) return;
  constexpr const char* kNames[] = {"interactive", "normal", "batch"};
  for (int i = 0; i < 3; ++i) {
    if (priority != kNames[i]) continue;
    submit->priority = static_cast<wire::PriorityClass>(i);
    return;
  }
  fields.fail("priority", "must be \"interactive\", \"normal\" or \"batch\"");
}

void read_waiting(Fields& fields, wire::Submit* submit) {
  fields.integer("queue_timeout_ms", 0, kTimeMsMax, &submit->queue_timeout_ms);
  fields.integer("total_timeout_ms", 0, kTimeMsMax, &submit->total_timeout_ms);
  std::int64_t keep_alive_ms = 0;
  if (fields.integer("keep_alive_ms", -1, kTimeMsMax, &keep_alive_ms)) {
    submit->keep_alive_ms = keep_alive_ms;
  }
  std::string policy;
  if (!fields.text("on_disconnect", &policy)) return;
  if (policy != "continue" && policy != "cancel") {
    fields.fail("on_disconnect", "must be \"continue\" or \"cancel\"");
  }
  if (policy == "cancel") submit->on_disconnect = wire::OnDisconnect::kCancel;
}

}  // namespace

bool read_request(const json& object, Request* out, FieldError* error) {
  if (!object.is_object()) {
    *error = {"the request is no JSON object", ""};
    return false;
  }
  wire::Submit& submit = out->submit;
  Fields fields(object);
  if (!fields.text("model", &submit.model)) {
    fields.fail("model", "is required: the name of a model");
  }
  fields.text("tenant", &out->tenant);
  fields.text("key", &submit.idem_key);
  fields.text("session", &submit.sticky);
  read_prompt(fields, &submit);
  std::int64_t number = 0;
  if (fields.integer("max_tokens", 0, sampling::kCountMax, &number)) submit.max_tokens = number;
  if (fields.integer("n", 1, kChoicesMax, &number)) submit.n = static_cast<std::int32_t>(number);
  read_stops(fields, &submit);
  read_sampling(fields, &submit);
  read_priority(fields, &submit);
  read_waiting(fields, &submit);
  submit.given = sampling::given_options([&](std::string_view name) { return fields.has(name); });
  for (const std::string& name : fields.unknown()) {
    fields.fail(name, "is no member of a request (holdfast.h lists them)");
  }
  if (fields.error()) *error = *fields.error();
  return !fields.error();
}

Result<Request> parse_request(std::string_view text) {
  HOLDFAST_TRY(const json object, parse_json<json>(text, kBodyLimits));
  Request request;
  FieldError error;
  if (!read_request(object, &request, &error)) {
    return Error{Errc::kInvalidRequest, error.message};
  }
  return request;
}

std::string state_json(const wire::RequestInfo& info) {
  json choices = json::array();
  for (const wire::ChoiceInfo& choice : info.choices) {
    json one = {{"index", choice.choice}, {"tokens", choice.next_index}};
    if (choice.finish != wire::FinishReason::kNone) {
      one["finish_reason"] = wire::finish_name(choice.finish);
    }
    if (!choice.error_code.empty()) {
      one["error"] = {{"code", choice.error_code}, {"message", choice.error}};
    }
    choices.push_back(std::move(one));
  }
  json out = {{"id", info.request_id},         {"state", wire::state_name(info.state)},
              {"model", info.model},           {"prompt_tokens", info.prompt_tokens},
              {"max_tokens", info.max_tokens}, {"seed", info.sampling.seed},
              {"created_ms", info.created_ms}, {"choices", std::move(choices)}};
  if (info.finished_ms > 0) out["finished_ms"] = info.finished_ms;
  if (info.queue_position >= 0) out["queue_position"] = info.queue_position;
  if (info.eta_ms >= 0) out["eta_ms"] = info.eta_ms;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string models_json(const std::vector<wire::ModelInfo>& models) {
  json list = json::array();
  for (const wire::ModelInfo& model : models) {
    json one = {{"name", model.name},       {"state", model.state},
                {"context", model.context}, {"architecture", model.architecture},
                {"chat", model.chat},       {"encoder", model.encoder}};
    if (!model.reason.empty()) one["reason"] = model.reason;
    if (!model.alias_of.empty()) one["alias_of"] = model.alias_of;
    list.push_back(std::move(one));
  }
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace holdfast::request_json
