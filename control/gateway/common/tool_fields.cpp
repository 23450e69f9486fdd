#include "control/gateway/common/tool_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "shared/base/json_text.h"
#include "shared/chat/output_parser.h"
#include "shared/chat/tools.h"
#include "shared/grammar/request.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

std::string name_of(const json& tool) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) return {};
  const json& name = tool["function"].value("name", json());
  return name.is_string() ? name.get<std::string>() : std::string();
}

/// Notes the arguments of a tool that are no strings, or not known to be.
void note_arguments(const json& tool, chat::JsonArguments& to) {
  const std::string name = name_of(tool);
  if (name.empty()) return;
  const json parameters = tool["function"].value("parameters", json());
  const json fields = parameters.is_object() ? parameters.value("properties", json()) : json();
  if (!fields.is_object()) return;
  for (const auto& [key, schema] : fields.items()) {
    const bool text = schema.is_object() && schema.value("type", json()) == "string";
    if (!text) to[name].insert(key);
  }
}

/// Names of the members of a body: the current ones or the older ones.
struct Words {
  const char* tools = "tools";
  const char* choice = "tool_choice";
};
constexpr Words kOld = {"functions", "function_call"};

/// Reduces `tools` to those of these names, in the same order.
void select_named_tools(Fields& fields, const Words& words, const std::set<std::string>& names,
                        json* tools) {
  json selected = json::array();
  std::set<std::string> missing = names;
  for (json& tool : *tools) {
    const std::string name = name_of(tool);
    if (!names.contains(name)) continue;
    missing.erase(name);
    selected.push_back(std::move(tool));
  }
  if (!missing.empty()) {
    return fields.fail(words.choice, "names \"" + *missing.begin() + "\", which '" +
                                         std::string(words.tools) + "' lacks");
  }
  *tools = std::move(selected);
}

/// Adds the name in {"type": "function", "function": {"name": …}}. Returns false if there is none
/// or it was added before.
bool add_name(Fields& fields, const Words& words, const json& entry, std::set<std::string>* names) {
  std::string name = name_of(entry);
  if (name.empty() && entry.is_object() && entry.contains("name") && entry["name"].is_string()) {
    name = entry["name"].get<std::string>();  // the form of function_call and the Responses API
  }
  if (name.empty()) {
    fields.fail(words.choice, "must name a function of '" + std::string(words.tools) + "'");
    return false;
  }
  if (names->insert(name).second) return true;
  fields.fail(words.choice, "names \"" + name + "\" twice");
  return false;
}

/// Reads {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": […]}}.
/// Returns the mode.
std::string select_allowed_tools(Fields& fields, const json& choice, json* tools) {
  const json allowed = choice.value("allowed_tools", choice);  // flat in the Responses API
  const json mode = allowed.is_object() ? allowed.value("mode", json("auto")) : json();
  const json list = allowed.is_object() ? allowed.value("tools", json()) : json();
  if ((mode != "auto" && mode != "required") || !list.is_array() || list.empty()) {
    fields.fail("tool_choice",
                "must have allowed_tools: {\"mode\": \"auto\" or \"required\", \"tools\": […]}");
    return "auto";
  }
  std::set<std::string> names;
  for (const json& entry : list) {
    if (!add_name(fields, {}, entry, &names)) return "auto";
  }
  select_named_tools(fields, {}, names, tools);
  return mode.get<std::string>();
}

struct Choice {
  std::string mode = "auto";  // or "none" or "required"
  bool names_one = false;
};

bool is_mode(const json& choice) {
  return choice == "auto" || choice == "none" || choice == "required";
}

/// Reads the choice and reduces `tools` to those that may be called.
Choice read_choice(Fields& fields, const Words& words, json* tools) {
  const json* choice = fields.take(words.choice);
  if (choice == nullptr) return {};
  if (is_mode(*choice)) return {choice->get<std::string>(), false};
  const json kind = choice->is_object() ? choice->value("type", json()) : json();
  const bool is_old = std::string_view(words.choice) == kOld.choice;
  if (kind == "function" || (is_old && choice->is_object())) {
    std::set<std::string> names;
    if (add_name(fields, words, *choice, &names)) select_named_tools(fields, words, names, tools);
    return {"required", true};
  }
  if (kind == "allowed_tools") return {select_allowed_tools(fields, *choice, tools), false};
  fields.fail(words.choice,
              "must be \"auto\", \"none\", \"required\", or an object that names a function");
  return {};
}

/// Returns why a required call is impossible: the body has no tools, or all of them were left out.
std::string no_call_possible(const Words& words, const json* given,
                             const std::vector<std::string>& ignored) {
  const std::string tools(words.tools);
  if (given == nullptr || !given->is_array() || given->empty()) {
    return "is only allowed with '" + tools + "'";
  }
  std::string names;
  for (const std::string& name : ignored) {
    if (name.rfind(tools + "[", 0) == 0) names += (names.empty() ? "" : ", ") + name;
  }
  return "wants a call, but '" + tools +
         "' has no function that can be called here (left out: " + names + ")";
}

bool wants_call(const json* choice) {
  return choice != nullptr && *choice != "auto" && *choice != "none";
}

/// Returns the names that the body uses; using both is an error.
Words read_words(Fields& fields) {
  const json* tools = fields.take("tools");
  const json* functions = fields.take(kOld.tools);
  const json* call = fields.take(kOld.choice);
  if (functions == nullptr) {
    if (wants_call(call)) fields.fail(kOld.choice, "is only allowed with 'functions'");
    return {};
  }
  if (tools != nullptr && !tools->empty()) {
    fields.fail(kOld.tools, "and 'tools' are one; send one of them");
  }
  const bool names_new = fields.take("tool_choice") != nullptr;
  if (call != nullptr && names_new) {
    fields.fail(kOld.choice, "and 'tool_choice' are one; send one of them");
  }
  return call != nullptr || !names_new ? kOld : Words{kOld.tools};
}

}  // namespace

namespace {

/// Tools as a body offers them.
struct Offer {
  json all;
  json may_call;
  Choice choice;
  bool parallel = false;
  bool is_old = false;  // by the names of before
};

void offer_tools(const Offer& offer, json* root, Generation* out) {
  (*root)["tools"] = offer.choice.mode == "required" ? offer.all : offer.may_call;
  out->shape.tools = true;
  out->shape.function_call = offer.is_old;
  for (const json& tool : offer.may_call) note_arguments(tool, out->shape.json_arguments);
}

/// Has the grammar require a call of one of the tools.
void require_call(Fields& fields, const char* name, const Offer& offer, Generation* out) {
  json must = json::array();
  for (const json& entry : offer.may_call) {
    const json& function = entry["function"];
    json tool = {{"name", function["name"]}};
    if (function.contains("parameters")) tool["parameters"] = function["parameters"];
    must.push_back(std::move(tool));
  }
  out->must_call = must.dump();
  // The grammar that requires a call has the tools as a text within a text.
  if (!fields.check(name, out->budget.make(2 * out->must_call.size()))) return;
  out->one_call = !offer.parallel || offer.choice.names_one || offer.is_old;
}

}  // namespace

void read_tools(Fields& fields, json* root, Generation* out) {
  const Words words = read_words(fields);
  Offer offer;
  offer.is_old = std::string_view(words.tools) == kOld.tools;
  const json* given = fields.take(words.tools);
  offer.all = given == nullptr ? json::array() : *given;
  if (auto fault = chat::normalize_tools(offer.all, &out->ignored, words.tools)) {
    return fields.fail(fault->where, fault->what);
  }
  offer.may_call = offer.all;
  offer.choice = read_choice(fields, words, &offer.may_call);
  offer.parallel = !offer.is_old;
  fields.boolean("parallel_tool_calls", &offer.parallel);
  if (offer.may_call.empty() && offer.choice.mode == "required") {
    return fields.fail(words.choice, no_call_possible(words, given, out->ignored));
  }
  if (offer.may_call.empty() || offer.choice.mode == "none") return;
  offer_tools(offer, root, out);
  if (offer.choice.mode == "required") require_call(fields, words.tools, offer, out);
}

void bind_to_calls(Generation* generation) {
  chat::OutputKind kind = chat::read_output(generation->shape.output);
  if (generation->must_call.empty()) return;
  const bool hermes = kind.format == chat::ToolFormat::kHermes;
  if (!hermes) {  // its calls are control tokens, which no grammar can require, or it has none
    kind.format = chat::ToolFormat::kLlama3;
    generation->shape.output = chat::write_output(kind);
  }
  json source = {{"form", hermes ? "hermes" : "llama3"}};
  source["tools"] = try_parse_json<json>(generation->must_call);
  source["single"] = generation->one_call;
  source["reasoning"] = kind.reasoning;
  source["opened"] = kind.opens_reasoning;
  std::string& extra = generation->submit.sampling.extra;
  json merged = extra.empty() ? json::object() : try_parse_json<json>(extra);
  merged["grammar"] = {{"kind", "tool_call"}, {"source", source.dump()}};
  extra = merged.dump();
}

}  // namespace holdfast::gateway
