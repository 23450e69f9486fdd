#include "control/gateway/sampling_fields.h"

#include <climits>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/sampling/extra.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kFields[] = {
    "typical_p",      "top_n_sigma", "xtc_probability",       "xtc_threshold",
    "dry_multiplier", "dry_base",    "dry_allowed_length",    "dry_penalty_last_n",
    "repeat_last_n",  "mirostat",    "mirostat_tau",          "mirostat_eta",
    "banned_strings", "samplers",    "dry_sequence_breakers",
};

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

std::string read_sampling_extra(Fields& fields, const std::string& grammar_extra,
                                std::size_t bias_ids_max) {
  json extra = grammar_extra.empty() ? json::object() : try_parse_json<json>(grammar_extra);
  for (const char* name : kFields) {
    const json* value = fields.take(name);
    if (value == nullptr) continue;
    const json one = {{name, *value}};
    const auto good = sampling::parse_extra(one.dump(), INT_MAX);
    if (!good) fields.fail(name, "is not right: " + good.error().what);
    extra[name] = *value;
  }
  if (const json* words = fields.take("bad_words")) {  // vLLM's name
    if (extra.contains("banned_strings")) fields.fail("bad_words", "and 'banned_strings' are one");
    extra["banned_strings"] = *words;
    const auto good = sampling::parse_extra(json{{"banned_strings", *words}}.dump(), INT_MAX);
    if (!good) fields.fail("bad_words", "is not right: " + good.error().what);
  }
  if (const json* bias = fields.take("logit_bias"); bias != nullptr && !bias->empty()) {
    extra["logit_bias"] = bias_object(fields, *bias, bias_ids_max);
    const auto good =
        sampling::parse_extra(json{{"logit_bias", extra["logit_bias"]}}.dump(), INT_MAX);
    if (!good) fields.fail("logit_bias", "is not right: " + good.error().what);
  }
  return extra.empty() ? std::string() : extra.dump();
}

}  // namespace holdfast::gateway
