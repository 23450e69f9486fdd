#include "control/gateway/common/sampling_fields.h"

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/sampling/extra.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

using sampling::Parameter;

/// A parameter that OpenAI's API, or vLLM's where it has none, bounds more narrowly.
struct HttpRange {
  std::string_view name;
  sampling::Range range;
};
constexpr HttpRange kHttpRanges[] = {
    {"temperature", {0, 2}},        {"presence_penalty", {-2, 2}},
    {"frequency_penalty", {-2, 2}}, {"repetition_penalty", {0.01, 10}},
    {"logprobs", {0, 20}},          {"prompt_logprobs", {0, 20}},
};

void read_value(Fields& fields, const Parameter& parameter, float* out) {
  const sampling::Range range = http_range(parameter);
  fields.number(parameter.name, range.low, range.high, out);
}
void read_value(Fields& fields, const Parameter& parameter, std::int32_t* out) {
  std::int64_t number = 0;
  const sampling::Range range = http_range(parameter);
  const auto low = static_cast<std::int64_t>(range.low);
  const auto high = static_cast<std::int64_t>(range.high);
  if (fields.integer(parameter.name, low, high, &number)) *out = static_cast<std::int32_t>(number);
}
void read_value(Fields& fields, const Parameter& parameter, bool* out) {
  fields.boolean(parameter.name, out);
}
void read_value(Fields&, const Parameter&, std::uint64_t*) {}  // seed has a reader of its own

/// Puts a member into the extra; `field` is the name by which the body has it.
void add_option(Fields& fields, std::string_view field, std::string_view name, json value,
                json& extra) {
  const json one = {{std::string(name), value}};
  const auto good = sampling::parse_extra(one.dump(), INT_MAX);
  if (!good) fields.fail(field, "is not right: " + good.error().what);
  extra[std::string(name)] = std::move(value);
}

bool is_option(const Parameter& parameter) {
  bool plain = false;
  sampling::visit_plain(parameter, [&](auto) { plain = true; });
  return !plain && !std::holds_alternative<sampling::LogitBias sampling::SamplingOptions::*>(
                       parameter.member);
}

/// Returns OpenAI's object of ids to numbers. llama-server's form is a list of pairs, in which
/// false is "never".
json bias_object(Fields& fields, const json& value, std::size_t ids_max) {
  json object = json::object();
  if (value.size() > ids_max) {  // each id is looked for among those before it
    fields.fail("logit_bias", "has more than " + std::to_string(ids_max) + " token ids");
    return object;
  }
  if (!value.is_array()) return value;
  for (const json& pair : value) {
    const bool good = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() &&
                      (pair[1].is_number() || pair[1] == false);
    if (!good) {
      fields.fail("logit_bias",
                  "must be an object of token ids to numbers, or a list of [id, number]");
      return object;
    }
    object[pair[0].dump()] = pair[1] == false ? json(-1000) : pair[1];
  }
  return object;
}

}  // namespace

sampling::Range http_range(const Parameter& parameter) {
  const auto* at = std::find_if(std::begin(kHttpRanges), std::end(kHttpRanges),
                                [&](const HttpRange& one) { return one.name == parameter.name; });
  return at == std::end(kHttpRanges) ? parameter.range : at->range;
}

void read_plain_sampling(Fields& fields, wire::Sampling* out) {
  for (const Parameter& parameter : sampling::kParameters) {
    if (parameter.own_reader) continue;
    sampling::visit_plain(parameter,
                          [&](auto member) { read_value(fields, parameter, &(out->*member)); });
  }
  out->top_k = std::max(out->top_k, 0);  // -1 is another word for 0
}

bool read_logprobs(Fields& fields, std::string_view name, std::int64_t* out) {
  const sampling::Range range = http_range(*sampling::find_parameter("logprobs"));
  return fields.integer(name, static_cast<std::int64_t>(range.low),
                        static_cast<std::int64_t>(range.high), out);
}

std::string read_sampling_extra(Fields& fields, const std::string& grammar_extra,
                                std::size_t bias_ids_max) {
  json extra = grammar_extra.empty() ? json::object() : try_parse_json<json>(grammar_extra);
  for (const Parameter& parameter : sampling::kParameters) {
    if (!is_option(parameter)) continue;
    const json* value = fields.take(parameter.name);
    if (value != nullptr) add_option(fields, parameter.name, parameter.name, *value, extra);
  }
  for (const Parameter& parameter : sampling::kParameters) {
    const json* value = parameter.alias.empty() ? nullptr : fields.take(parameter.alias);
    if (value == nullptr) continue;
    const std::string name(parameter.name);
    if (extra.contains(name)) fields.fail(parameter.alias, "and '" + name + "' are one");
    add_option(fields, parameter.alias, name, *value, extra);
  }
  if (const json* bias = fields.take("logit_bias"); bias != nullptr && !bias->empty()) {
    add_option(fields, "logit_bias", "logit_bias", bias_object(fields, *bias, bias_ids_max), extra);
  }
  return extra.empty() ? std::string() : extra.dump();
}

}  // namespace holdfast::gateway
