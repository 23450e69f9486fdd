#include "shared/sampling/extra.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::sampling {
namespace {

using nlohmann::json;

constexpr std::size_t kStringsMax = 64;
constexpr std::size_t kStringBytesMax = 256;
constexpr std::array<std::string_view, 9> kSteps = {
    "penalties", "dry", "top_n_sigma", "temperature", "top_k", "typ_p", "top_p", "min_p", "xtc"};

Error bad(const std::string& cause) {
  return {Errc::kInvalidRequest, "sampling: " + cause};
}

struct FloatField {
  const char* name;
  float SamplingExtra::*field;
  double min;
  double max;
};
constexpr FloatField kFloats[] = {
    {"typical_p", &SamplingExtra::typical_p, 0, 1},
    {"top_n_sigma", &SamplingExtra::top_n_sigma, -1, 100},
    {"dry_multiplier", &SamplingExtra::dry_multiplier, 0, 100},
    {"dry_base", &SamplingExtra::dry_base, 1, 100},
    {"xtc_probability", &SamplingExtra::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplingExtra::xtc_threshold, 0, 1},
    {"mirostat_tau", &SamplingExtra::mirostat_tau, 0, 100},
    {"mirostat_eta", &SamplingExtra::mirostat_eta, 0, 1},
};
struct CountField {
  const char* name;
  std::int64_t SamplingExtra::*field;
  std::int64_t min;
};
constexpr std::int64_t kCountMax = 1 << 30;
constexpr CountField kCounts[] = {
    {"repeat_last_n", &SamplingExtra::repeat_last_n, -1},
    {"dry_allowed_length", &SamplingExtra::dry_allowed_length, 0},
    {"dry_penalty_last_n", &SamplingExtra::dry_penalty_last_n, -1},
};
struct TextsField {
  const char* name;
  std::vector<std::string> SamplingExtra::*field;
};
constexpr TextsField kTexts[] = {
    {"dry_sequence_breakers", &SamplingExtra::dry_sequence_breakers},
    {"banned_strings", &SamplingExtra::banned_strings},
};

Result<float> read_float(const FloatField& field, const json& value) {
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (number >= field.min && number <= field.max) return static_cast<float>(number);
  return bad(std::string(field.name) + ": expected a number from " + json(field.min).dump() +
             " to " + json(field.max).dump());
}

Result<std::vector<std::string>> read_texts(const std::string& name, const json& value) {
  std::vector<std::string> texts;
  const bool good = value.is_array() && value.size() <= kStringsMax &&
                    std::all_of(value.begin(), value.end(), [](const json& text) {
                      return text.is_string() && !text.get_ref<const std::string&>().empty() &&
                             text.get_ref<const std::string&>().size() <= kStringBytesMax;
                    });
  if (!good) {
    return bad(name + ": expected at most " + std::to_string(kStringsMax) + " texts of 1 to " +
               std::to_string(kStringBytesMax) + " bytes");
  }
  for (const json& text : value) texts.push_back(text.get<std::string>());
  return texts;
}

Result<void> read_bias(const json& value, std::int32_t vocab, SamplingExtra& extra) {
  if (!value.is_object()) return bad("logit_bias: expected an object of token ids to numbers");
  for (const auto& [name, bias] : value.items()) {
    TokenId id = -1;
    const auto r = std::from_chars(name.data(), name.data() + name.size(), id);
    if (r.ec != std::errc{} || r.ptr != name.data() + name.size() || id < 0 || id >= vocab) {
      return bad("logit_bias: token id " + name + "; expected 0 to " + std::to_string(vocab - 1));
    }
    if (!bias.is_number()) return bad("logit_bias: expected a number for token " + name);
    const auto v = bias.get<double>();
    if (!(v >= -1000 && v <= 1000)) {
      return bad("logit_bias of " + name + ": expected -1000 to 1000");
    }
    extra.logit_bias.emplace_back(id, static_cast<float>(v));
  }
  return {};
}

/// Reads the order of the steps. Each step occurs at most once; one that is not named is skipped.
Result<void> read_order(const json& value, SamplingExtra& extra) {
  std::string step_names;
  for (const std::string_view name : kSteps)
    step_names += (step_names.empty() ? "" : ", ") + std::string(name);
  const Error wrong = bad("samplers: expected a list of some of " + step_names + ", each once");
  if (!value.is_array() || value.empty()) return wrong;
  for (const json& item : value) {
    if (!item.is_string()) return wrong;
    std::string name = item.get<std::string>();
    if (name == "typical_p") name = "typ_p";
    const auto at = std::find(kSteps.begin(), kSteps.end(), name);
    if (at == kSteps.end()) return wrong;
    const auto step = static_cast<Step>(at - kSteps.begin());
    if (std::find(extra.order.begin(), extra.order.end(), step) != extra.order.end()) return wrong;
    extra.order.push_back(step);
  }
  return {};
}

Result<void> read_embedding(const json& value, SamplingExtra& extra) {
  const Error wrong = bad(
      "embedding: expected an object with \"pooling\" (mean, cls or last) and \"normalize\" (true "
      "or false), both optional");
  if (!value.is_object()) return wrong;
  EmbeddingOptions options;
  for (const auto& [name, member] : value.items()) {
    if (name == "normalize" && member.is_boolean()) {
      options.normalize = member.get<bool>();
    } else if (name == "pooling" && (member == "mean" || member == "cls" || member == "last")) {
      options.pooling = member.get<std::string>();
    } else {
      return wrong;
    }
  }
  extra.embedding = std::move(options);
  return {};
}

/// Reads {"tokens": 512, "open": true, "marks": ["<think>", "</think>", "</think>"], "anywhere":
/// false}.
Result<void> read_thinking(const json& value, SamplingExtra& extra) {
  const Error wrong =
      bad("thinking: expected an object with \"tokens\" (0 to " + std::to_string(kCountMax) +
          "), \"marks\" (what begins it, what ends it, what is written to end it), and perhaps "
          "\"open\" and \"anywhere\" (true or false)");
  if (!value.is_object()) return wrong;
  ThinkingBudget budget;
  budget.tokens = -1;
  std::vector<std::string> marks;
  for (const auto& [name, member] : value.items()) {
    if (name == "tokens" && member.is_number_integer() && member >= 0 && member <= kCountMax) {
      budget.tokens = member.get<std::int64_t>();
    } else if (name == "marks") {
      HOLDFAST_TRY(marks, read_texts("thinking.marks", member));
    } else if ((name == "open" || name == "anywhere") && member.is_boolean()) {
      (name == "open" ? budget.open : budget.marks.anywhere) = member.get<bool>();
    } else {
      return wrong;
    }
  }
  if (budget.tokens < 0 || marks.size() != 3) return wrong;
  budget.marks.begin = marks[0];
  budget.marks.close = marks[1];
  budget.marks.force = marks[2];
  extra.thinking = std::move(budget);
  return {};
}

Result<void> read_member(const std::string& name, const json& value, std::int32_t vocab,
                         SamplingExtra& extra) {
  if (name == "logit_bias") return read_bias(value, vocab, extra);
  if (name == "samplers") return read_order(value, extra);
  if (name == "embedding") return read_embedding(value, extra);
  if (name == "thinking") return read_thinking(value, extra);
  if (name == "mirostat") {
    if (value != 0 && value != 2) return bad("mirostat: expected 0 (off) or 2");
    extra.mirostat = value.get<std::int32_t>();
    return {};
  }
  for (const FloatField& field : kFloats) {
    if (name != field.name) continue;
    HOLDFAST_TRY(extra.*field.field, read_float(field, value));
    return {};
  }
  for (const CountField& field : kCounts) {
    if (name != field.name) continue;
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : INT64_MIN;
    if (number < field.min || number > kCountMax) {
      return bad(name + ": expected a whole number from " + std::to_string(field.min));
    }
    extra.*field.field = number;
    return {};
  }
  for (const TextsField& field : kTexts) {
    if (name != field.name) continue;
    HOLDFAST_TRY(extra.*field.field, read_texts(name, value));
    return {};
  }
  return Error{Errc::kUnsupported, "sampling: this engine does not know " + name};
}

}  // namespace

std::string_view step_name(Step step) {
  return kSteps.at(static_cast<std::size_t>(step));
}

bool SamplingExtra::needs_sampler_chain() const {
  return typical_p < 1.0F || top_n_sigma > 0.0F || xtc_probability > 0.0F || mirostat != 0 ||
         !order.empty();
}

Result<SamplingExtra> parse_extra(std::string_view text, std::int32_t vocab) {
  SamplingExtra extra;
  if (text.empty()) return extra;
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return bad("extra: expected a JSON object");
  for (const auto& [name, value] : j.items()) {
    if (value.is_null() || name == "grammar") continue;  // read by shared/grammar/request.h
    HOLDFAST_CHECKED(read_member(name, value, vocab, extra));
  }
  if (extra.embedding && j.size() > 1) {
    return bad("embedding: no text is made, so nothing else can be asked of the sampler");
  }
  return extra;
}

}  // namespace holdfast::sampling
