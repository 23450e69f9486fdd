#include "shared/sdk/request.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>

#include "shared/base/json_text.h"
#include "shared/sampling/extra.h"
#include "shared/sampling/parameters.h"

namespace holdfast::sdk {
namespace {

using json = nlohmann::ordered_json;
using sampling::Parameter;

constexpr std::int64_t kTimeMsMax = std::int64_t{1} << 40;
constexpr std::int64_t kChoicesMax = 65'536;

/// Reads members of an object; the first fault stays.
class Members {
 public:
  explicit Members(const json& object) : object_(object) {}

  const json* take(const std::string& name) {
    taken_.insert(name);
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void fail(const std::string& name, const std::string& expected) {
    if (!fault_) fault_ = Error{Errc::kInvalidRequest, "\"" + name + "\": expected " + expected};
  }
  bool text(const std::string& name, std::string* out) {
    const json* value = take(name);
    if (value == nullptr) return false;
    if (!value->is_string()) return fail(name, "a string"), false;
    *out = value->get<std::string>();
    return true;
  }
  bool integer(const std::string& name, std::int64_t low, std::int64_t high, std::int64_t* out) {
    const json* value = take(name);
    if (value == nullptr) return false;
    if (!value->is_number_integer() || *value < low || *value > high) {
      fail(name, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
      return false;
    }
    *out = value->get<std::int64_t>();
    return true;
  }
  bool flag(const std::string& name, bool* out) {
    const json* value = take(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return fail(name, "true or false"), false;
    *out = value->get<bool>();
    return true;
  }
  /// Fails with the first member that nobody took.
  void refuse_unknown() {
    for (const auto& [name, value] : object_.items()) {
      if (!taken_.contains(name)) fail(name, "no such member (holdfast.h lists them)");
    }
  }
  const std::optional<Error>& fault() const { return fault_; }

 private:
  const json& object_;
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> fault_;
};

template <class T>
void read_number(Members& members, const Parameter& parameter, T* out) {
  const std::string name(parameter.name);
  const json* value = members.take(name);
  if (value == nullptr) return;
  bool good = value->is_number() && (std::is_floating_point_v<T> || value->is_number_integer());
  if (good) {
    const double number = value->get<double>();
    good = sampling::is_valid(parameter, number);
  }
  if (!good) return members.fail(name, sampling::range_text(parameter));
  *out = value->get<T>();
}

void read_member(Members& members, const Parameter& parameter, float* out) {
  read_number(members, parameter, out);
}
void read_member(Members& members, const Parameter& parameter, std::int32_t* out) {
  read_number(members, parameter, out);
}
void read_member(Members& members, const Parameter& parameter, bool* out) {
  members.flag(std::string(parameter.name), out);
}
void read_member(Members&, const Parameter&, std::uint64_t*) {}  // the seed: any number

void read_seed(Members& members, wire::Submit* submit) {
  const json* seed = members.take("seed");
  if (seed == nullptr) return;
  if (!seed->is_number_integer()) return members.fail("seed", "a whole number");
  submit->sampling.seed = seed->is_number_unsigned()
                              ? seed->get<std::uint64_t>()
                              : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  submit->seed_given = true;
}

void read_sampling(Members& members, wire::Submit* submit) {
  json extra = json::object();
  for (const Parameter& parameter : sampling::kParameters) {
    bool plain = false;
    sampling::visit_plain(parameter, [&](auto member) {
      plain = true;
      read_member(members, parameter, &(submit->sampling.*member));
    });
    const std::string name(parameter.name);
    if (plain) continue;
    if (const json* value = members.take(name)) extra[name] = *value;
  }
  read_seed(members, submit);
  if (extra.empty()) return;
  const auto good = sampling::parse_extra(extra.dump(), std::numeric_limits<std::int32_t>::max());
  if (!good) return members.fail("sampling", "other values: " + good.error().what);
  submit->sampling.extra = extra.dump();
}

void read_ids(Members& members, const json& ids, wire::Prompt* prompt) {
  bool good = ids.is_array();
  std::vector<wire::TokenId> list;
  for (const json& id : good ? ids : json::array()) {
    good = good && id.is_number_integer() && id >= 0 &&
           id <= std::numeric_limits<wire::TokenId>::max();
    if (good) list.push_back(id.get<wire::TokenId>());
  }
  if (!good) return members.fail("ids", "a list of token ids");
  prompt->ids = std::move(list);
}

void read_prompt(Members& members, wire::Submit* submit) {
  wire::Prompt& prompt = submit->prompts.emplace_back();
  std::string text;
  int given = 0;
  if (members.text("prompt", &text)) {
    prompt.text = std::move(text);
    ++given;
  }
  if (const json* ids = members.take("ids")) {
    read_ids(members, *ids, &prompt);
    ++given;
  }
  const json* tools = members.take("tools");
  if (const json* messages = members.take("messages")) {
    if (!messages->is_array()) return members.fail("messages", "a list of messages");
    json chat = {{"messages", *messages}};
    if (tools != nullptr) chat["tools"] = *tools;
    prompt.messages_json = chat.dump();
    ++given;
  }
  if (given != 1) members.fail("prompt", "one of \"prompt\", \"ids\" and \"messages\"");
}

void read_stops(Members& members, wire::Submit* submit) {
  const json* stop = members.take("stop");
  if (stop == nullptr) return;
  for (const json& one : stop->is_array() ? *stop : json::array({*stop})) {
    if (!one.is_string()) return members.fail("stop", "a string, or a list of strings");
    submit->stops.push_back(one.get<std::string>());
  }
}

void read_priority(Members& members, wire::Submit* submit) {
  std::string priority;
  if (!members.text("priority", &priority)) return;
  constexpr const char* kNames[] = {"interactive", "normal", "batch"};
  for (int i = 0; i < 3; ++i) {
    if (priority != kNames[i]) continue;
    submit->priority = static_cast<wire::PriorityClass>(i);
    return;
  }
  members.fail("priority", "\"interactive\", \"normal\" or \"batch\"");
}

void read_waiting(Members& members, wire::Submit* submit) {
  members.integer("queue_timeout_ms", 0, kTimeMsMax, &submit->queue_timeout_ms);
  members.integer("total_timeout_ms", 0, kTimeMsMax, &submit->total_timeout_ms);
  std::int64_t keep_alive_ms = 0;
  if (members.integer("keep_alive_ms", -1, kTimeMsMax, &keep_alive_ms)) {
    submit->keep_alive_ms = keep_alive_ms;
  }
  std::string policy;
  if (!members.text("on_disconnect", &policy)) return;
  if (policy != "continue" && policy != "cancel") {
    members.fail("on_disconnect", "\"continue\" or \"cancel\"");
  }
  if (policy == "cancel") submit->on_disconnect = wire::OnDisconnect::kCancel;
}

}  // namespace

Result<Request> parse_request(std::string_view text) {
  HOLDFAST_TRY(const json object, parse_json<json>(text, kBodyLimits));
  if (!object.is_object()) return Error{Errc::kInvalidRequest, "the request is no JSON object"};
  Request request;
  wire::Submit& submit = request.submit;
  Members members(object);
  if (!members.text("model", &submit.model)) members.fail("model", "the name of a model");
  members.text("tenant", &request.tenant);
  members.text("key", &submit.idem_key);
  members.text("session", &submit.sticky);
  read_prompt(members, &submit);
  std::int64_t number = 0;
  if (members.integer("max_tokens", 0, sampling::kCountMax, &number)) submit.max_tokens = number;
  if (members.integer("n", 1, kChoicesMax, &number)) submit.n = static_cast<std::int32_t>(number);
  read_stops(members, &submit);
  read_sampling(members, &submit);
  read_priority(members, &submit);
  read_waiting(members, &submit);
  members.refuse_unknown();
  if (members.fault()) return *members.fault();
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

}  // namespace holdfast::sdk
